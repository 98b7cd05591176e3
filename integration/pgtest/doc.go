// Package pgtest runs temporary PostgreSQL servers for tests and for `make run`.
//
//	srv := pgtest.Start(t)                    // one server for this test
//	srv := pgtest.Shared(t)                   // one for the whole test binary; needs
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, pgtest.TLS())) }
//
// Each server has a separate directory under the temporary directory. A test's server has its files in memory, if there
// is room and TMPDIR is not set. The server listens on a free port of 127.0.0.1 and on a Unix socket in its directory.
// It trades durability for speed (fsync off). While Main runs, servers without a password are copies of one cluster
// that was made once. The superuser is `postgres`, without a password unless [SCRAM] is given. Package pgtest uses the
// programs of the machine's PostgreSQL, but not its service or clusters.
//
// PostgreSQL refuses to run as root, so for root the server runs under the account `postgres` that Debian's package
// creates. For other users the server runs under the user's account.
//
// No server or directory is left behind. A server ends with its test, and when the test binary is killed the kernel
// sends the postmaster a signal. The next [Launch] then removes the server's directory, because the owner's lock on the
// directory (flock) has ended with the owner.
package pgtest
