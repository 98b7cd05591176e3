package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// The part named pause of the bench lets clients compete for rows. It compares two pauses before the first replay
// (retry.first_delay): the default, and one as long as the pause before any later replay.

const (
	idPause = "pause"

	pauseClients = 16
	pauseSluices = 4
	longPause    = "100ms" // retry.base_delay
)

// pauseWorkload is one workload of the bench's part pause, in which clients compete for a number of rows.
type pauseWorkload struct {
	rows    int
	sluices int     // among which the clients are divided
	refused float64 // share of all commits that dsqlsim refuses in addition, those of winners too
}

func pauseWorkloads() (all []pauseWorkload) {
	for _, sluices := range []int{1, pauseSluices} {
		for _, rows := range []int{1, 10, 1000} {
			all = append(all, pauseWorkload{rows: rows, sluices: sluices})
		}
		for _, rows := range []int{10, 1000} {
			all = append(all, pauseWorkload{rows: rows, sluices: sluices, refused: conflictShare})
		}
	}
	return all
}

func (l pauseWorkload) title() string {
	title := fmt.Sprintf("%d rows", l.rows)
	if l.rows == 1 {
		title = "one row"
	}
	if l.sluices > 1 {
		title += fmt.Sprintf(", %d Sluices", l.sluices)
	}
	if l.refused > 0 {
		title += fmt.Sprintf(", %.0f %% of commits refused beside", 100*l.refused)
	}
	return title
}

// statements returns the statements of one transaction, which increments a counter in a row.
func (l pauseWorkload) statements(int) []string {
	return []string{"BEGIN", fmt.Sprintf("UPDATE account SET n = n + 1 WHERE id = %d", rand.IntN(l.rows)), "COMMIT"}
}

// pauseSample is the result of one run of a pauseWorkload.
type pauseSample struct{ rate, attempts, told float64 }

// pauseResult compares the short and the long pause before the first replay. It has commits per second, attempts for
// each commit, and the share of transactions that ended with a conflict at the client.
type pauseResult struct {
	Title         string       `json:"title"`
	RateLong      roundSummary `json:"long_per_second"`
	RateShort     roundSummary `json:"short_per_second"`
	Ratio         roundSummary `json:"rate_short_to_long"`
	AttemptsLong  roundSummary `json:"attempts_long"`
	AttemptsShort roundSummary `json:"attempts_short"`
	ToldLong      roundSummary `json:"told_long"`
	ToldShort     roundSummary `json:"told_short"`
}

