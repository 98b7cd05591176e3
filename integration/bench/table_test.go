package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestTableStaysBetweenItsMarkers(t *testing.T) {
	t.Parallel()
	r := &report{PgBouncer: "1.18.0"}
	got, err := insertTables("before\n"+tableBegin+"\nold\n"+tableEnd+"\nafter\n", r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "before\n"+tableBegin+"\n") || !strings.HasSuffix(got, tableEnd+"\nafter\n") {
		t.Errorf("the text around has changed:\n%s", got)
	}
	if strings.Contains(got, "old") || !strings.Contains(got, "PgBouncer 1.18.0") {
		t.Errorf("the text between is not the table:\n%s", got)
	}
	if again, err := insertTables(got, r); err != nil || again != got {
		t.Errorf("a second time it is different: %v\n%s", err, again)
	}
	for _, document := range []string{"", tableBegin, tableEnd + tableBegin, rowsEnd + rowsBegin} {
		if _, err := insertTables(document, r); err == nil {
			t.Errorf("no error for %q", document)
		}
	}
}

func TestTableOfABusyMachineSaysSo(t *testing.T) {
	t.Parallel()
	for doubtful, want := range map[int]bool{0: false, 5: false, 6: true, 10: true} {
		r := &report{Doubtful: doubtful, Foreign: roundSummary{Rounds: 10}}
		if got := strings.Contains(r.formatTables(), "busy"); got != want {
			t.Errorf("%d of 10 samples doubtful: said %v, want %v", doubtful, got, want)
		}
	}
}

func TestReportSurvivesItsFile(t *testing.T) {
	t.Parallel()
	r := &report{
		Date: "2026-01-02", Rounds: 5,
		Workloads: []workloadResult{newWorkloadResult(&workload{id: idChurn, title: "x"}, map[string]*sampleSeries{
			direct: {rate: []float64{1, missingValue}}, pgBouncer: {rate: []float64{50, missingValue}}, sluice: {rate: []float64{30, 20}},
		})},
		Idle:    &idleResult{Sluice: roundSummary{4, 3, 5, 5}},
		Delayed: []delayedResult{{Driver: "pgx", Ratio: roundSummary{1.3, 1.2, 1.4, 5}}},
	}
	r.judgeGoals()
	path := filepath.Join(t.TempDir(), "bench.json")
	if err := r.writeJSON(path); err != nil {
		t.Fatal(err)
	}
	got, err := readReport(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, r) {
		t.Errorf("got %+v, want %+v", got, r)
	}
	if f := got.workloadByID(idChurn).RateToPgBouncer; f.Median != 0.6 || f.Rounds != 1 {
		t.Errorf("the ratio is %+v, want 0.6 of the one round with both", f)
	}
}

func TestDocumentsHaveTheTable(t *testing.T) {
	t.Parallel()
	r, err := readReport("../../" + resultFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range readmeWorkloads {
		if r.workloadByID(id).ID == "" {
			t.Errorf("no workload is %q", id)
		}
	}
	for _, document := range documents {
		text, err := os.ReadFile("../../" + document)
		if err != nil {
			t.Fatal(err)
		}
		fresh, err := insertTables(string(text), r)
		if err != nil {
			t.Fatal(err)
		}
		if fresh != string(text) {
			t.Errorf("the table of %s is out of date: go run ./integration/bench table", document)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0.9534: "0.953", 3: "3.00", 13.92: "13.9", 98765.4: "98765"} {
		if got := formatNumber(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}
