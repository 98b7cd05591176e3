package temporal

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// report prints what became of the conflicts, as seen by everybody who counts
// them, and returns how many there were.
func report(t *testing.T, d *deployment) (conflicts float64) {
	t.Helper()
	standIn := d.sim.Admin(t, http.MethodGet, "/metrics", "")
	proxy, err := d.sluice.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conflicts = sum(series(standIn, `dsqlsim_errors_total{kind="conflict"`))
	t.Logf("40001: %v by DSQL's stand-in (%v planned, others after changes of the schema), %v transactions run again by Sluice, %d reached Temporal",
		conflicts, sum(series(standIn, "dsqlsim_faults_total")), sum(series(proxy, "dsql_tx_retries_total")), len(d.tap.with("40001")))
	for _, s := range series(proxy, "dsql_tx_retries_total", "dsql_tx_replay_refused_total", "dsql_tx_exhausted_total") {
		t.Logf("Sluice: %s", s)
	}
	for transaction, n := range d.tap.transactions("40001") {
		t.Logf("reached Temporal %d times: %s", n, transaction)
	}
	for _, s := range series(d.server.scrape(t), `persistence_error_with_type_total{error_type="serviceerror.Unavailable"`) {
		t.Logf("Temporal: %s", s)
	}
	return conflicts
}

// series are the lines of a scrape that begin with one of the prefixes and do
// not count 0.
func series(text string, prefixes ...string) (found []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasSuffix(line, " 0") && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) {
			found = append(found, line)
		}
	}
	return found
}

func sum(series []string) (total float64) {
	for _, s := range series {
		value, err := strconv.ParseFloat(s[strings.LastIndexByte(s, ' ')+1:], 64)
		if err != nil {
			panic(fmt.Sprintf("not a series: %s", s))
		}
		total += value
	}
	return total
}

// scrape is what Temporal's own metrics say.
func (s *server) scrape(t *testing.T) string {
	t.Helper()
	answer, err := http.Get(s.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
