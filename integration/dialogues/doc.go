// Package dialogues holds what Sluice answers to random dialogues against what
// PostgreSQL answers.
//
// A dialogue is a list of steps. Each step is taken by one of up to three clients,
// by an outsider (DDL in another session, every backend replaced) or by the fault
// that is planned; one at a time, so that a dialogue always goes the same way. A
// client's step sends frames in one write and reads as far as the protocol lets it:
// to the ReadyForQuery of each Query and Sync, or to the answers before a Flush.
//
// A dialogue runs through Sluice first, where two backends serve all clients, and
// then directly, where each client has a PostgreSQL connection of its own. Whatever
// Sluice answered must be what PostgreSQL answers: rows, tags, errors, statuses, and
// after each step the parameters that were reported. In the end fresh clients look at
// what is left on the backends, and the tables must be equal.
//
// Most steps are random; scenes_test.go has those that only mean something together.
// A loss and a conflict must have been caused, see losses_test.go.
//
// Where Sluice told a client that a transaction is lost (08006, 40001, 57014), the
// direct run does as it was told: an error takes the place of what failed. Where the
// outcome is unknown (08007), each possible outcome is tried, and one must explain
// everything that was told later, and the tables. So a row that is there twice, or
// that is there although nothing was to be applied, is a difference.
//
// On the route parts Sluice commits transactions with DDL in parts, and says so by a
// WARNING: the direct run commits there, see parts_test.go.
//
// The routes are the ways to configure Sluice, see routes in world_test.go. What may
// differ is the closed list of docs/compatibility.md.
//
//	make dialogues                              20,000 of them
//	go test ./integration/dialogues -run 'TestDialogues$' -dialogues.seed 7 -dialogues.count 5000 -dialogues.route dsql
//
// Dialogue n of a seed is the same in every run. One that differs is made smaller
// and printed as a script, which runs alone with -dialogues.script FILE and its
// route. "-dialogues.only n" runs one dialogue of a seed, and with -v shows all of it;
// "-dialogues.from n" goes on where a run was stopped.
//
// The mutants in mutants/ each take one fix out of the source; TestMutants shows that
// a difference is found then, or that the named test fails. See mutants_test.go.
package dialogues
