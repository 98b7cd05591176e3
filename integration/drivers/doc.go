// Package drivers runs real clients on every route to a PostgreSQL server. The direct route is the oracle. The other
// routes are through Sluice with each value of the setting pairing, and through Sluice on dsqlsim, the simulated DSQL
// cluster. (A backend serves a transaction or a session, as pairing says.)
//
// A client plays scenarios and records the answers: rows in the client's own types, command tags, every field of an
// error, notices. The transcript of a scenario must be the same on every route. Most scenarios are files that every
// driver plays:
//
//	# What it shows.
//	needs temp                          features, see refusals_test.go
//	a  SELECT $1::int4, $2 <- [1, "x"]  session a runs a statement, with arguments (JSON)
//	a* SELECT 1                         the same as a named prepared statement
//	a& SELECT pg_sleep(60)              the same in the background, until a !wait
//	a !cancel                           cancels the statement in the background
//	a !wait                             waits for that statement, and shows its result
//	a !kill                             cuts the connection without a goodbye
//	a !until SELECT ...                 repeats a query until it answers true
//	a !notified                         waits for a notification
//	a !copyin COPY ... <- ["1\tx\n"]    sends data; !copyfail breaks off after it
//	a !copyout COPY ...                 receives data
//
// Sessions have letters as names and connect when they are first named. {t} is a name for a table (or a channel) that
// belongs to one client. An argument may also be {"bytes": "hex"}, {"time": "RFC 3339"} or {"repeat": ["text", times]}.
// At the end session a rolls back and shows that it still works.
//
// Scenarios for one client only (its pipelines, its pool) are code. It is Go in package drivers, Python in python/,
// JavaScript in node/, and in testdata/psql scripts for psql.
//
// If dsqlsim lacks a feature that a scenario needs, the transcript is the same up to the first statement with that
// feature. The recorded refusal follows, from the table in refusals_test.go.
package drivers
