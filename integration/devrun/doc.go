// Command devrun is behind `make run`: a throw-away PostgreSQL with pgbench's
// tables, the stand-in for Aurora DSQL in front of it, and Sluice in front of
// that, all on the loopback, until Ctrl-C.
//
// Everything lives in one directory under the temporary directory and in child
// processes that the kernel ends should devrun be killed, so that a second run
// starts clean however the first one ended. Nothing in it is of use elsewhere:
// the cluster's name and the AWS key are made up.
package main
