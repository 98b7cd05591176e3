// Package replay tests that Sluice replays transactions after a conflict without a difference for the client. It
// uses the built programs and real drivers. Dsqlsim, the simulated DSQL cluster, makes conflicts and cuts
// connections at planned moments, and its ledger records what really happened.
//
// The oracle (files oracle_*) is a property test. Random programs run, each in the manner of one driver, and record the
// answers that they get. Package oracle decides whether the committed data explain these answers. Flags -oracle.seed
// and -oracle.transactions select other programs and more of them.
package replay