// measurePauses runs all workloads of the part pause, each with the short and the long pause in every round.
func (b *bench) measurePauses(ctx context.Context, r *report) error {
	if !b.isSelected(idPause) {
		return nil
	}
	dir, err := os.MkdirTemp(b.rig.dir, "pause-")
	if err != nil {
		return err
	}
	sim, err := harness.LaunchDSQLSim(ctx, harness.DSQLSimConfig{Bin: b.bin, Dir: dir, Upstream: b.rig.postgres})
	if err != nil {
		return err
	}
	defer sim.Stop(syscall.SIGTERM, stopGrace)
	far, err := newDelayRelay(net.JoinHostPort(loopback, strconv.Itoa(sim.Port)), faultOneWay)
	if err != nil {
		return err
	}
	go far.serve() // ends with close
	defer far.close()
	var sluices [2][]*harness.Sluice // with the long pause, and the short one
	defer func() {
		for _, s := range slices.Concat(sluices[0], sluices[1]) {
			s.Stop(syscall.SIGTERM, stopGrace)
		}
	}()
	for i, env := range []harness.Env{{"DSQL_RETRY_FIRST_DELAY": longPause}, {}} {
		for range pauseSluices {
			dir, err := os.MkdirTemp(dir, "sluice-")
			if err != nil {
				return err
			}
			s, err := harness.LaunchSluice(ctx, harness.SluiceConfig{Bin: b.bin, Dir: dir, Env: sim.Env().With(harness.Env{
				"DSQL_BACKEND_PORT": strconv.Itoa(far.port()), "DSQL_RESERVOIR_MAX_OPEN": strconv.Itoa(pauseClients), "DSQL_LOG_LEVEL": "error"}).With(env)})
			if err != nil {
				return err
			}
			sluices[i] = append(sluices[i], s)
		}
	}
	if err := createFaultTables(ctx, sluices[0][0].DSN("postgres")); err != nil {
		return err
	}
	for _, s := range slices.Concat(sluices[0], sluices[1]) { // pools fill
		all := startClients(s.DSN("postgres"), pauseClients, func(int) []string { return []string{"BEGIN", "SELECT 1", "COMMIT"} })
		time.Sleep(time.Second)
		if _, err := all.stop(); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	for _, l := range pauseWorkloads() {
		result, err := b.measurePause(ctx, l, sim, sluices)
		if err != nil {
			return fmt.Errorf("%s: %w", l.title(), err)
		}
		r.Pauses = append(r.Pauses, result)
	}
	return nil
}

// measurePause runs one workload with the short and with the long pause before the first replay.
func (b *bench) measurePause(ctx context.Context, l pauseWorkload, sim *harness.DSQLSim, sluices [2][]*harness.Sluice) (pauseResult, error) {
	if l.refused > 0 {
		plan := fmt.Sprintf(`[{"at":"commit","action":"fail","error":"conflict","probability":%g,"seed":1}]`, l.refused)
		if _, err := sim.Ask(ctx, "POST", "/faults", plan); err != nil {
			return pauseResult{}, err
		}
		defer sim.Ask(ctx, "DELETE", "/faults", "")
	}
	var taken [2][]pauseSample
	for round := range b.rounds {
		var said [2]string
		for _, i := range rand.Perm(len(sluices)) {
			got, err := b.runContention(ctx, l, sluices[i][:l.sluices])
			if err != nil {
				return pauseResult{}, err
			}
			taken[i] = append(taken[i], got)
			said[i] = fmt.Sprintf("%s %s/s, %.3f attempts, %.2f %% told", [2]string{"long", "short"}[i], formatNumber(got.rate), got.attempts, 100*got.told)
		}
		b.printProgress(round, l.title(), said[:]...)
	}
	each := func(i int, value func(pauseSample) float64) (values []float64) {
		for _, s := range taken[i] {
			values = append(values, value(s))
		}
		return values
	}
	rate := func(s pauseSample) float64 { return s.rate }
	attempts := func(s pauseSample) float64 { return s.attempts }
	told := func(s pauseSample) float64 { return s.told }
	return pauseResult{Title: l.title(), RateLong: summarize(each(0, rate)), RateShort: summarize(each(1, rate)),
		Ratio:        summarize(roundRatios(each(1, rate), each(0, rate))),
		AttemptsLong: summarize(each(0, attempts)), AttemptsShort: summarize(each(1, attempts)),
		ToldLong: summarize(each(0, told)), ToldShort: summarize(each(1, told))}, nil
}

// runContention lets the clients compete for rows for the length of a sample.
func (b *bench) runContention(ctx context.Context, l pauseWorkload, sluices []*harness.Sluice) (pauseSample, error) {
	before, err := countReplays(ctx, sluices)
	if err != nil {
		return pauseSample{}, err
	}
	var crowds []*clientGroup
	began := time.Now()
	for _, s := range sluices {
		crowds = append(crowds, startClients(s.DSN("postgres"), pauseClients/len(sluices), l.statements))
	}
	time.Sleep(time.Duration(b.seconds) * time.Second)
	var committed, told float64
	for _, c := range crowds {
		if _, err := c.stop(); err != nil {
			return pauseSample{}, err
		}
		committed, told = committed+float64(c.committed.Load()), told+float64(c.told.Load())
	}
	lasted := time.Since(began).Seconds()
	after, err := countReplays(ctx, sluices)
	if err != nil {
		return pauseSample{}, err
	}
	return pauseSample{rate: committed / lasted, attempts: (committed + told + after - before) / max(committed, 1), told: told / max(committed+told, 1)}, nil
}

// countReplays returns how many transactions these Sluices have replayed.
func countReplays(ctx context.Context, sluices []*harness.Sluice) (sum float64, err error) {
	for _, s := range sluices {
		text, err := s.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "dsql_tx_retries_total") {
				continue
			}
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}
