package sequence

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

var (
	write = &rewrite.Statement{Kind: rewrite.Write}
	read  = &rewrite.Statement{Kind: rewrite.Read}
	ddl   = &rewrite.Statement{Kind: rewrite.DDL}
	calls = &rewrite.Statement{Kind: rewrite.Write, Calls: true}
	set   = &rewrite.Statement{Kind: rewrite.Setting, Changes: []rewrite.SettingChange{{}}}
)

func control(verb rewrite.TxVerb) *rewrite.Statement {
	return &rewrite.Statement{Kind: rewrite.Control, Tx: rewrite.TxControl{Verb: verb}}
}

// shown writes runs as text, statement and rows.
func shown(h *RunHistory) string {
	var all []string
	for _, r := range h.PlannerRuns() {
		all = append(all, fmt.Sprintf("%s %d %d", r.Text, r.N, r.Rows))
	}
	return strings.Join(all, ", ")
}

// What has run since names last changed their meaning is recorded, and nothing else.
func TestHistory(t *testing.T) {
	query := func(sql string, tags ...string) func(*RunHistory) {
		return func(h *RunHistory) {
			h.RecordQuery([]byte(sql))
			for n, tag := range tags {
				h.RecordQueryRun(write, n, []byte(tag))
			}
		}
	}
	ran := func(st *rewrite.Statement) func(*RunHistory) {
		return func(h *RunHistory) { h.RecordPreparedRun(st, "other", []byte("X 1")) }
	}
	for name, test := range map[string]struct {
		steps []func(*RunHistory)
		want  string
	}{
		"nothing":                    {nil, ""},
		"a Query":                    {[]func(*RunHistory){query("q", "INSERT 0 1")}, "q 0 1"},
		"no rows":                    {[]func(*RunHistory){query("q", "INSERT 0 0")}, "q 0 0"},
		"ten rows":                   {[]func(*RunHistory){query("q", "INSERT 0 10")}, "q 0 1"},
		"two of a Query":             {[]func(*RunHistory){query("q; r", "INSERT 0 1", "UPDATE 0")}, "q; r 0 1, q; r 1 0"},
		"two Queries":                {[]func(*RunHistory){query("q", "INSERT 0 1"), query("r", "INSERT 0 1")}, "q 0 1, r 0 1"},
		"prepared":                   {[]func(*RunHistory){ran(write)}, "other 0 1"},
		"suspended":                  {[]func(*RunHistory){func(h *RunHistory) { h.RecordPreparedRun(write, "p", nil) }}, "p 0 1"},
		"of an unknown text":         {[]func(*RunHistory){func(h *RunHistory) { h.RecordPreparedRun(write, "", nil) }}, ""},
		"of a long text":             {[]func(*RunHistory){func(h *RunHistory) { h.RecordPreparedRun(write, strings.Repeat("x", mostRunText+1), nil) }}, ""},
		"not recorded":               {[]func(*RunHistory){query("q"), (*RunHistory).SkipQuery, func(h *RunHistory) { h.RecordQueryRun(write, 0, nil) }}, ""},
		"a read":                     {[]func(*RunHistory){query("q", "INSERT 0 1"), ran(read)}, "q 0 1"},
		"unknown":                    {[]func(*RunHistory){query("q", "INSERT 0 1"), ran(nil)}, ""},
		"DDL":                        {[]func(*RunHistory){query("q", "INSERT 0 1"), ran(ddl)}, ""},
		"a function":                 {[]func(*RunHistory){query("q", "INSERT 0 1"), ran(calls)}, ""},
		"a setting":                  {[]func(*RunHistory){query("q", "INSERT 0 1"), ran(set)}, ""},
		"behind a setting":           {[]func(*RunHistory){ran(set), query("q", "INSERT 0 1")}, "q 0 1"},
		"a call":                     {[]func(*RunHistory){query("q", "INSERT 0 1"), (*RunHistory).InvalidateNames}, ""},
		"BEGIN":                      {[]func(*RunHistory){query("q", "INSERT 0 1"), ran(control(rewrite.Begin))}, "q 0 1"},
		"SAVEPOINT and RELEASE":      {[]func(*RunHistory){query("q", "INSERT 0 1"), ran(control(rewrite.Savepoint)), ran(control(rewrite.ReleaseSavepoint))}, "q 0 1"},
		"COMMIT":                     {[]func(*RunHistory){query("q", "INSERT 0 1"), ran(control(rewrite.Commit))}, ""},
		"ROLLBACK TO":                {[]func(*RunHistory){query("q", "INSERT 0 1"), ran(control(rewrite.RollbackTo))}, "q 0 1"},
		"ROLLBACK TO over a setting": {[]func(*RunHistory){ran(set), query("q", "INSERT 0 1"), ran(control(rewrite.RollbackTo))}, ""},
		"behind COMMIT":              {[]func(*RunHistory){ran(set), ran(control(rewrite.Commit)), query("q", "INSERT 0 1"), ran(control(rewrite.RollbackTo))}, "q 0 1"},
		"behind the next begin":      {[]func(*RunHistory){ran(set), (*RunHistory).StartTransaction, query("q", "INSERT 0 1"), ran(control(rewrite.RollbackTo))}, "q 0 1"},
	} {
		var h RunHistory
		h.StartTransaction()
		for _, s := range test.steps {
			s(&h)
		}
		if got := shown(&h); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A history has bounds, in statements and in bytes.
func TestHistoryIsBounded(t *testing.T) {
	var h RunHistory
	h.StartTransaction()
	for i := range mostRuns + 3 {
		h.RecordPreparedRun(write, fmt.Sprint(i), nil)
	}
	if runs := h.PlannerRuns(); len(runs) != mostRuns || runs[0].Text != "3" || runs[mostRuns-1].Text != fmt.Sprint(mostRuns+2) {
		t.Errorf("%d runs, from %s", len(runs), runs[0].Text)
	}
	half := strings.Repeat("x", mostRunText/2+1)
	for range 2 {
		h.RecordQuery([]byte(half))
		h.RecordQueryRun(write, 0, nil)
	}
	if runs := h.PlannerRuns(); len(runs) != 1 || runs[0].Text != half {
		t.Errorf("%d runs behind a text that did not fit in beside the others", len(runs))
	}
	h.RecordQuery([]byte(half + half))
	h.RecordQueryRun(write, 0, nil)
	if runs := h.PlannerRuns(); len(runs) != 0 || len(h.text) > mostRunText {
		t.Errorf("%d runs, %d bytes behind a text over the bound", len(runs), len(h.text))
	}
}
