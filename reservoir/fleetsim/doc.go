// Package fleetsim simulates a fleet of sidecars in virtual time: the real lease
// and its real limiter, on a table with DynamoDB's limits and latency, in front
// of a cluster with DSQL's. It consists of tests.
//
//	go test ./reservoir/fleetsim -v -run Fleet
//
// prints the table of docs/operations.md.
//
// Chance plays a part, and no seed fixes a run: goroutines of the same virtual moment
// run in any order. So each bound stands where one run in 10,000 would pass it, which is
// estimated from the spread of some 20 runs. A bound at the worst of these would be passed
// once in a few dozen runs.
//
// A killed sidecar's file is unlocked, a suspended one's is not: the files are real
// ones.
//
// # The model
//
// A call takes 4 ms at the median, log-normal; one in 500 is lost on its way,
// the answer of one in 500 on its way back. Partition keys are hashed onto four
// partitions (-partitions), as a new table has that is billed on demand. Each takes
// 1,000 write units per second, saved up for one second; what is beyond is throttled.
// Each shard has a key of its own; with -format 1 all items of the cluster have one. A write costs a
// unit per KB of item, a refused one too. The table's clock shows whole seconds
// and is up to a second off the sidecars'. The cluster takes 100 connections
// per second and 1,000 at once; it refuses nothing, what is over is counted. A
// dial takes 50 ms.
package fleetsim
