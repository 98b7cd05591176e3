package matrix

import (
	"strings"
	"testing"
)

func TestLinesOfApplications(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		line, name string
		want       answer
		ok         bool
	}{
		{"step crud: ok [1 2]", "crud", answer{ok: true, values: "[1 2]"}, true},
		{"step crud: ok", "crud", answer{ok: true, values: "ok"}, true},
		{"step down: error 0A000 a: b", "down", answer{code: "0A000", message: "a: b"}, true},
		{"step crud: fine", "crud", answer{}, false},
		{"step other: ok 1", "", answer{}, false},
		{"crud: ok 1", "", answer{}, false},
		{"", "", answer{}, false},
	} {
		name, got, ok := parse(test.line)
		if ok != test.ok || ok && (name != test.name || got.ok != test.want.ok || got.code != test.want.code || got.message != test.want.message || got.ok && !strings.HasSuffix(test.line, got.values)) {
			t.Errorf("%q: %q, %+v, %v", test.line, name, got, ok)
		}
	}
}

// The statement that counts is the one that failed first, and not what an application expects or what
// follows from it.
func TestExplanations(t *testing.T) {
	t.Parallel()
	refused := []refusal{{code: "42P01", statement: "probe"}, {code: "23505", statement: "expected"},
		{code: "0A000", message: "lacks", statement: "cause"}, {code: "25P02", statement: "follows"}, {code: "0A000", statement: "last"}}
	for _, test := range []struct {
		told    answer
		refused []refusal
		want    string
	}{
		{answer{code: "25P02"}, refused, "cause"},
		{answer{code: "-", message: "its own words"}, refused, "cause"},
		{answer{code: "23505"}, refused[:2], "expected"},
		{answer{code: "-"}, refused[:2], ""},
		{answer{ok: true}, refused, ""},
		{answer{code: "0A000"}, nil, ""},
	} {
		if got := test.told.explained(test.refused); got.statement != test.want {
			t.Errorf("%+v: %q, want %q", test.told, got.statement, test.want)
		}
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	plain, switched := configuration{name: "as is"}, configuration{name: "a switch"}
	right, other, wrong := answer{ok: true, values: "1"}, answer{ok: true, values: "2"}, answer{code: "0A000", message: "no"}
	type seen struct {
		in     configuration
		got    answer
		byHand bool
	}
	for _, test := range []struct {
		name string
		seen []seen
		want cell
	}{
		{"at once", []seen{{plain, right, false}, {switched, wrong, false}}, cell{How: "as is"}},
		{"with a switch", []seen{{plain, wrong, false}, {switched, right, false}}, cell{How: "a switch"}},
		{"never", []seen{{plain, wrong, false}, {switched, wrong, false}}, cell{In: "as is", Code: "0A000", Message: "no"}},
		{"another answer", []seen{{plain, other, false}}, cell{In: "as is", Code: "-", Message: "answers 2, PostgreSQL 1"}},
		{"on tables by hand", []seen{{plain, right, true}, {switched, right, true}}, cell{How: "as is", ByHand: true}},
		{"on its own, too", []seen{{plain, right, true}, {switched, right, false}}, cell{How: "as is"}},
		{"but not on its own", []seen{{plain, right, true}, {switched, wrong, false}}, cell{In: "a switch", Code: "0A000", Message: "no"}},
		{"a reason is more than a need", []seen{{plain, wrong, false}, {switched, answer{needs: "tables"}, false}}, cell{In: "as is", Code: "0A000", Message: "no"}},
		{"the furthest need", []seen{{plain, answer{needs: "tables"}, false}, {switched, answer{needs: "alter"}, false}, {plain, answer{needs: "tables"}, false}}, cell{Needs: "alter"}},
		{"the need is gone", []seen{{plain, answer{needs: "tables"}, false}, {switched, wrong, false}}, cell{In: "a switch", Code: "0A000", Message: "no"}},
	} {
		wanted := map[string]answer{"crud": right}
		r := newRow("1.0", wanted)
		for _, s := range test.seen {
			r.add(s.in, wanted, map[string]answer{"crud": s.got}, s.byHand)
		}
		if got := *r.Cells["crud"]; got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// A record that is no longer true is told.
func TestDifferences(t *testing.T) {
	t.Parallel()
	was := &row{Version: "1.0", Cells: map[string]*cell{"crud": {How: "as is"}, "down": {Needs: "tables"}}}
	for _, test := range []struct {
		now  *row
		want int
	}{
		{&row{Version: "1.0", Cells: map[string]*cell{"crud": {How: "as is"}, "down": {Needs: "tables"}}}, 0},
		{&row{Version: "1.1", Cells: was.Cells}, 1},
		{&row{Version: "1.0", Cells: map[string]*cell{"crud": {How: "a switch"}, "down": {How: "as is"}}}, 2},
		{&row{Version: "1.0", Cells: map[string]*cell{"crud": {How: "as is"}}}, 1},
	} {
		if got := was.differences(test.now); len(got) != test.want {
			t.Errorf("%+v: %q", test.now, got)
		}
	}
	if got := (*row)(nil).differences(was); len(got) != 1 {
		t.Errorf("of no record: %q", got)
	}
}

// Of long answers the part is shown where they differ.
func TestUnlike(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for _, test := range [][3]string{
		{"1", "2", "answers 1, PostgreSQL 2"},
		{"", "2", "answers , PostgreSQL 2"},
		{long + "a", long, "answers " + long[:20] + "a, PostgreSQL " + long[:20]},
		{long + "a" + long, long + "b", "answers " + long[:20] + "a" + long[:39] + ", PostgreSQL " + long[:20] + "b"},
	} {
		if got := unlike(test[0], test[1]); got != test[2] {
			t.Errorf("%s", got)
		}
	}
}

// What differs from run to run is no part of a statement's shape.
func TestShapes(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]string{
		"CLOSE  \"_django_curs_139714321_sync_1\"":             `CLOSE "_django_curs_N_sync_1"`,
		"SAVEPOINT \"32eda900-9bdd-4aee-a8de-b08fbcefecd7-2\"": `SAVEPOINT "N-2"`,
		"VALUES ('2026-11-25 23:10:41.019 +00:00')":            "VALUES ('N +00:00')",
		"SELECT\n\t1":            "SELECT 1",
		strings.Repeat("x", 200): strings.Repeat("x", 160) + " …",
	} {
		if got := shape(statement); got != want {
			t.Errorf("%q: %q, want %q", statement, got, want)
		}
	}
}
