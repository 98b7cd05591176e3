// Package harness runs the built programs as an operator would. Each program runs in a separate process with its own
// environment. The harness waits until the program is ready, and stores its log. A program ends with the test or with
// the process that started it, whichever ends first.
//
// A test looks like this:
//
//	bin := harness.Binaries(t)
//	pg := pgtest.Shared(t)
//	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
//	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env()})
//	conn, err := pgx.Connect(ctx, sluice.DSN("postgres"))
//
// The Launch functions do the same for programs without a testing.TB, such as devrun.
//
// Package harness uses only the programs' command lines, variables and admin endpoints, and imports none of the
// packages under test.
package harness
