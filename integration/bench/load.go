package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// doubtful is the number of foreign cores above which a sample is doubtful. On a busy machine rates and their ratios
// were off by up to ten times.
const doubtful = 0.1

// series are one candidate's values in a workload, one for each round.
type series struct {
	rate, p50, p99, cpu, foreign, stolen []float64
}

// sample is the result of one run of a workload.
type sample struct {
	rate     float64 // per second
	p50, p99 float64 // microseconds
	cpu      float64 // seconds of the proxy's CPU per 100,000 transactions
	foreign  float64 // cores
	stolen   float64 // cores
}

// failedSample takes the place of a failed run in every series, so that the rounds stay aligned.
var failedSample = sample{missing, missing, missing, missing, missing, missing}

func (s *series) add(v sample) {
	s.rate = append(s.rate, v.rate)
	s.p50 = append(s.p50, v.p50)
	s.p99 = append(s.p99, v.p99)
	s.cpu = append(s.cpu, v.cpu)
	s.foreign = append(s.foreign, v.foreign)
	s.stolen = append(s.stolen, v.stolen)
}

// load is the part with pgbench: every wanted workload through every candidate.
func (b *bench) load(ctx context.Context, r *report) error {
	list := b.wanted(workloads())
	if len(list) == 0 {
		return nil
	}
	if err := b.warmUp(ctx); err != nil {
		return err
	}
	taken := make([]map[string]*series, len(list))
	for i := range taken {
		taken[i] = map[string]*series{direct: {}, pgBouncer: {}, sluice: {}}
	}
	for round := range b.rounds {
		for i := range list {
			if err := b.turns(ctx, round, &list[i], taken[i]); err != nil {
				return err
			}
		}
	}
	var foreign, stolen []float64
	for i := range list {
		r.Workloads = append(r.Workloads, newResult(&list[i], taken[i]))
		for _, s := range taken[i] {
			foreign = append(foreign, s.foreign...)
			stolen = append(stolen, s.stolen...)
		}
	}
	r.Foreign, r.Stolen = summarize(foreign), summarize(stolen)
	for _, cores := range foreign {
		if cores > doubtful {
			r.Doubtful++
		}
	}
	return nil
}

// warmUp loads the tables into memory and fills the pools.
func (b *bench) warmUp(ctx context.Context) error {
	for _, session := range []bool{false, true} {
		w := workload{clients: mostClients, args: []string{"-S"}, session: session}
		for _, c := range b.rig.candidates(&w) {
			if _, err := b.pgbench(ctx, &w, c.port); err != nil {
				return fmt.Errorf("warm up %s: %w", c.name, err)
			}
		}
	}
	return nil
}

// turns runs one round of one workload, with the candidates in random order.
func (b *bench) turns(ctx context.Context, round int, w *workload, taken map[string]*series) error {
	candidates := b.rig.candidates(w)
	if b.quick { // only PgBouncer is compared with
		candidates = slices.DeleteFunc(candidates, func(c candidate) bool { return c.name == direct })
	}
	said := make(map[string]string)
	for _, i := range rand.Perm(len(candidates)) {
		c := candidates[i]
		if w.fresh != "" {
			if _, err := b.rig.sql(ctx, 0, w.fresh); err != nil {
				return err
			}
		}
		s, err := b.sample(ctx, w, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			b.failed(w.id, c.name, err)
			s = failedSample
		}
		taken[c.name].add(s)
		said[c.name] = fmt.Sprintf("%s %s/s foreign %.2f stolen %.2f", c.name, number(s.rate), s.foreign, s.stolen)
	}
	b.say(round, w.title, said[direct], said[pgBouncer], said[sluice])
	return nil
}

func (b *bench) sample(ctx context.Context, w *workload, c candidate) (sample, error) {
	m, err := startMeter(c.pid)
	if err != nil {
		return sample{}, err
	}
	got, err := b.pgbench(ctx, w, c.port)
	if err != nil {
		return sample{}, err
	}
	used, err := m.read()
	if err != nil {
		return sample{}, err
	}
	return sample{
		rate:    got.rate,
		p50:     quantile(got.latencies, 0.50),
		p99:     quantile(got.latencies, 0.99),
		cpu:     per100k(used.proxy, got.transactions),
		foreign: used.foreign,
		stolen:  used.stolen,
	}, nil
}

// per100k returns a proxy's CPU time per 100,000 transactions, in seconds. It returns missing without a proxy.
func per100k(cpu time.Duration, transactions int64) float64 {
	if cpu == 0 {
		return missing
	}
	return cpu.Seconds() / float64(transactions) * 100_000
}

// say prints a line of progress.
func (b *bench) say(round int, title string, parts ...string) {
	fmt.Fprintf(b.progress, "%s round %d/%d  %-30s %s\n",
		time.Now().UTC().Format(time.TimeOnly), round+1, b.rounds, title, strings.Join(parts, "  |  "))
}
