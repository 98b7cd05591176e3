// Package fleetsim simulates a fleet of sidecars in virtual time. The real lease with its real
// limiter runs on a table with DynamoDB's limits and latency, in front of a cluster with DSQL's. It
// consists of tests.
//
//	go test ./reservoir/fleetsim -v -run Fleet
//
// prints the table of docs/operations.md.
//
// No seed fixes a run, because goroutines of the same virtual moment run in any order. Each bound
// is where one run in 10,000 would exceed it, estimated from the spread of some 20 runs. The worst
// of these runs as a bound would be exceeded once in a few dozen runs.
//
// A killed sidecar's file is unlocked, a suspended one's is not: the files are real.
//
// # The model
//
// A call takes 4 ms at the median, log-normal. One request in 500 is lost, and one answer in 500.
// Partition keys are hashed onto four partitions (-partitions), as in a new table that is billed on
// demand. Each takes 1,000 write units per second, with at most one second's worth unused, and
// throttles the rest. Each shard has its own key; with -format 1 all items of the cluster have one.
// A write costs a unit per KB of item, a refused one too. The table's clock shows whole seconds and
// is up to a second off the sidecars'. The cluster takes 100 connections per second and 1,000 at
// once; it refuses none, but counts those above. A dial takes 50 ms.
package fleetsim
