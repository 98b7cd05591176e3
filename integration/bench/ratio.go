package main

import (
	"math"
	"slices"
)

// missingValue is the value of a sample that failed. Arithmetic propagates missingValue, and summarize leaves it out.
var missingValue = math.NaN()

// roundSummary sums up one value over the rounds in which it was measured. The zero roundSummary means that the value
// was not measured.
type roundSummary struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Rounds int     `json:"rounds"`
}

// summarize returns the roundSummary of values, one for each round.
func summarize(values []float64) roundSummary {
	known := slices.DeleteFunc(slices.Clone(values), func(v float64) bool {
		return math.IsNaN(v) || math.IsInf(v, 0)
	})
	if len(known) == 0 {
		return roundSummary{}
	}
	slices.Sort(known)
	half := len(known) / 2
	median := known[half]
	if len(known)%2 == 0 {
		median = (known[half-1] + known[half]) / 2
	}
	return roundSummary{Median: median, Low: known[0], High: known[len(known)-1], Rounds: len(known)}
}

// roundRatios divides the values of a by those of b, round by round.
func roundRatios(a, b []float64) []float64 {
	return applyPerRound(func(v []float64) float64 { return v[0] / v[1] }, a, b)
}

// addedRatios returns, for each round, the quotient of two differences: (a - base) / (b - base). For a round in which
// b does not exceed base, it returns missingValue.
func addedRatios(a, b, base []float64) []float64 {
	return applyPerRound(func(v []float64) float64 {
		if v[1] <= v[2] {
			return missingValue
		}
		return (v[0] - v[2]) / (v[1] - v[2])
	}, a, b, base)
}

// applyPerRound calls a function (parameter of) for each round, and returns the results. The function gets the values
// of all series in that round. A shorter series has missingValue for the last rounds.
func applyPerRound(of func([]float64) float64, series ...[]float64) []float64 {
	rounds := 0
	for _, s := range series {
		rounds = max(rounds, len(s))
	}
	out := make([]float64, rounds)
	values := make([]float64, len(series))
	for round := range out {
		for i, s := range series {
			values[i] = missingValue
			if round < len(s) {
				values[i] = s[round]
			}
		}
		out[round] = of(values)
	}
	return out
}
