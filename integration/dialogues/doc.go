// Package dialogues compares Sluice's answers to random dialogues with PostgreSQL's.
//
// A dialogue is a list of steps. One of up to three clients takes a step, or an outsider does, or a planned fault
// happens. A step of the outsider is DDL in another session, or the replacement of every backend. Only one step runs
// at a time, so that a dialogue always takes the same course. In a client's step the client sends frames in one
// write. Then it reads to the ReadyForQuery of each Query and Sync, or to the answers before a Flush.
//
// A dialogue runs through Sluice first, where two backends serve all clients. Then it runs directly, where each client
// has its own PostgreSQL connection. Sluice's answers must equal PostgreSQL's: rows, tags, errors, statuses, and after
// each step the reported parameters. At the end new clients look at the state of the backends, and the tables must be
// equal.
//
// Most steps are random; scenes_test.go has steps that only have a meaning together. A loss or a conflict that Sluice
// reports must have a planned cause, see losses_test.go.
//
// If Sluice reports a transaction as lost (08006, 40001, 57014), the direct run replaces the failed statement by an
// error. If the outcome is unknown (08007), the direct run tries each possible outcome. One outcome must explain all
// later answers, and the tables. So a row that is found twice, or that no outcome applied, is a difference.
//
// On the route parts (a configuration of Sluice), Sluice splits a transaction with DDL into several ones, and sends a
// WARNING. The direct run commits at the same places, see parts_test.go.
//
// The routes are the configurations of Sluice under test, see routes in world_test.go. The allowed differences are the
// closed list of docs/compatibility.md.
//
//	make dialogues                              20,000 of them
//	go test ./integration/dialogues -run 'TestDialogues$' -dialogues.seed 7 -dialogues.count 5000 -dialogues.route dsql
//
// Dialogue n of a seed is the same in every run. A differing dialogue is shrunk and printed as a script, which runs
// alone with -dialogues.script FILE and its route. "-dialogues.only n" runs one dialogue of a seed, and with -v shows
// all of it. "-dialogues.from n" goes on where a run was stopped.
//
// Each mutant in mutants/ takes one fix out of the source. TestMutants shows that the mutant causes a difference, or
// that the named test fails. See mutants_test.go.
package dialogues
