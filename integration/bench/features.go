package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
)

const (
	idConflicts = "conflicts"

	// conflictShare is the share of commits that dsqlsim refuses in the bench's part with conflicts.
	conflictShare = 0.1
	// openTransactions is the number of transactions that the bench holds open to measure the size of their logs.
	openTransactions = poolSize / 2
)

// feature is work of Sluice beyond relaying. The variables in env switch the feature on. With backend.kind postgres,
// the feature is off by default.
type feature struct {
	title string
	env   harness.Env
	loads []workload
}

// features returns the features that the part features of the bench compares with a Sluice that only relays.
func features() []feature {
	return []feature{
		{"rewriting", harness.Env{"DSQL_REWRITE_ENABLED": "true"}, []workload{
			{id: "rewriting-prepared", title: "select-only prepared, c=16", clients: 16, args: []string{"-S", "-M", "prepared"}},
			{id: "rewriting-simple", title: "select-only simple, c=16: every text is new", clients: 16, args: []string{"-S", "-M", "simple"}},
		}},
		{"replay", harness.Env{"DSQL_RETRY_ENABLED": "true"}, []workload{
			{id: "replay-tpcb", title: "TPC-B-like, c=16", clients: 16, args: []string{"-b", "tpcb-like"}, fresh: freshTPCB},
			{id: "replay-prepared", title: "select-only prepared, c=16", clients: 16, args: []string{"-S", "-M", "prepared"}},
		}},
	}
}

// measureFeatures measures what each feature (rewriting, logging for a replay) costs, compared with a Sluice that
// only relays.
func (b *bench) measureFeatures(ctx context.Context, r *report) error {
	for _, f := range features() {
		if err := b.measureFeature(ctx, r, f); err != nil {
			return err
		}
	}
	return nil
}

// measureFeature compares a Sluice that has feature f with one that only relays.
func (b *bench) measureFeature(ctx context.Context, r *report, f feature) error {
	wanted := b.filterWorkloads(f.loads)
	if len(wanted) == 0 {
		return nil
	}
	with, err := b.rig.launchSluice(ctx, b.rig.postgres.Port, f.env)
	if err != nil {
		return err
	}
	defer with.Stop(syscall.SIGTERM, stopGrace)
	for _, w := range wanted {
		result, err := b.measureOnAndOff(ctx, &w, f.title+": "+w.title, with.Port, b.rig.sluice.Port, nil)
		if err != nil {
			return err
		}
		r.Features = append(r.Features, result)
	}
	if f.env["DSQL_RETRY_ENABLED"] == "true" {
		r.LogBytes, err = b.measureLogBytes(ctx, with)
	}
	return err
}

// measureOnAndOff runs a workload through two Sluices in turns. The Sluice at port on has the feature, and the one at
// port off lacks it. Before each sample it calls prepare, with true if the feature is on.
func (b *bench) measureOnAndOff(ctx context.Context, w *workload, title string, on, off int, prepare func(on bool) error) (featureResult, error) {
	ports, rates := [2]int{off, on}, [2][]float64{}
	for _, port := range ports { // pools and caches fill
		if _, err := b.runPgbench(ctx, w, port); err != nil {
			return featureResult{}, fmt.Errorf("%s: warm up: %w", title, err)
		}
	}
	for round := range b.rounds {
		var said [2]string
		for _, i := range rand.Perm(len(ports)) {
			if w.fresh != "" {
				if _, err := b.rig.runSQL(ctx, 0, w.fresh); err != nil {
					return featureResult{}, err
				}
			}
			if prepare != nil {
				if err := prepare(i == 1); err != nil {
					return featureResult{}, err
				}
			}
			name := [2]string{"off", "on"}[i]
			got, err := b.runPgbench(ctx, w, ports[i])
			if ctx.Err() != nil {
				return featureResult{}, ctx.Err()
			}
			if err != nil {
				b.recordFailure(w.id, name, err)
				got.rate = missingValue
			}
			rates[i] = append(rates[i], got.rate)
			said[i] = name + " " + formatNumber(got.rate) + "/s"
		}
		b.printProgress(round, title, said[:]...)
	}
	return featureResult{ID: w.id, Title: title, Off: summarize(rates[0]), On: summarize(rates[1]),
		Ratio: summarize(roundRatios(rates[1], rates[0]))}, nil
}

