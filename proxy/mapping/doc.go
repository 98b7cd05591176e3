// Package mapping holds the relations of a database, and resolves the relation names in a session's queries. Sluice
// needs the relations where columns are mapped (bytea keys stored as text), since a query's meaning depends on mapped
// columns.
//
//	keeper.go      Keeper, a process's snapshot of the schema: when to read it, and replacing it
//	load.go        Load, one reading of the schema for all waiting sessions
//	reader.go      the queries of one reading, sent to one backend
//	errors.go      errors of readings, and the client's error for them
//	searchpath.go  the search path of a session, by its settings
//	view.go        View, the names of one session
//	texts.go       queries that depend on no relation, or on more than one snapshot
//	replanner.go   Replanner, new plans for the texts of a replay
//
// A Keeper sends nothing. The process implements Server, and a session passes a Query for its own backend. Package
// catalog has the SQL of the queries.
package mapping
