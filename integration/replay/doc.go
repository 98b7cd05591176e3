// Package replay tests, with the built programs and real drivers, that
// transactions which meet a conflict are run again where their client cannot
// tell: Sluice in front of the stand-in for DSQL, which makes conflicts and cuts
// connections at planned moments and keeps a ledger of what really happened.
//
// The oracle (files oracle_*) is a property test: tellers run random programs in the
// manner of one driver each and write down what they were told, and package oracle
// decides whether what is committed explains it. Flags -oracle.seed and
// -oracle.transactions choose others and more.
package replay
