// Package fleetsim simulates a fleet of sidecars in virtual time. The real lease with its real limiter runs on a table
// with DynamoDB's limits and latency, and dials a cluster with DSQL's limits. The package consists of tests.
//
//	go test ./reservoir/fleetsim -v -run Fleet
//
// prints the table of docs/operations.md.
//
// No seed makes a run repeatable, because goroutines of the same virtual moment run in any order. Each bound of the
// tests is a value that one run in 10,000 would exceed, estimated from the spread of some 20 runs. If the worst of
// these runs were the bound, one run in a few dozen would exceed it.
//
// When a sidecar is killed, its lease file is unlocked. The file of a suspended sidecar stays locked. The files are
// real.
//
// # The model
//
// A call of the table takes 4 ms at the median, log-normal. One request in 500 is lost, and one answer in 500.
// Partition keys are hashed onto four partitions (-partitions), as in a new table that is billed on demand. Each
// partition takes 1,000 write units per second, with at most one second's worth unused, and throttles further writes.
//
// Each shard has its own key. With -format 1 all items of the cluster have one key. A write costs a unit per KB of
// item, and so does a refused write. The table's clock shows whole seconds and differs from the sidecars' clocks by up
// to a second.
//
// The cluster takes 100 connections per second and 1,000 at once. The cluster refuses no connection, but counts the
// connections above these limits. A dial takes 50 ms.
package fleetsim
