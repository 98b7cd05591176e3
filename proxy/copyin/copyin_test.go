package copyin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/copyin"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// shapes are the statements that the server has run: those of INSERTs as their numbers of rows.
func (f *fake) shapes() string {
	var all []string
	for _, sql := range f.ran {
		if strings.HasPrefix(sql, "INSERT") {
			sql = fmt.Sprint(rows(sql))
		}
		all = append(all, sql)
	}
	return strings.Join(all, " ")
}

// A COPY outside of a block is one transaction of one INSERT, whatever frames its data come in.
func TestInserts(t *testing.T) {
	t.Parallel()
	const lines = "1\tit's\n2\t\\N\n3\ttab\\there\n"
	want := []string{"BEGIN", "INSERT INTO \"t\" (\"a\", \"b\") VALUES ('1','it''s'),('2',NULL),('3','tab\there')", "COMMIT"}
	for name, f := range map[string]*fake{
		"one frame":    table(data(lines), done()),
		"three frames": table(data(lines[:3]), data(""), data(lines[3:]), done()),
		"among others": table(wire.FrameFlush, data(lines), wire.FrameSync, done()),
	} {
		for _, piece := range []int{0, 1} {
			f := *f
			f.piece = piece
			tag, e := f.run(t, statement())
			if tag != "COPY 3" || e != nil || !f.finished || f.committed != 1 || len(f.replies) != 2 {
				t.Errorf("%s: %q, %v, %d batches, %d replies", name, tag, e, f.committed, len(f.replies))
			}
			if !slices.Equal(f.ran, want) {
				t.Errorf("%s: %q", name, f.ran)
			}
			if got, want := string(f.replies[0]), "G\x00\x00\x00\x0b\x00\x00\x02\x00\x00\x00\x00"; got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}

// Rows that are too many for a transaction come in several, and the client gets a warning.
func TestBatches(t *testing.T) {
	t.Parallel()
	f := table(data(numbers(6001)), done())
	tag, e := f.run(t, statement())
	if got, want := f.shapes(), "BEGIN 3000 COMMIT BEGIN 3000 COMMIT BEGIN 1 COMMIT"; tag != "COPY 6001" || e != nil || got != want {
		t.Errorf("%q, %v: %s", tag, e, got)
	}
	if n := slices.IndexFunc(f.replies, func(b []byte) bool {
		return b[0] == wire.NoticeResponse && strings.Contains(string(b), "3 transactions")
	}); n < 0 {
		t.Error("no warning")
	}

	f = table(data(numbers(120)), done())
	f.block = true
	if tag, e := f.run(t, statement()); tag != "COPY 120" || e != nil || f.shapes() != "50 50 20" {
		t.Errorf("in a block: %q, %v: %s", tag, e, f.shapes())
	}

	f = table(data(numbers(3)), done())
	f.columns = f.columns[:1]
	if _, e := f.run(t, statement()); e == nil || e.Code != "22P04" || e.Context != `COPY t, line 1: "1	x"` || len(f.ran) > 0 {
		t.Errorf("too many columns: %+v, %s", e, f.shapes())
	}
}

// Where the account has no room, rows are inserted before a batch is full.
func TestShortBatches(t *testing.T) {
	t.Parallel()
	f := table()
	for range 40 {
		f.in = append(f.in, data(numbers(50))...)
	}
	f.in, f.room = append(f.in, done()...), 20_000
	if tag, e := f.run(t, statement()); tag != "COPY 2000" || e != nil || f.committed < 10 {
		t.Errorf("%q, %v, %d batches", tag, e, f.committed)
	}
	f = table(data(strings.Repeat("x", 30_000)), done())
	f.room = 20_000
	if _, e := f.run(t, statement()); e == nil || e.Code != "53200" {
		t.Errorf("a line beyond the account: %v", e)
	}
}

var (
	conflict = &wire.Error{Code: "40001", Message: "change conflicts with another transaction, please retry: (OC000)"}
	tooMany  = &wire.Error{Code: "54000", Message: "transaction row limit exceeded"}
)

// A batch that meets a conflict runs again. If it still does after all attempts, the code depends on whether
// other batches are committed.
func TestConflicts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		commits   []bool // whether each fails
		optsOut   bool
		tag, code string
		detail    string
	}{
		"once":         {commits: []bool{true, false, false}, tag: "COPY 3001"},
		"opted out":    {commits: []bool{true}, optsOut: true, code: "40001"},
		"for ever":     {commits: slices.Repeat([]bool{true}, 100), code: "40001"},
		"in the rest":  {commits: []bool{false, true}, optsOut: true, code: "25000", detail: "3000 rows are in, and stay so: copy.from commits a COPY in batches."},
		"between both": {commits: []bool{true, false, true, false}, tag: "COPY 3001"},
	} {
		f := table(data(numbers(3001)), done())
		f.optsOut = test.optsOut
		failed := 0
		f.fails = func(sql string) (*wire.Error, int) {
			if sql != "COMMIT" {
				return nil, 0
			}
			fails := test.commits[0]
			if test.commits = test.commits[1:]; fails {
				failed++
				return conflict, 0
			}
			return nil, 0
		}
		tag, e := f.run(t, statement())
		if code, detail := "", ""; e != nil {
			if code, detail = e.Code, e.Detail; code != test.code || detail != test.detail {
				t.Errorf("%s: %+v", name, e)
			}
		} else if test.code != "" || tag != test.tag || f.pauses != failed {
			t.Errorf("%s: %q, %d pauses", name, tag, f.pauses)
		}
	}
}

