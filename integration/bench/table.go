package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// These are markers of the generated tables in the documents.
const (
	tableBegin = "<!-- begin:bench -->"
	tableEnd   = "<!-- end:bench -->"
	rowsBegin  = "<!-- begin:bench-rows -->"
	rowsEnd    = "<!-- end:bench-rows -->"
)

// documents are the pages with generated tables: all tables in docs/bench.md, a few rows in README.md.
var documents = []string{"docs/bench.md", "README.md"}

// writeTables runs the subcommand table: it writes the result's tables between the markers of the documents.
func writeTables(args []string) error {
	flags := flag.NewFlagSet("bench table", flag.ContinueOnError)
	from := flags.String("from", resultFile, "the result to show")
	into := flags.String("into", "", "the document with the markers (default "+strings.Join(documents, " and ")+")")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := readReport(*from)
	if err != nil {
		return err
	}
	files := documents
	if *into != "" {
		files = []string{*into}
	}
	for _, file := range files {
		old, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text, err := insertTables(string(old), r)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// insertTables returns a document with r's tables between its markers. A document without any marker is an error.
func insertTables(document string, r *report) (string, error) {
	found := false
	for _, m := range []struct{ begin, end, text string }{{tableBegin, tableEnd, r.formatTables()}, {rowsBegin, rowsEnd, r.readmeTable()}} {
		before, rest, begins := strings.Cut(document, m.begin)
		if !begins {
			continue
		}
		_, after, ends := strings.Cut(rest, m.end)
		if !ends {
			return "", errors.New(m.begin + " without " + m.end)
		}
		document, found = before+m.begin+"\n"+m.text+m.end+after, true
	}
	if !found {
		return "", errors.New("no " + tableBegin + " ... " + tableEnd)
	}
	return document, nil
}

// readmeWorkloads are the workloads in README.md: in one Sluice is faster than PgBouncer, in one about as fast, and
// in one slower.
var readmeWorkloads = []string{"select-extended-16", "tpcb", idChurn}

// readmeTable returns the table for README.md, with the ratios of the workloads in readmeWorkloads.
func (r *report) readmeTable() string {
	var t strings.Builder
	t.WriteString("| pgbench | transactions/s, Sluice to PgBouncer | CPU, Sluice to PgBouncer |\n|---|---|---|\n")
	for _, id := range readmeWorkloads {
		if w := r.workloadByID(id); w.ID != "" {
			writeRow(&t, w.Title, w.RateToPgBouncer.medianAndRange(), w.CPUToPgBouncer.medianAndRange())
		}
	}
	return t.String()
}

// formatTables returns the report's figures as tables in Markdown.
func (r *report) formatTables() string {
	var t strings.Builder
	r.writeConditions(&t)
	r.writeWorkloadTable(&t)
	r.writeDelayedTable(&t)
	r.writeFeatureTable(&t)
	r.writeFaultTable(&t)
	r.writePauseTable(&t)
	if r.LogBytes != 0 {
		fmt.Fprintf(&t, "\nKept to run an open transaction of four statements again: %.0f bytes.\n", r.LogBytes)
	}
	if r.Idle != nil {
		fmt.Fprintf(&t, "\nResident memory per idle client, %d of them: PgBouncer %s KiB, Sluice %s KiB.\n",
			r.Idle.Clients, r.Idle.PgBouncer.medianText(), r.Idle.Sluice.medianText())
	}
	return t.String()
}

func (r *report) writeWorkloadTable(w io.Writer) {
	fmt.Fprint(w, `
| pgbench | direct /s | PgBouncer /s | Sluice /s | Sluice to PgBouncer | p50 µs: direct, PgBouncer, Sluice | proxy CPU s per 100,000: PgBouncer, Sluice | CPU, to PgBouncer |
|---|---|---|---|---|---|---|---|
`)
	for _, l := range r.Workloads {
		title := l.Title
		if l.Note != "" {
			title += " (" + l.Note + ")"
		}
		writeRow(w, title, l.Direct.Rate.medianText(), l.PgBouncer.Rate.medianText(), l.Sluice.Rate.medianText(), l.RateToPgBouncer.medianAndRange(),
			joinFigures(l.Direct.P50, l.PgBouncer.P50, l.Sluice.P50), joinFigures(l.PgBouncer.CPU, l.Sluice.CPU), l.CPUToPgBouncer.medianAndRange())
	}
}

func (r *report) writeDelayedTable(w io.Writer) {
	if len(r.Delayed) == 0 {
		return
	}
	fmt.Fprintf(w, `
The server %d ms away (each way), one connection, BEGIN; SELECT FOR UPDATE; UPDATE; COMMIT:

| driver | direct, transactions/s | Sluice | Sluice to direct | round trips: direct, Sluice |
|---|---|---|---|---|
`, oneWay.Milliseconds())
	for _, d := range r.Delayed {
		writeRow(w, d.Driver, d.Direct.Rate.medianText(), d.Sluice.Rate.medianText(), d.Ratio.medianAndRange(), joinFigures(d.Direct.RoundTrips, d.Sluice.RoundTrips))
	}
}

func (r *report) writeFeatureTable(w io.Writer) {
	if len(r.Features) == 0 {
		return
	}
	fmt.Fprint(w, `
What features cost, and what conflicts do (there the rate is that of the stand-in for DSQL, and none reaches the client):

| pgbench | off /s | on /s | on to off |
|---|---|---|---|
`)
	for _, f := range r.Features {
		writeRow(w, f.Title, f.Off.medianText(), f.On.medianText(), f.Ratio.medianAndRange())
	}
}

func (r *report) writeFaultTable(w io.Writer) {
	if len(r.Faults) == 0 {
		return
	}
	fmt.Fprintf(w, `
What one fault leaves behind: %d clients on rows of their own, %d ms a statement, %v after it, while %d clients fight for one row:

| workload | after to before |
|---|---|
`, steadyClients, 2*faultOneWay.Milliseconds(), recovery, fightingClients)
	for _, f := range r.Faults {
		writeRow(w, f.Title, f.Ratio.medianAndRange())
	}
	fmt.Fprint(w, "\nOf those that fight, told of a conflict:")
	for i, f := range r.Fights {
		fmt.Fprintf(w, "%s %s, %.2f %% (at most %.2f)", [2]string{"", ";"}[min(i, 1)], f.Title, 100*f.Told.Median, 100*f.Told.High)
	}
	fmt.Fprint(w, ".\n")
}

func (r *report) writePauseTable(w io.Writer) {
	if len(r.Pauses) == 0 {
		return
	}
	fmt.Fprintf(w, `
The pause before the first replay (`+"`retry.first_delay`"+`), 100 ms to the default: %d clients each count up one of some rows, by the stand-in for DSQL, %d ms a statement:

| fight | commits/s, 100 ms | default | default to 100 ms | attempts for a commit | told of a conflict |
|---|---|---|---|---|---|
`, pauseClients, 2*faultOneWay.Milliseconds())
	for _, p := range r.Pauses {
		writeRow(w, p.Title, p.RateLong.medianText(), p.RateShort.medianText(), p.Ratio.medianAndRange(), fmt.Sprintf("%.3f, %.3f", p.AttemptsLong.Median, p.AttemptsShort.Median),
			fmt.Sprintf("%.2f %%, %.2f %%", 100*p.ToldLong.Median, 100*p.ToldShort.Median))
	}
}

// writeConditions writes under which conditions the figures were measured.
func (r *report) writeConditions(w io.Writer) {
	fmt.Fprintf(w, `Measured on %s: PostgreSQL %s, PgBouncer %s, Sluice %s, each pool of %d backends, TLS (%s)
from the proxies to the server and none before them; everything on one CPU (%s). Medians of %d rounds of %d s;
ratios are of samples of the same round, with the lowest and the highest.
`, r.Date, r.PostgreSQL, r.PgBouncer, r.Sluice, r.Pool, r.TLS, r.CPU, r.Rounds, r.Seconds)
	if 2*r.Doubtful > r.Foreign.Rounds {
		fmt.Fprintf(w, "**The machine was busy with other work** (%.1f cores, median): these figures are only indicative.\n", r.Foreign.Median)
	}
}

// printReport writes the report for the terminal: the tables, the goals and what disturbed the run.
func (r *report) printReport(w io.Writer) error {
	var t strings.Builder
	t.WriteString("\n" + r.formatTables() + "\n| goal (to PgBouncer) | figure | wanted | aim | |\n|---|---|---|---|---|\n")
	for _, g := range r.Goals {
		writeRow(&t, g.Goal, g.Figure.medianAndRange(), g.formatLimit(g.Bound), g.formatLimit(g.Aim), g.Verdict)
	}
	fmt.Fprintf(&t, "\nForeign CPU: median %.2f cores, at most %.2f; %d of %d samples had more than %.1f and are doubtful. Stolen by the hypervisor: median %.2f, at most %.2f.\n",
		r.Foreign.Median, r.Foreign.High, r.Doubtful, r.Foreign.Rounds, doubtfulCores, r.Stolen.Median, r.Stolen.High)
	r.printShares(&t)
	for _, f := range r.Failures {
		fmt.Fprintln(&t, "FAILED:", f)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

func (j *goalResult) formatLimit(v float64) string {
	switch {
	case v == 0:
		return ""
	case j.Least:
		return fmt.Sprintf(">= %g", v)
	}
	return fmt.Sprintf("<= %g", v)
}

func writeRow(w io.Writer, cells ...string) {
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}

func joinFigures(figures ...roundSummary) string {
	var cells []string
	for _, f := range figures {
		cells = append(cells, f.medianText())
	}
	return strings.Join(cells, ", ")
}

// medianText returns the median as text, without the range of the values.
func (f roundSummary) medianText() string {
	if f.Rounds == 0 {
		return "-"
	}
	return formatNumber(f.Median)
}

// medianAndRange returns the median as text, followed by the range of the values.
func (f roundSummary) medianAndRange() string {
	if f.Rounds < 2 {
		return f.medianText()
	}
	return fmt.Sprintf("%s (%s–%s)", formatNumber(f.Median), formatNumber(f.Low), formatNumber(f.High))
}

// formatNumber formats v with three digits, or with all digits before the point.
func formatNumber(v float64) string {
	digits := 3
	switch {
	case v >= 100:
		digits = 0
	case v >= 10:
		digits = 1
	case v >= 1:
		digits = 2
	}
	return fmt.Sprintf("%.*f", digits, v)
}
