package rewrite

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/rewrite/finding"
)

// TestPositions holds that a mark in what went out is found where it stood in
// what came in.
func TestPositions(t *testing.T) {
	t.Parallel()
	p := goldenPlanner(t)
	for _, sql := range []string{
		"SELECT 'é' FROM t FOR NO KEY UPDATE OF mark",
		"SELECT mark FROM t FOR SHARE",
		"SELECT a FROM \"日本\" FOR SHARE; SELECT a FROM t WHERE mark",
		"SELECT a FROM t FOR SHARE; SELECT b FROM t FOR NO KEY UPDATE; mark",
		"SELECT a FROM stripped_t FOR SHARE OF stripped_t SKIP LOCKED LIMIT mark",
		"CREATE INDEX CONCURRENTLY i ON t USING btree (a ASC, mark)",
		"CREATE TABLE t (ä serial, b bigserial, c mark)",
		"DROP DATABASE something_long; SELECT mark FROM t",
		"BEGIN ISOLATION LEVEL READ UNCOMMITTED; SELECT mark",
		"SELECT mark FROM t",
	} {
		// What is no SQL behind the mark would not parse: the mark is put into a
		// text that does, at the same place.
		valid := strings.Replace(sql, "; mark", "; SELECT mark", 1)
		plan := p.Plan([]byte(valid))
		text := plan.Text
		if text == "" {
			if text = valid; strings.Contains(valid, "FOR") {
				t.Errorf("%q is not rewritten", valid)
			}
		}
		sent := utf8.RuneCountInString(text[:strings.Index(text, "mark")]) + 1
		want := utf8.RuneCountInString(valid[:strings.Index(valid, "mark")]) + 1
		if got := plan.ClientPosition(sent); got != want {
			t.Errorf("%q: position %d became %d, want %d", valid, sent, got, want)
		}
	}
}

// TestUnverifiedPassesUnchanged breaks the check's other half: an intended tree
// that is not what the edits make. The other statements keep their rewrites.
func TestUnverifiedPassesUnchanged(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	alone := p.Plan([]byte("CREATE TABLE v (a serial STORAGE PLAIN)"))
	if alone.Text != "" || alone.Statements[0].Hint == "" || p.Stats().Unverified != 1 || p.Stats().Rewritten != 0 {
		t.Errorf("%q, %+v", alone.Text, p.Stats())
	}
	const sql = "DROP DATABASE a; SELECT 'é' FROM t FOR SHARE; CREATE TABLE v (a serial STORAGE PLAIN); CREATE INDEX ON t (a); SELECT a FROM t /* FOR SHARE */ FOR SHARE"
	want := strings.NewReplacer("DROP DATABASE a", "SELECT 1", "INDEX", "INDEX ASYNC", "t FOR SHARE", "t FOR UPDATE", "/ FOR SHARE", "/ FOR UPDATE").Replace(sql)
	plan := p.Plan([]byte(sql))
	if plan.Text != want || p.Stats().Unverified != 2 || p.Stats().Rewritten != 1 {
		t.Errorf("%q, %+v", plan.Text, p.Stats())
	}
	var got []string
	for _, f := range plan.Findings {
		if f.Rule != finding.DialectRule { // several DDL
			got = append(got, string(f.Feature)+" "+f.Outcome.String()+" "+f.Severity.String())
		}
	}
	if s := strings.Join(got, ", "); s != "drop_database answered warning, for_share rewritten info, serial unverified error, create_index rewritten info, for_share rewritten info" {
		t.Errorf("findings %s", s)
	}
	if st := plan.Statements; st[0].Tag != "DROP DATABASE" || st[2].Hint == "" || st[3].Job == NoJob {
		t.Errorf("%s", describe(plan))
	}
	if at := strings.Index(sql, "'é'"); plan.ClientPosition(strings.Index(want, "'é'")+1) != at+1 {
		t.Error("positions are lost")
	}
}