// A batch that the server refuses for its rows is halved until it is taken.
func TestHalves(t *testing.T) {
	t.Parallel()
	f := table(data(numbers(3000)), done())
	n := 0
	f.fails = func(sql string) (*wire.Error, int) {
		if sql == "BEGIN" {
			n = 0
		} else if strings.HasPrefix(sql, "INSERT") {
			if n += rows(sql); n > 800 {
				return tooMany, 0
			}
		}
		return nil, 0
	}
	if tag, e := f.run(t, statement()); tag != "COPY 3000" || e != nil || f.committed != 4 {
		t.Errorf("%q, %v, %d batches", tag, e, f.committed)
	}

	f = table(data(numbers(50)), done())
	f.block, f.fails = true, func(string) (*wire.Error, int) { return tooMany, 0 }
	if _, e := f.run(t, statement()); e == nil || e.Code != "54000" || !strings.Contains(e.Hint, "3,000 rows") || len(f.ran) != 1 {
		t.Errorf("in a block: %+v, %s", e, f.shapes())
	}
}

// An error of a row names its line: by the position in the INSERT, or, if it has none, by a search.
func TestLines(t *testing.T) {
	t.Parallel()
	lines := numbers(99) + "oops\tx\n" + numbers(99)
	for name, test := range map[string]struct {
		block   bool
		code    string
		message string
		context string
	}{
		"position":            {code: "22P02", message: "oops", context: `COPY t, line 100, column a: "oops"`},
		"position in a block": {block: true, code: "22P02", message: "oops", context: `COPY t, line 100, column a: "oops"`},
		"not null":            {code: "23502", context: `COPY t, line 100: "oops	x"`},
		"unique":              {code: "23505", context: "COPY t, line 100"},
		"unique in a block":   {block: true, code: "23505", context: "COPY t, lines 51 to 100"},
		"foreign key":         {code: "23503", context: ""},
	} {
		f := table(data(lines), done())
		f.block = test.block
		f.fails = func(sql string) (*wire.Error, int) {
			if n := strings.Index(sql, "'oops'"); n >= 0 && test.message != "" {
				return &wire.Error{Code: test.code}, n + 1
			} else if n >= 0 {
				return &wire.Error{Code: test.code}, 0
			}
			return nil, 0
		}
		if _, e := f.run(t, statement()); e == nil || e.Code != test.code || e.Context != test.context || f.committed != 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// A CopyFail, and an unreadable line, end a COPY; what was committed before is counted. An earlier row's error
// comes before that of the line.
func TestDataEndEarly(t *testing.T) {
	t.Parallel()
	fail := append(wire.AppendHeader(nil, wire.CopyFail, 5), "oops\x00"...)
	f := table(data(numbers(3001)), fail)
	_, e := f.run(t, statement())
	if e == nil || e.Code != "57014" || e.Message != "COPY from stdin failed: oops" || e.Context != "COPY t, line 3001" ||
		!strings.HasPrefix(e.Detail, "3000 rows are in") {
		t.Errorf("%+v", e)
	}
	for name, test := range map[string]struct {
		fails *wire.Error
		code  string
		line  string
	}{
		"good rows":     {nil, "22P04", "COPY t, line 3: \"3\""},
		"bad rows":      {&wire.Error{Code: "23502"}, "23502", "COPY t, line 1: \"1	x\""},
		"another error": {&wire.Error{Code: "42501"}, "22P04", "COPY t, line 3: \"3\""},
	} {
		f := table(data(numbers(2)+"3\n"), done())
		f.fails = func(sql string) (*wire.Error, int) {
			if strings.HasPrefix(sql, "INSERT") {
				return test.fails, 0
			}
			return nil, 0
		}
		if _, e := f.run(t, statement()); e == nil || e.Code != test.code || e.Context != test.line || slices.Contains(f.ran, "COMMIT") {
			t.Errorf("%s: %+v, %s", name, e, f.shapes())
		}
	}
}

// A frame that no COPY takes ends the session, as does a client that leaves.
func TestOtherFrames(t *testing.T) {
	t.Parallel()
	query := wire.AppendStrings(nil, wire.Query, "SELECT 1")
	terminate := wire.AppendHeader(nil, wire.Terminate, 0)
	for name, frame := range map[string][]byte{"query": query, "terminate": terminate} {
		f := table(data(numbers(5)), frame)
		committed := 0
		err := copyin.Run(f, statement(), nil, config(&committed))
		if !errors.Is(err, feature.ErrTerminated) || len(f.ran) > 0 {
			t.Errorf("%s: %v, %s", name, err, f.shapes())
		}
		if bad := f.protocol; (bad != nil) != (name == "query") || bad != nil && (bad.Code != "08P01" || bad.Context != "COPY t, line 5") {
			t.Errorf("%s: %+v", name, bad)
		}
	}
}

// What stops a COPY counts between two batches, and the client learns how many rows are stored.
func TestStops(t *testing.T) {
	t.Parallel()
	f := table(data(numbers(6001)), done())
	n := 0
	f.stops = func() error {
		if n++; n > 1 {
			return &wire.Error{Code: "57014"}
		}
		return nil
	}
	if _, e := f.run(t, statement()); e == nil || e.Code != "57014" || !strings.HasPrefix(e.Detail, "3000 rows are in") || f.committed != 1 {
		t.Errorf("%+v, %s", e, f.shapes())
	}

	// The search for a line ends too, without a line.
	f, n = table(data(numbers(100)), done()), 0
	f.stops = func() error {
		if n++; n > 3 {
			return &wire.Error{Code: "57014"}
		}
		return nil
	}
	f.fails = func(sql string) (*wire.Error, int) {
		if strings.Contains(sql, "'50'") {
			return &wire.Error{Code: "23505"}, 0
		}
		return nil, 0
	}
	if _, e := f.run(t, statement()); e == nil || e.Code != "23505" || e.Context != "" || f.shapes() != "BEGIN 100 ROLLBACK BEGIN 50 ROLLBACK BEGIN 25 ROLLBACK" {
		t.Errorf("search: %+v, %s", e, f.shapes())
	}
}

// Some COPYs are refused before the client sends data.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*fake)
		code   string
	}{
		"nothing":         {func(*fake) {}, ""},
		"UTF8":            {func(f *fake) { f.settings = map[string]string{"client_encoding": "'utf-8'"} }, ""},
		"another":         {func(f *fake) { f.settings = map[string]string{"client_encoding": "'LATIN1'"} }, "0A000"},
		"behind others":   {func(f *fake) { f.preceded = true }, "0A000"},
		"READ ONLY":       {func(f *fake) { f.block, f.readOnly = true, true }, "25006"},
		"of no block":     {func(f *fake) { f.readOnly = true }, ""}, // refused by the session
		"without columns": {func(f *fake) { f.columns = nil }, "0A000"},
	} {
		f := table(data(numbers(1)), done())
		test.change(f)
		tag, e := f.run(t, statement())
		if code := ""; e != nil {
			if code = e.Code; code != test.code || len(f.replies) > 0 {
				t.Errorf("%s: %+v", name, e)
			}
		} else if test.code != "" || tag != "COPY 1" {
			t.Errorf("%s: %q", name, tag)
		}
	}
}

