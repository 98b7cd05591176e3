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
	set   = &rewrite.Statement{Kind: rewrite.Setting, Changes: []rewrite.Change{{}}}
)

func control(verb rewrite.Verb) *rewrite.Statement {
	return &rewrite.Statement{Kind: rewrite.Control, Tx: rewrite.Transaction{Verb: verb}}
}

// shown writes runs as text, statement and rows.
func shown(h *History) string {
	var all []string
	for _, r := range h.Runs() {
		all = append(all, fmt.Sprintf("%s %d %d", r.Text, r.N, r.Rows))
	}
	return strings.Join(all, ", ")
}

// What has run since names last changed their meaning is recorded, and nothing else.
func TestHistory(t *testing.T) {
	query := func(sql string, tags ...string) func(*History) {
		return func(h *History) {
			h.Query([]byte(sql))
			for n, tag := range tags {
				h.RanQuery(write, n, []byte(tag))
			}
		}
	}
	ran := func(st *rewrite.Statement) func(*History) {
		return func(h *History) { h.RanPrepared(st, "other", []byte("X 1")) }
	}
	for name, test := range map[string]struct {
		steps []func(*History)
		want  string
	}{
		"nothing":                    {nil, ""},
		"a Query":                    {[]func(*History){query("q", "INSERT 0 1")}, "q 0 1"},
		"no rows":                    {[]func(*History){query("q", "INSERT 0 0")}, "q 0 0"},
		"ten rows":                   {[]func(*History){query("q", "INSERT 0 10")}, "q 0 1"},
		"two of a Query":             {[]func(*History){query("q; r", "INSERT 0 1", "UPDATE 0")}, "q; r 0 1, q; r 1 0"},
		"two Queries":                {[]func(*History){query("q", "INSERT 0 1"), query("r", "INSERT 0 1")}, "q 0 1, r 0 1"},
		"prepared":                   {[]func(*History){ran(write)}, "other 0 1"},
		"suspended":                  {[]func(*History){func(h *History) { h.RanPrepared(write, "p", nil) }}, "p 0 1"},
		"of an unknown text":         {[]func(*History){func(h *History) { h.RanPrepared(write, "", nil) }}, ""},
		"of a long text":             {[]func(*History){func(h *History) { h.RanPrepared(write, strings.Repeat("x", mostRunText+1), nil) }}, ""},
		"not recorded":               {[]func(*History){query("q"), (*History).Unrecorded, func(h *History) { h.RanQuery(write, 0, nil) }}, ""},
		"a read":                     {[]func(*History){query("q", "INSERT 0 1"), ran(read)}, "q 0 1"},
		"unknown":                    {[]func(*History){query("q", "INSERT 0 1"), ran(nil)}, ""},
		"DDL":                        {[]func(*History){query("q", "INSERT 0 1"), ran(ddl)}, ""},
		"a function":                 {[]func(*History){query("q", "INSERT 0 1"), ran(calls)}, ""},
		"a setting":                  {[]func(*History){query("q", "INSERT 0 1"), ran(set)}, ""},
		"behind a setting":           {[]func(*History){ran(set), query("q", "INSERT 0 1")}, "q 0 1"},
		"a call":                     {[]func(*History){query("q", "INSERT 0 1"), (*History).Moved}, ""},
		"BEGIN":                      {[]func(*History){query("q", "INSERT 0 1"), ran(control(rewrite.Begin))}, "q 0 1"},
		"SAVEPOINT and RELEASE":      {[]func(*History){query("q", "INSERT 0 1"), ran(control(rewrite.Savepoint)), ran(control(rewrite.ReleaseSavepoint))}, "q 0 1"},
		"COMMIT":                     {[]func(*History){query("q", "INSERT 0 1"), ran(control(rewrite.Commit))}, ""},
		"ROLLBACK TO":                {[]func(*History){query("q", "INSERT 0 1"), ran(control(rewrite.RollbackTo))}, "q 0 1"},
		"ROLLBACK TO over a setting": {[]func(*History){ran(set), query("q", "INSERT 0 1"), ran(control(rewrite.RollbackTo))}, ""},
		"behind COMMIT":              {[]func(*History){ran(set), ran(control(rewrite.Commit)), query("q", "INSERT 0 1"), ran(control(rewrite.RollbackTo))}, "q 0 1"},
		"behind the next begin":      {[]func(*History){ran(set), (*History).Begin, query("q", "INSERT 0 1"), ran(control(rewrite.RollbackTo))}, "q 0 1"},
	} {
		var h History
		h.Begin()
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
	var h History
	h.Begin()
	for i := range mostRuns + 3 {
		h.RanPrepared(write, fmt.Sprint(i), nil)
	}
	if runs := h.Runs(); len(runs) != mostRuns || runs[0].Text != "3" || runs[mostRuns-1].Text != fmt.Sprint(mostRuns+2) {
		t.Errorf("%d runs, from %s", len(runs), runs[0].Text)
	}
	half := strings.Repeat("x", mostRunText/2+1)
	for range 2 {
		h.Query([]byte(half))
		h.RanQuery(write, 0, nil)
	}
	if runs := h.Runs(); len(runs) != 1 || runs[0].Text != half {
		t.Errorf("%d runs behind a text that did not fit in beside the others", len(runs))
	}
	h.Query([]byte(half + half))
	h.RanQuery(write, 0, nil)
	if runs := h.Runs(); len(runs) != 0 || len(h.text) > mostRunText {
		t.Errorf("%d runs, %d bytes behind a text over the bound", len(runs), len(h.text))
	}
}
