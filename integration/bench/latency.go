package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// readLatencies returns the third column of pgbench's transaction log: each transaction's latency in whole
// microseconds.
func readLatencies(log io.Reader) ([]int64, error) {
	var out []int64
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		// The columns of pgbench's log are: client, transaction, latency, script, second, microsecond.
		columns := strings.Fields(lines.Text())
		if len(columns) < 6 {
			return nil, fmt.Errorf("a line of pgbench's log has %d columns", len(columns))
		}
		latency, err := strconv.ParseInt(columns[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("pgbench's log: %w", err) // "failed" or "skipped" among them
		}
		out = append(out, latency)
	}
	return out, lines.Err()
}

// quantile returns the latency below which the share q of the latencies lies, or missingValue when there are none. Each
// whole number represents an interval of width 1 around it, in which latencies are evenly spread. That gives tenths of
// a microsecond: at c=1 a proxy adds ten microseconds, and a tenth of one matters.
func quantile(latencies []int64, q float64) float64 {
	if len(latencies) == 0 {
		return missingValue
	}
	sorted := slices.Sorted(slices.Values(latencies))
	rank := q * float64(len(sorted))
	at := sorted[min(int(rank), len(sorted)-1)]
	below, _ := slices.BinarySearch(sorted, at)
	upTo, _ := slices.BinarySearch(sorted, at+1)
	return float64(at) - 0.5 + (rank-float64(below))/float64(upTo-below)
}
