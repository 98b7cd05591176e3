// Command bench compares Sluice with PgBouncer and with no proxy at all, on one
// PostgreSQL in one run. `make bench` is:
//
//	go run ./integration/bench --bin bin    # measures, writes docs/bench.json
//	go run ./integration/bench table        # docs/bench.json → docs/bench.md, README.md
//
// It has six parts, each a loop over rounds:
//
//   - load: pgbench through each candidate, for every workload; then the three in which Sluice
//     needs most CPU, beside PgBouncer's, through a Sluice with a profiler in it;
//   - features: pgbench through a Sluice that rewrites, or keeps what a replay needs, and
//     one that only relays;
//   - idle: what a thousand clients that do nothing cost a fresh proxy;
//   - delayed: a relay in front of PostgreSQL holds every byte back for 2 ms each
//     way, as a server in another building would, and two drivers run Temporal's
//     typical transaction with and without Sluice in between;
//   - conflicts: a tenth of all commits is refused by the stand-in for DSQL, and Sluice
//     runs these transactions again, after the default pause and after a long one;
//   - faults: 16 clients on rows of their own, 10 ms a statement, before and after one
//     fault, while 64 fight for one row, in one Sluice and in two.
//   - pause: 16 clients fight for 1, 10 and 1,000 rows, with a long pause before the first
//     replay and with the default, by one Sluice and by four.
//
// # How to read a figure
//
// Absolute rates drift with the machine, so candidates take turns within a
// round, in a new order each time, and what counts is the median over rounds of
// the ratio between two samples of the same round. A wake-up on another CPU
// costs a virtual machine more than a proxy's whole work for a query, and hides
// it: everything runs on one CPU, this program and PostgreSQL included, so that
// a rate is the sum of everybody's work. CPU time is the kernel's own count in
// nanoseconds. The CPU time of anybody else meanwhile is kept with each sample as
// "foreign", and more than 0.1 cores of it make the sample doubtful; "stolen" is
// what the hypervisor of a virtual machine gave to its neighbours.
//
// PgBouncer is Debian's, in transaction mode with the same pool size. Its
// version there (1.18) has no prepared statements in that mode, so for these
// workloads it is in session mode, which is less work. Both proxies speak TLS to
// the server and plain TCP to pgbench; direct is plain, the quickest there is.
//
// Goals are printed beside the figures they are about. They are not tests: the
// exit code tells only whether everything could be measured.
//
// The programs under test are run as an operator would; nothing of them is
// imported.
package main