// The catalog says which columns the data have, and which tables INSERTs cannot fill.
func TestTables(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		columns [][]string
		insert  string
		code    string
	}{
		"identity":  {[][]string{{"r", "f", "a", "23", "f", "t"}}, `INSERT INTO "t" ("a") OVERRIDING SYSTEM VALUE VALUES ('1')`, ""},
		"generated": {[][]string{{"r", "f", "a", "23", "f", "f"}, {"r", "f", "b", "23", "t", "f"}}, `INSERT INTO "t" ("a") VALUES ('1')`, ""},
		"rules":     {[][]string{{"r", "t", "a", "23", "f", "f"}}, "", "0A000"},
		"view":      {[][]string{{"v", "f", "a", "23", "f", "f"}}, "", "42809"},
		"malformed": {[][]string{{"r", "f"}}, "", "XX000"},
	} {
		f := table(data("1\n"), done())
		f.columns = test.columns
		_, e := f.run(t, statement())
		if e != nil {
			if e.Code != test.code || len(f.ran) > 0 {
				t.Errorf("%s: %+v", name, e)
			}
		} else if test.code != "" || len(f.ran) != 3 || f.ran[1] != test.insert {
			t.Errorf("%s: %q", name, f.ran)
		}
	}
}

// The options of a COPY decide how its data are read.
func TestOptions(t *testing.T) {
	t.Parallel()
	st := statement()
	st.CopyIn.CSV, st.CopyIn.Header, st.CopyIn.Delimiter, st.CopyIn.Quote, st.CopyIn.Escape, st.CopyIn.Null = true, true, ',', '"', '"', ""
	st.CopyIn.Columns, st.CopyIn.ForceNotNull = []string{"b", "a"}, []string{"b"}
	f := table(data("b,a\n\"x,\n\"\"\",1\n,\n"), done())
	if tag, e := f.run(t, st); tag != "COPY 2" || e != nil || f.ran[1] != "INSERT INTO \"t\" (\"b\", \"a\") VALUES ('x,\n\"','1'),('',NULL)" {
		t.Errorf("CSV: %q, %+v, %q", tag, e, f.ran)
	}
	st.CopyIn.ForceNotNull = []string{"c"}
	f = table(done())
	if _, e := f.run(t, st); e == nil || e.Code != "42703" && e.Code != "42P10" {
		t.Errorf("FORCE_NOT_NULL: %+v", e)
	}

	st = statement()
	st.CopyIn.Binary = true
	f = table(data("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"+"\x00\x02\x00\x00\x00\x04\x00\x00\x00\x07\x00\x00\x00\x01x"+"\xff\xff"), done())
	tag, e := f.run(t, st)
	if want := "G\x00\x00\x00\x0b\x01\x00\x02\x00\x01\x00\x01"; tag != "COPY 1" || e != nil || string(f.replies[0]) != want || f.ran[1] != `INSERT INTO "t" ("a", "b") VALUES ('7','x')` {
		t.Errorf("binary: %q, %+v, %q", tag, e, f.ran)
	}
	f = table(done())
	f.columns[1][3] = "603" // box
	if _, e := f.run(t, st); e == nil || e.Code != "0A000" || !strings.Contains(e.Message, `column "b"`) {
		t.Errorf("box: %+v", e)
	}
}

