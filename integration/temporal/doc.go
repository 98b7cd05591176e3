// Package temporal runs a real Temporal server through Sluice. Temporal's own programs run all four services, with
// their data in dsqlsim, the simulated DSQL cluster. Clients and workers use Temporal's SDK. A tap between the
// server and Sluice counts the errors that the server got.
//
// A table lists the kinds of workflows. Each kind says how the test drives it, and which result and history it must
// have.
//
// Visibility needs a store other than DSQL: a PostgreSQL behind a second Sluice, or SQLite where time is short.
// Dsqlsim refuses the same statements as DSQL, and Sluice maps the keys of type bytea (rewrite.bytea).
//
// Flags select further tests: -suites runs Temporal's own tests of its persistence. -limits tests data beyond DSQL's
// limits, and a cluster that is away.
//
// greet is a client of a Temporal server elsewhere, for example of the one in integration/kubernetes.
//
// Package temporal is in a separate module, so that the programs are built with the versions in Temporal's go.mod,
// including the driver. None of these versions affects Sluice. From Sluice's module it uses the packages that run
// programs.
package temporal