// measureLogBytes returns how many bytes Sluice stores for an open transaction that has run four of TPC-B's
// statements.
func (b *bench) measureLogBytes(ctx context.Context, s *harness.Sluice) (float64, error) {
	for i := range openTransactions {
		config, err := pgx.ParseConfig(s.DSN(database))
		if err != nil {
			return 0, err
		}
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return 0, err
		}
		defer conn.Close(ctx)
		tx, err := conn.Begin(ctx)
		if err != nil {
			return 0, err
		}
		for _, st := range []struct {
			sql  string
			args []any
		}{
			{"UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", []any{i, i + 1}},
			{"SELECT abalance FROM pgbench_accounts WHERE aid = $1", []any{i + 1}},
			{"UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2", []any{i, i + 1}},
			{"INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)", []any{i, 1, i, i}},
		} {
			if _, err := tx.Exec(ctx, st.sql, st.args...); err != nil {
				return 0, err
			}
		}
	}
	text, err := s.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	const name = "dsql_tx_log_bytes "
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name); found {
			total, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return total / openTransactions, err
		}
	}
	return 0, fmt.Errorf("the metrics have no %s", name)
}

// measureConflicts measures the rate while dsqlsim, the simulated DSQL cluster, refuses a share of all commits. It
// measures with the default pause before the first replay and with longPause.
func (b *bench) measureConflicts(ctx context.Context, r *report) error {
	if !b.isSelected(idConflicts) {
		return nil
	}
	dir, err := os.MkdirTemp(b.rig.dir, "dsqlsim-")
	if err != nil {
		return err
	}
	sim, err := harness.LaunchDSQLSim(ctx, harness.DSQLSimConfig{Bin: b.bin, Dir: dir, Upstream: b.rig.postgres})
	if err != nil {
		return err
	}
	defer sim.Stop(syscall.SIGTERM, stopGrace)
	plan := fmt.Sprintf(`[{"at":"commit","action":"fail","error":"conflict","probability":%g,"seed":1}]`, conflictShare)
	refuse := func(on bool) error {
		if _, err := sim.Ask(ctx, "DELETE", "/faults", ""); err != nil || !on {
			return err
		}
		_, err := sim.Ask(ctx, "POST", "/faults", plan)
		return err
	}
	// With --max-tries, pgbench sends a transaction again after a conflict, as an application would.
	w := workload{id: idConflicts, clients: 16, args: []string{"-b", "simple-update", "--max-tries=10"}}
	for _, pause := range []struct {
		title string
		env   harness.Env
	}{{}, {", first replay after " + longPause, harness.Env{"DSQL_RETRY_FIRST_DELAY": longPause}}} {
		dir, err := os.MkdirTemp(dir, "sluice-")
		if err != nil {
			return err
		}
		s, err := harness.LaunchSluice(ctx, harness.SluiceConfig{Bin: b.bin, Dir: dir, Env: sim.Env().With(harness.Env{
			"DSQL_RESERVOIR_MAX_OPEN": strconv.Itoa(poolSize), "DSQL_LOG_LEVEL": "warn"}).With(pause.env)})
		if err != nil {
			return err
		}
		title := fmt.Sprintf("%.0f %% of commits refused, simple-update, c=16%s", 100*conflictShare, pause.title)
		result, err := b.measureOnAndOff(ctx, &w, title, s.Port, s.Port, refuse)
		if err := errors.Join(err, refuse(false)); err != nil {
			s.Stop(syscall.SIGTERM, stopGrace)
			return err
		}
		s.Stop(syscall.SIGTERM, stopGrace)
		r.Features = append(r.Features, result)
	}
	return nil
}