// A row beyond what is planned is refused, behind the rows before it.
func TestLongRow(t *testing.T) {
	t.Parallel()
	f := table(data(numbers(2)), data("3\t"+strings.Repeat("x", 2<<20)+"\n"), done())
	if _, e := f.run(t, statement()); e == nil || e.Code != "54000" || e.Context != "COPY t, line 3" || f.shapes() != "BEGIN 2 ROLLBACK" {
		t.Errorf("%+v, %s", e, f.shapes())
	}
}

// Receive leaves the last rows to Finish, and NotAlone refuses what follows instead.
func TestDeferred(t *testing.T) {
	t.Parallel()
	f := table(data(numbers(3001)), done())
	c, err := copyin.Receive(f, statement(), nil, config(&f.committed))
	if err != nil || f.shapes() != "BEGIN 3000 COMMIT" {
		t.Fatalf("%v: %s", err, f.shapes())
	}
	if e := c.NotAlone(); e.Code != "0A000" || !strings.Contains(e.Detail, "3000 rows are in") {
		t.Errorf("%+v", e)
	}
	var _ feature.Deferred = c
	if err := c.Finish(); err != nil || f.shapes() != "BEGIN 3000 COMMIT BEGIN 1 COMMIT" {
		t.Errorf("%v: %s", err, f.shapes())
	}
}

// The outcome of a COMMIT that the server does not answer is unknown. No batch follows.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	f := table(data(numbers(6001)), done())
	commits := 0
	f.fails = func(sql string) (*wire.Error, int) {
		if sql == "COMMIT" {
			if commits++; commits == 2 {
				return &wire.Error{Code: "08007"}, 0
			}
		}
		return nil, 0
	}
	if _, e := f.run(t, statement()); e == nil || e.Code != "08007" || !strings.HasPrefix(e.Detail, "3000 rows are in") || f.shapes() != "BEGIN 3000 COMMIT BEGIN 3000 COMMIT" {
		t.Errorf("%+v, %s", e, f.shapes())
	}
}
