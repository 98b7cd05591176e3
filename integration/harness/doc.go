// Package harness runs the built programs as an operator would: each in a
// process of its own with an environment of its own, ready before it is used,
// its log kept, ended with the test that started it or with the process that
// did, whichever is first.
//
// A test reads:
//
//	bin := harness.Binaries(t)
//	pg := pgtest.Shared(t)
//	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
//	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env()})
//	conn, err := pgx.Connect(ctx, sluice.DSN("postgres"))
//
// The Launch functions are the same for programs without a testing.TB: devrun
// is built on them.
//
// This package knows the programs by their command lines, variables and admin
// endpoints only, and imports none of the packages under test.
package harness
