package main

import (
	"math"
	"slices"
	"testing"
)

func TestSummarize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		values []float64
		want   roundSummary
	}{
		{"nothing", nil, roundSummary{}},
		{"only failures", []float64{missingValue, missingValue}, roundSummary{}},
		{"an odd number", []float64{3, 1, 2}, roundSummary{2, 1, 3, 3}},
		{"an even number", []float64{4, 1, 3, 2}, roundSummary{2.5, 1, 4, 4}},
		{"a failure is left out", []float64{5, missingValue, 1}, roundSummary{3, 1, 5, 2}},
		{"so is a division by zero", []float64{math.Inf(1), 2}, roundSummary{2, 2, 2, 1}},
	} {
		if got := summarize(tt.values); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSummarizeKeepsTheOrderOfRounds(t *testing.T) {
	t.Parallel()
	values := []float64{3, missingValue, 1}
	summarize(values)
	if values[0] != 3 || values[2] != 1 {
		t.Errorf("values are now %v", values)
	}
}

// The machine is half as fast in the second round, which a ratio of medians
// would take for a difference between the candidates.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	t.Parallel()
	sluice, pgbouncer := []float64{110, 55, 110}, []float64{100, 50, missingValue}
	got := roundRatios(sluice, pgbouncer)
	if want := []float64{1.1, 1.1, missingValue}; !equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if f := summarize(got); f.Rounds != 2 {
		t.Errorf("%d rounds, want the 2 with both", f.Rounds)
	}
}

func TestRatiosOfSeriesThatEndEarly(t *testing.T) {
	t.Parallel()
	if got, want := roundRatios([]float64{4, 9}, []float64{2}), []float64{2, missingValue}; !equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAddedRatios(t *testing.T) {
	t.Parallel()
	got := addedRatios([]float64{22, 24, 22}, []float64{24, 22, 10}, []float64{10, 10, 10})
	if want := []float64{12. / 14, 14. / 12, missingValue}; !equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// equal takes missing for equal to itself and ignores rounding.
func equal(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) < 1e-9
	})
}
