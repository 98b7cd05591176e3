// Package replay tests, with the built programs and real drivers, that
// transactions which meet a conflict are run again where their client cannot
// tell: Sluice in front of the stand-in for DSQL, which makes conflicts and cuts
// connections at planned moments and keeps a ledger of what really happened.
package replay
