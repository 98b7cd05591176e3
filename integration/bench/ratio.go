package main

import (
	"math"
	"slices"
)

// missing stands for the value of a sample that could not be taken. Arithmetic
// carries it along, and summarize leaves it out.
var missing = math.NaN()

// figure sums up one value over the rounds in which it was measured. The zero
// figure was not measured at all.
type figure struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Rounds int     `json:"rounds"`
}

// summarize returns the figure of values, one per round.
func summarize(values []float64) figure {
	known := slices.DeleteFunc(slices.Clone(values), func(v float64) bool {
		return math.IsNaN(v) || math.IsInf(v, 0)
	})
	if len(known) == 0 {
		return figure{}
	}
	slices.Sort(known)
	half := len(known) / 2
	median := known[half]
	if len(known)%2 == 0 {
		median = (known[half-1] + known[half]) / 2
	}
	return figure{Median: median, Low: known[0], High: known[len(known)-1], Rounds: len(known)}
}

// ratios divides values of the same round.
func ratios(a, b []float64) []float64 {
	return perRound(func(v []float64) float64 { return v[0] / v[1] }, a, b)
}

// addedRatios compares, round by round, what a and b add to base. Where b adds
// nothing there is nothing to compare with.
func addedRatios(a, b, base []float64) []float64 {
	return perRound(func(v []float64) float64 {
		if v[1] <= v[2] {
			return missing
		}
		return (v[0] - v[2]) / (v[1] - v[2])
	}, a, b, base)
}

// perRound applies of to the values that several series have in each round. A
// series that is shorter lacks the rest.
func perRound(of func([]float64) float64, series ...[]float64) []float64 {
	rounds := 0
	for _, s := range series {
		rounds = max(rounds, len(s))
	}
	out := make([]float64, rounds)
	values := make([]float64, len(series))
	for round := range out {
		for i, s := range series {
			values[i] = missing
			if round < len(s) {
				values[i] = s[round]
			}
		}
		out[round] = of(values)
	}
	return out
}
