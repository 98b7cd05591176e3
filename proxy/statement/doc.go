// Package statement has prepared statements as values. The package sends nothing and knows no session.
//
//	template.go     Template, one text with its plan, shared by all clients
//	description.go  Description, the server's answer to a Describe
//	cache.go        Cache, the shared templates and the epoch of the schema
//	client.go       Client and ClientSet, the statements of one client by name
//	server.go       Server and ServerSet, the statements of one backend, under names of Sluice's own
//	budget.go       Budget, the memory of all texts and descriptions
//
// A client's name is never sent to a server. What is cached about a template is valid for one epoch, a counter of the
// schema changes that Sluice has noticed.
//
// Cache and Budget are safe for concurrent use. One goroutine owns a ClientSet, and the session that has the backend
// owns a ServerSet.
package statement
