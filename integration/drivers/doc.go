// Package drivers runs real clients against every way to a PostgreSQL: direct,
// which is the oracle, through Sluice in both pairings, and through Sluice on
// the stand-in for DSQL.
//
// A client plays scenarios and writes down what it was told: rows in the
// client's own types, command tags, every field of an error, notices. The
// transcript of a scenario must be the same on every route. Most scenarios are
// files that every driver plays:
//
//	# What it shows.
//	needs temp                          features, see refusals_test.go
//	a  SELECT $1::int4, $2 <- [1, "x"]  session a runs a statement, with arguments (JSON)
//	a* SELECT 1                         the same as a named prepared statement
//	a& SELECT pg_sleep(60)              the same in the background, until a !wait
//	a !cancel                           asks for the end of what runs in the background
//	a !wait                             waits for it, and shows what came of it
//	a !kill                             cuts the connection without a goodbye
//	a !until SELECT ...                 repeats a query until it answers true
//	a !notified                         waits for a notification
//	a !copyin COPY ... <- ["1\tx\n"]    sends data; !copyfail breaks off after it
//	a !copyout COPY ...                 receives data
//
// Sessions are letters and connect when they are first named. {t} is a name for
// a table (or a channel) of the client's own. An argument may also be
// {"bytes": "hex"}, {"time": "RFC 3339"} or {"repeat": ["text", times]}. At the
// end session a rolls back and shows that it still works.
//
// What is particular to a client (its pipelines, its pool) is code beside it:
// Go here, python/ and node/ for the clients in those languages, testdata/psql
// for psql.
//
// Where the stand-in lacks a feature that a scenario needs, the transcript is
// the same up to the first statement that uses it, and there stands the
// recorded refusal, from the one table in refusals_test.go.
package drivers
