package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// A quick run (--quick) shows whether a change has made Sluice slower: five workloads in about 90 s. It prints each
// figure beside the recorded one. It compares ratios to PgBouncer in the same round, because machines and kernel
// versions differ.

const (
	quickRounds  = 7
	quickSeconds = 1
	// tolerated is the part by which a ratio of a quick run may be worse than the recorded ratio. Medians of seven
	// rounds on a quiet machine differ by half as much.
	tolerated = 0.10
)

// quickIDs are workloads whose rates show whether a query, a wait or a connect has become slower.
var quickIDs = []string{idSelectOne, idExtended16, "select-prepared-16", "select-simple-64", idChurn}

// selectQuick limits a run to the workloads of quickIDs.
func (c *config) selectQuick() {
	c.rounds, c.seconds, c.out = quickRounds, quickSeconds, ""
	c.only = regexp.MustCompile("^(" + strings.Join(quickIDs, "|") + ")$")
}

// compareToRecorded prints the ratios of a quick run beside the recorded ones. It returns an error if a ratio is worse
// by more than tolerated, or is missing.
func (r *report) compareToRecorded(recorded *report, out io.Writer) error {
	fmt.Fprintf(out, "\nRatios to PgBouncer; recorded on %s with PgBouncer %s, now %s\n\n| pgbench | rate, recorded | now | CPU, recorded | now |\n|---|---|---|---|---|\n",
		recorded.Date, recorded.PgBouncer, r.PgBouncer)
	var worse []string
	for _, id := range quickIDs {
		was, is := recorded.workloadByID(id), r.workloadByID(id)
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", was.Title, was.RateToPgBouncer.medianAndRange(), is.RateToPgBouncer.medianAndRange(),
			was.CPUToPgBouncer.medianAndRange(), is.CPUToPgBouncer.medianAndRange())
		switch {
		case is.RateToPgBouncer.Rounds == 0 || was.RateToPgBouncer.Rounds == 0:
			worse = append(worse, id+" was not measured")
		case is.RateToPgBouncer.Median < was.RateToPgBouncer.Median*(1-tolerated):
			worse = append(worse, id+" has a lower rate")
		case is.CPUToPgBouncer.Median > was.CPUToPgBouncer.Median*(1+tolerated):
			worse = append(worse, id+" takes more CPU")
		}
	}
	if r.Doubtful > 0 {
		fmt.Fprintf(out, "\n%d samples are doubtful: others had more than %.1f cores meanwhile.\n", r.Doubtful, doubtfulCores)
	}
	if len(worse) > 0 {
		return fmt.Errorf("worse than recorded by more than %.0f %%: %s", 100*tolerated, strings.Join(worse, ", "))
	}
	return nil
}
