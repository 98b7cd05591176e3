package main

import (
	"context"
	"strconv"
	"syscall"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// mappedRows is the number of rows of the table whose bytea key is mapped (stored as text of hexadecimal digits).
const mappedRows = 1000

// mappedWorkloads returns the workloads over a table whose key is bytea. The key is stored either as bytea, where
// dsqlsim allows that, or as text of hexadecimal digits (rewrite.bytea: hex).
func mappedWorkloads() []workload {
	const point = "\\set i random(1, 1000)\nSELECT v FROM items WHERE k = decode(lpad(to_hex(:i::int), 32, '0'), 'hex');\n"
	return []workload{
		{id: "mapped-rows", title: "1,000 rows, c=4", clients: 4, script: "SELECT k, v FROM items;\n", args: []string{"-M", "prepared"}},
		{id: "mapped-prepared", title: "one row by its key, prepared, c=4", clients: 4, script: point, args: []string{"-M", "prepared"}},
		{id: "mapped-simple", title: "one row by its key, simple, c=4: every text is new", clients: 4, script: point, args: []string{"-M", "simple"}},
	}
}

// measureMapping measures what it costs to store bytea keys as text, with two instances of dsqlsim that have the same
// table.
func (b *bench) measureMapping(ctx context.Context, r *report) error {
	wanted := b.filterWorkloads(mappedWorkloads())
	if len(wanted) == 0 {
		return nil
	}
	var ports [2]int
	for i, how := range []string{"hex", "off"} {
		// Each Sluice has its own server, since a Sluice without the mapping refuses the names of tables that another Sluice
		// maps.
		postgres, err := pgtest.Launch(pgtest.TLS())
		if err != nil {
			return err
		}
		defer postgres.Close()
		conf := harness.DSQLSimConfig{Bin: b.bin, Dir: postgres.SocketDir, Upstream: postgres, Args: []string{"--allow-bytea-keys"}}
		sim, err := harness.LaunchDSQLSim(ctx, conf)
		if err != nil {
			return err
		}
		defer sim.Stop(syscall.SIGTERM, stopGrace)
		s, err := harness.LaunchSluice(ctx, harness.SluiceConfig{Bin: b.bin, Dir: postgres.SocketDir, Env: sim.Env().With(harness.Env{
			"DSQL_RESERVOIR_MAX_OPEN": strconv.Itoa(poolSize), "DSQL_LOG_LEVEL": "error", "DSQL_REWRITE_BYTEA": how})})
		if err != nil {
			return err
		}
		defer s.Stop(syscall.SIGTERM, stopGrace)
		for _, sql := range []string{
			"CREATE TABLE items (k bytea PRIMARY KEY, v int)",
			"INSERT INTO items SELECT decode(lpad(to_hex(i), 32, '0'), 'hex'), i FROM generate_series(1, " + strconv.Itoa(mappedRows) + ") i",
		} {
			if _, err := b.rig.runSQL(ctx, s.Port, sql); err != nil {
				return err
			}
		}
		ports[i] = s.Port
	}
	for _, w := range wanted {
		result, err := b.measureOnAndOff(ctx, &w, "mapped bytea key: "+w.title, ports[0], ports[1], nil)
		if err != nil {
			return err
		}
		r.Features = append(r.Features, result)
	}
	return nil
}
