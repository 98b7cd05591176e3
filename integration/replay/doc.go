// Package replay tests, with the built programs and real drivers, that Sluice replays transactions after a conflict
// without a difference for the client. The stand-in for DSQL makes conflicts and cuts connections at planned moments,
// and its ledger records what really happened.
//
// The oracle (files oracle_*) is a property test. Random programs run, each in the manner of one driver, and record the
// answers that they get. Package oracle decides whether the committed data explain these answers. Flags -oracle.seed
// and -oracle.transactions select other programs and more of them.
package replay
