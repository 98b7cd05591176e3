package main

import "testing"

func TestVerdict(t *testing.T) {
	t.Parallel()
	high := goal{least: true, bound: 0.95, aim: 1.05}
	low := goal{bound: 8, aim: 4}
	boundOnly := goal{least: true, bound: 1.1}
	aimOnly := goal{aim: 3}
	for _, tt := range []struct {
		goal   goal
		median float64
		want   string
	}{
		{high, 0.94, "missed"}, {high, 0.95, "met"}, {high, 1.05, "met, and the aim"},
		{low, 8.1, "missed"}, {low, 8, "met"}, {low, 3.9, "met, and the aim"},
		{boundOnly, 1.0, "missed"}, {boundOnly, 1.2, "met"},
		{aimOnly, 4, "aim missed"}, {aimOnly, 3, "met, and the aim"},
	} {
		if got := tt.goal.goalVerdict(roundSummary{Median: tt.median, Rounds: 5}); got != tt.want {
			t.Errorf("%+v: %v is %q, want %q", tt.goal, tt.median, got, tt.want)
		}
	}
	if got := high.goalVerdict(roundSummary{}); got != "not measured" {
		t.Errorf("no rounds: %q", got)
	}
}

// Goals find their workload by id: a misspelt one would never be measured.
func TestGoalsFindTheirFigures(t *testing.T) {
	t.Parallel()
	measured := roundSummary{1, 1, 1, 1}
	r := &report{Idle: &idleResult{PgBouncer: measured, Sluice: measured}}
	for _, w := range workloads() {
		r.Workloads = append(r.Workloads, workloadResult{ID: w.id, RateToPgBouncer: measured, RateToDirect: measured,
			CPUToPgBouncer: measured, AddedP50ToPgBouncer: measured})
	}
	for _, d := range drivers {
		r.Delayed = append(r.Delayed, delayedResult{Driver: d.name, Sluice: driverFigures{RoundTrips: measured}, Ratio: measured})
	}
	for _, f := range features() {
		for _, w := range f.loads {
			r.Features = append(r.Features, featureResult{ID: w.id, Ratio: measured})
		}
	}
	for _, l := range faultWorkloads() {
		r.Faults = append(r.Faults, faultResult{ID: l.id, Ratio: measured})
	}
	r.Fights = []contentionResult{{Told: measured}, {Told: measured}}
	for _, g := range goals {
		if g.of(r) != measured {
			t.Errorf("%s: no figure", g.title)
		}
		if g.of(&report{}) != (roundSummary{}) {
			t.Errorf("%s: a figure without a measurement", g.title)
		}
	}
}
