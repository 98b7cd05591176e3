// Package doctor has the commands check and doctor, which ask a server.
//
//	check.go     check: prints the configuration; --connect opens one backend
//	doctor.go    doctor: the command and its report
//	examine.go   one run of doctor: creates a schema, asks, removes the schema
//	questions.go the questions; questionplans.go and questionlocks.go have more of them
//	query.go     simple queries on a backend
//
// doctor writes in a schema with a random name only. doctor removes the schema after a signal too. If the removal
// fails, doctor prints the statement that removes the schema.
package doctor
