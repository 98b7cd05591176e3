// Package pgtest runs throw-away PostgreSQL servers for tests and for `make run`.
//
//	srv := pgtest.Start(t)                    // one server for this test
//	srv := pgtest.Shared(t)                   // one for the whole test binary; needs
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, pgtest.TLS())) }
//
// A server has a directory of its own under the temporary directory (a test's in
// memory, where there is room and TMPDIR is not set), listens on
// a free port of 127.0.0.1 and on a Unix socket in that directory, and trades
// durability for speed (fsync off). While Main runs, servers without a password are
// copies of one cluster that was made once. Its superuser is `postgres`, without a
// password unless [SCRAM] is given. Nothing of the machine's own PostgreSQL
// service or clusters is touched: only its programs are used.
//
// PostgreSQL refuses to run as root, so root runs it under the account
// `postgres` that Debian's package creates; anybody else runs it as himself.
//
// Nothing is left behind. A server ends with its test, and when the test binary
// is killed the kernel tells the postmaster. The directory of such a server is
// removed by the next [Launch]: its owner's lock on it (flock) has vanished with
// the owner.
package pgtest
