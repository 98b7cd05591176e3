// Command devrun implements `make run`. It runs a temporary PostgreSQL with pgbench's tables. In front of PostgreSQL
// it runs dsqlsim, which simulates Aurora DSQL, and in front of dsqlsim it runs Sluice. All listen on the loopback,
// until Ctrl-C.
//
// All files are in one directory under the temporary directory. The kernel ends the child processes if devrun is
// killed, so a second run starts clean in any case. The cluster's name and the AWS key are made up, and of no use
// elsewhere.
package main
