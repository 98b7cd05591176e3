package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestReadLatencies(t *testing.T) {
	t.Parallel()
	got, err := readLatencies(strings.NewReader("0 1 15 0 1763688000 100234\n3 2 22 0 1763688000 100250\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{15, 22}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, log := range []string{"0 1 failed 0 1763688000 100234\n", "0 1 15\n"} {
		if _, err := readLatencies(strings.NewReader(log)); err == nil {
			t.Errorf("no error for %q", log)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		latencies []int64
		q, want   float64
	}{
		{"nothing", nil, 0.5, missingValue},
		{"one value is its interval's middle", []int64{10}, 0.5, 10},
		{"all of its interval", []int64{10}, 1, 10.5},
		{"equal values", []int64{7, 7, 7, 7}, 0.5, 7},
		{"half way into an interval", []int64{9, 10, 10, 11}, 0.5, 10},
		{"a quarter of the values in it are below", []int64{9, 9, 9, 10, 10, 10, 10, 11}, 0.5, 9.75},
		{"an unsorted log, its tail", []int64{1000, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0.95, 1000},
	} {
		got := quantile(tt.latencies, tt.q)
		if math.Abs(got-tt.want) > 1e-9 && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
