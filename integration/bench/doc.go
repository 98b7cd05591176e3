// Command bench compares Sluice with PgBouncer and with no proxy at all, on one PostgreSQL in one run. `make bench` is:
//
//	go run ./integration/bench --bin bin    # measures, writes docs/bench.json
//	go run ./integration/bench table        # docs/bench.json → docs/bench.md, README.md
//
// The bench has seven parts, each a loop over rounds:
//
//   - load runs every workload of pgbench through each candidate. The three workloads with the highest CPU ratio to
//     PgBouncer then run once more, through a Sluice with a profiler.
//   - features runs pgbench through a Sluice that rewrites statements, through one that logs them for a replay, and
//     through one that only relays.
//   - idle measures the memory that a thousand idle clients cost a new proxy.
//   - delayed runs Temporal's typical transaction by two drivers, with and without Sluice. A relay before PostgreSQL
//     holds every byte back for 2 ms each way, as the distance to another building would.
//   - conflicts lets dsqlsim, the simulated DSQL cluster, refuse a tenth of all commits. Sluice replays these
//     transactions, after the default pause and after a long one.
//   - faults measures 16 clients on separate rows, with 10 ms a statement, before and after one fault. Meanwhile 64
//     clients fight for one row, through one Sluice and through two.
//   - pause lets 16 clients fight for 1, 10 and 1,000 rows, through one Sluice and through four. It compares a long
//     pause before the first replay with the default pause.
//
// # How to read a figure
//
// Absolute rates drift with the machine. Candidates therefore take turns within a round, in a new order each time. The
// figure of a comparison is the median over rounds of the ratio between two samples of the same round. On a virtual
// machine a wake-up on another CPU costs more than a proxy's whole work for a query. All programs, this one and
// PostgreSQL included, therefore run on one CPU, so that a rate is the sum of all work. CPU time is the kernel's count
// in nanoseconds. Each sample records the CPU time of other programs as "foreign"; more than 0.1 cores make the sample
// doubtful. "Stolen" is the CPU time that the hypervisor gave to other virtual machines.
//
// PgBouncer is Debian's, in transaction mode with the same pool size. Its version there (1.18) has no prepared
// statements in that mode. For workloads with prepared statements it therefore runs in session mode, which is less
// work. Both proxies speak TLS to the server and plain TCP to pgbench. Candidate direct uses plain TCP, the quickest
// way.
//
// The bench prints goals beside their figures. Goals are not tests: the exit code says only whether everything could be
// measured.
//
// The bench runs the programs as an operator would, and imports no code of them.
package main
