// Package temporal runs a real Temporal server on Sluice: its own programs with
// all four services, their data in the stand-in for DSQL, through Sluice. Clients
// and workers use Temporal's SDK, and a tap between server and Sluice counts the
// errors that the server was told of.
//
// What runs is a table of kinds of workflows: each says how it is driven and what
// its result and its history have to be.
//
// Visibility belongs to another store than DSQL: a PostgreSQL behind a second Sluice, or
// SQLite where time is short. The stand-in refuses what DSQL refuses; Sluice maps the keys
// of type bytea (rewrite.bytea).
//
// With flags there is more: Temporal's own tests of its persistence (-suites), what exceeds
// DSQL's limits, and a cluster that is away (-limits).
//
// greet is a client of a server elsewhere, such as integration/kubernetes runs.
//
// The module is one of its own, so that the programs are built with the versions
// that Temporal's go.mod names, the driver included, and none of them gets near
// Sluice's. From Sluice's module it takes the packages that run programs.
package temporal
