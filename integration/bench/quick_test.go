package main

import (
	"strings"
	"testing"
)

// A quick run fails where a ratio is worse than the recorded one by more than is tolerated, in
// whichever row, and where a row is missing; it does not where all are better, or a little worse.
func TestQuickRunIsCompared(t *testing.T) {
	t.Parallel()
	made := func(rate, cpu float64) *report {
		r := &report{Date: "2026-01-02"}
		for _, id := range quickIDs {
			r.Workloads = append(r.Workloads, workloadResult{ID: id, Title: "title of " + id,
				RateToPgBouncer: roundSummary{rate, rate, rate, 7}, CPUToPgBouncer: roundSummary{cpu, cpu, cpu, 7}})
		}
		return r
	}
	for i, id := range quickIDs {
		for _, tt := range []struct {
			rate, cpu float64
			want      string
		}{
			{1.0, 1.5, ""}, {2.0, 0.5, ""}, {0.91, 1.64, ""},
			{0.89, 1.5, id + " has a lower rate"}, {1.0, 1.66, id + " takes more CPU"},
		} {
			now := made(1.2, 1.4)
			now.Workloads[i].RateToPgBouncer.Median, now.Workloads[i].CPUToPgBouncer.Median = tt.rate, tt.cpu
			var out strings.Builder
			err := now.compareToRecorded(made(1.0, 1.5), &out)
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasSuffix(err.Error(), ": "+tt.want) {
				t.Errorf("%s at %v and %v: %v, want %q", id, tt.rate, tt.cpu, err, tt.want)
			}
			if !strings.Contains(out.String(), "| title of "+id+" | 1.00 ") {
				t.Errorf("the table has no row of %s:\n%s", id, out.String())
			}
		}
		lacks := made(1, 1)
		lacks.Workloads[i] = workloadResult{}
		if err := lacks.compareToRecorded(made(1, 1), new(strings.Builder)); err == nil || !strings.Contains(err.Error(), id+" was not measured") {
			t.Errorf("without %s: %v", id, err)
		}
	}
	c, err := parseArgs([]string{"--quick"})
	if err != nil || c.out != "" || c.rounds != quickRounds || len(c.filterWorkloads(workloads())) != len(quickIDs) || c.isSelected(idIdle) || c.isSelected("fault") {
		t.Errorf("--quick is %+v, %v", c, err)
	}
}
