package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// doubtfulCores is the number of CPU cores used by other programs above which a sample is doubtful. On a busy machine
// rates and their ratios were off by up to ten times.
const doubtfulCores = 0.1

// sampleSeries has the values of one candidate (proxy or direct connection) in a workload, one value for each round.
type sampleSeries struct {
	rate, p50, p99, cpu, foreign, stolen []float64
}

// loadSample is the result of one run of a workload.
type loadSample struct {
	rate     float64 // per second
	p50, p99 float64 // microseconds
	cpu      float64 // seconds of the proxy's CPU per 100,000 transactions
	foreign  float64 // cores
	stolen   float64 // cores
}

// failedSample replaces the sample of a failed run in every series, so that each series has one value for each round.
var failedSample = loadSample{missingValue, missingValue, missingValue, missingValue, missingValue, missingValue}

func (s *sampleSeries) add(v loadSample) {
	s.rate = append(s.rate, v.rate)
	s.p50 = append(s.p50, v.p50)
	s.p99 = append(s.p99, v.p99)
	s.cpu = append(s.cpu, v.cpu)
	s.foreign = append(s.foreign, v.foreign)
	s.stolen = append(s.stolen, v.stolen)
}

// measureLoad runs each of pgbench's workloads that --only selects through every candidate (proxy or direct
// connection).
func (b *bench) measureLoad(ctx context.Context, r *report) error {
	list := b.filterWorkloads(workloads())
	if len(list) == 0 {
		return nil
	}
	if err := b.warmUp(ctx); err != nil {
		return err
	}
	taken := make([]map[string]*sampleSeries, len(list))
	for i := range taken {
		taken[i] = map[string]*sampleSeries{direct: {}, pgBouncer: {}, sluice: {}}
	}
	for round := range b.rounds {
		for i := range list {
			if err := b.measureRound(ctx, round, &list[i], taken[i]); err != nil {
				return err
			}
		}
	}
	var foreign, stolen []float64
	for i := range list {
		r.Workloads = append(r.Workloads, newWorkloadResult(&list[i], taken[i]))
		for _, s := range taken[i] {
			foreign = append(foreign, s.foreign...)
			stolen = append(stolen, s.stolen...)
		}
	}
	r.Foreign, r.Stolen = summarize(foreign), summarize(stolen)
	for _, cores := range foreign {
		if cores > doubtfulCores {
			r.Doubtful++
		}
	}
	return nil
}

// warmUp loads the tables into memory and fills the pools.
func (b *bench) warmUp(ctx context.Context) error {
	for _, session := range []bool{false, true} {
		w := workload{clients: maxClients, args: []string{"-S"}, session: session}
		for _, c := range b.rig.candidates(&w) {
			if _, err := b.runPgbench(ctx, &w, c.port); err != nil {
				return fmt.Errorf("warm up %s: %w", c.name, err)
			}
		}
	}
	return nil
}

// measureRound runs one round of one workload, with the candidates (proxies and direct connection) in random order.
func (b *bench) measureRound(ctx context.Context, round int, w *workload, taken map[string]*sampleSeries) error {
	candidates := b.rig.candidates(w)
	if b.quick { // only PgBouncer is compared with
		candidates = slices.DeleteFunc(candidates, func(c candidate) bool { return c.name == direct })
	}
	said := make(map[string]string)
	for _, i := range rand.Perm(len(candidates)) {
		c := candidates[i]
		if w.fresh != "" {
			if _, err := b.rig.runSQL(ctx, 0, w.fresh); err != nil {
				return err
			}
		}
		s, err := b.takeSample(ctx, w, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			b.recordFailure(w.id, c.name, err)
			s = failedSample
		}
		taken[c.name].add(s)
		said[c.name] = fmt.Sprintf("%s %s/s foreign %.2f stolen %.2f", c.name, formatNumber(s.rate), s.foreign, s.stolen)
	}
	b.printProgress(round, w.title, said[direct], said[pgBouncer], said[sluice])
	return nil
}

func (b *bench) takeSample(ctx context.Context, w *workload, c candidate) (loadSample, error) {
	m, err := startCPUMeter(c.pid)
	if err != nil {
		return loadSample{}, err
	}
	got, err := b.runPgbench(ctx, w, c.port)
	if err != nil {
		return loadSample{}, err
	}
	used, err := m.readUsage()
	if err != nil {
		return loadSample{}, err
	}
	return loadSample{
		rate:    got.rate,
		p50:     quantile(got.latencies, 0.50),
		p99:     quantile(got.latencies, 0.99),
		cpu:     cpuPer100k(used.proxy, got.transactions),
		foreign: used.foreign,
		stolen:  used.stolen,
	}, nil
}

// cpuPer100k returns a proxy's CPU time per 100,000 transactions, in seconds. Without a proxy it returns missingValue.
func cpuPer100k(cpu time.Duration, transactions int64) float64 {
	if cpu == 0 {
		return missingValue
	}
	return cpu.Seconds() / float64(transactions) * 100_000
}

// printProgress prints one line with the time, the round, a title and the parts.
func (b *bench) printProgress(round int, title string, parts ...string) {
	fmt.Fprintf(b.progress, "%s round %d/%d  %-30s %s\n",
		time.Now().UTC().Format(time.TimeOnly), round+1, b.rounds, title, strings.Join(parts, "  |  "))
}
