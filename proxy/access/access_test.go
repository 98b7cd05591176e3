package access

import (
	"testing"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

func newPlanner(t *testing.T) *rewrite.Planner {
	t.Helper()
	planner, err := rewrite.New(rewrite.Config{MaxBytes: 64 << 10, MaxNesting: 100, CacheEntries: 100, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return planner
}

func newSettings(t *testing.T, startup string) *settings.Client {
	t.Helper()
	c := settings.NewClient(settings.NewTreatments(true, false, nil), &settings.InternTable{})
	if startup != "" {
		values := settings.NewValues(map[string]string{})
		values.StartupLocal = map[string]string{rewrite.ReadOnlyDefault: startup}
		if err := c.ApplyStartup(values); err != nil {
			t.Fatal(err)
		}
	}
	return &c
}

func codeOf(err *wire.Error) string {
	if err == nil {
		return ""
	}
	return err.Code
}

// The next mode is that of the setting, which is unsure while the end of a transaction that has changed it is pending.
func TestNextMode(t *testing.T) {
	c := newSettings(t, "on")
	expect := func(want Mode) {
		t.Helper()
		if got := NextMode(c); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	expect(ReadOnly)
	if err := c.StoreLocal(rewrite.ReadOnlyDefault, "off", false); err != nil {
		t.Fatal(err)
	}
	expect(Unsure)
	c.EndLocalChanges(true)
	expect(ReadOnly)
	if err := c.StoreLocal(rewrite.ReadOnlyDefault, "off", false); err != nil {
		t.Fatal(err)
	}
	c.EndLocalChanges(false)
	expect(ReadWrite)
}

func TestMayChangeMode(t *testing.T) {
	planner := newPlanner(t)
	for _, test := range []struct {
		sql, startup string
		want         bool
	}{
		{"SET default_transaction_read_only = on", "", true}, {"RESET default_transaction_read_only", "", true},
		{"RESET ALL", "", false}, {"RESET ALL", "on", true}, {"RESET ALL", "off", true}, {"SET timezone = 'UTC'", "on", false}, {"SELECT 1", "on", false},
	} {
		if got := mayChangeMode(planner.Plan([]byte(test.sql)).SingleStatement(), newSettings(t, test.startup)); got != test.want {
			t.Errorf("%s, startup %q: %v", test.sql, test.startup, got)
		}
	}
}

func TestBeginSQL(t *testing.T) {
	planner := newPlanner(t)
	for sql, want := range map[string]string{
		"BEGIN":                                 "BEGIN READ ONLY",
		"BEGIN ISOLATION LEVEL REPEATABLE READ": "BEGIN READ ONLY",
		"BEGIN ISOLATION LEVEL READ COMMITTED":  "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY",
		"BEGIN DEFERRABLE":                      "BEGIN DEFERRABLE READ ONLY",
		"BEGIN NOT DEFERRABLE":                  "BEGIN NOT DEFERRABLE READ ONLY",
		"BEGIN ISOLATION LEVEL SERIALIZABLE":    "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
	} {
		tx := planner.Plan([]byte(sql)).SingleStatement().Tx
		if got := BeginSQL("BEGIN", &tx, "READ ONLY"); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}

// A text in a READ ONLY transaction is refused as a whole, or one of its statements is, by the block before it.
func TestCheck(t *testing.T) {
	planner := newPlanner(t)
	const off = "SET default_transaction_read_only = off"
	for _, test := range []struct {
		sql    string
		mode   Mode
		block  byte // the status of the block; 0: none
		failed bool
		behind bool // other statements precede the text in its turn
		code   string
		denied string // the error of one statement
		begins bool   // a BEGIN is sent as BEGIN READ ONLY
	}{
		{sql: "INSERT INTO a VALUES (1)"},
		{sql: "INSERT INTO a VALUES (1)", mode: ReadOnly, code: "25006"},
		{sql: "INSERT INTO a VALUES (1)", mode: Unsure, code: "0A000"},
		{sql: "INSERT INTO a VALUES (1)", mode: ReadOnly, block: 'T'},
		{sql: "SELECT 1", mode: ReadOnly},
		{sql: "SELECT 1", mode: Unsure},
		{sql: "SELECT f()", mode: ReadOnly, code: "0A000"},
		{sql: "DO $$ BEGIN END $$", mode: ReadOnly, code: "0A000"},
		{sql: "no SQL", mode: ReadOnly, code: "0A000"},
		{sql: "no SQL", mode: ReadOnly, block: 'T'},
		{sql: "INSERT INTO a VALUES (1)", mode: ReadOnly, failed: true},
		{sql: "BEGIN", mode: ReadOnly, begins: true},
		{sql: "BEGIN", mode: ReadOnly, block: 'T'},
		{sql: "BEGIN READ WRITE", mode: ReadOnly},
		{sql: "BEGIN READ WRITE", mode: ReadOnly, behind: true, code: "0A000"},
		{sql: "BEGIN READ ONLY", mode: Unsure},
		{sql: "BEGIN", mode: Unsure, code: "0A000"},
		{sql: "SELECT 1; INSERT INTO a VALUES (1)", mode: ReadOnly, denied: "25006"},
		{sql: "BEGIN; INSERT INTO a VALUES (1)", mode: ReadOnly, begins: true},
		{sql: "BEGIN READ WRITE; INSERT INTO a VALUES (1)", mode: ReadOnly},
		{sql: "COMMIT; INSERT INTO a VALUES (1)", block: 'T'},
		{sql: "INSERT INTO a VALUES (1); SET TRANSACTION READ WRITE", mode: ReadOnly, denied: "25006"},
		{sql: "SELECT 1; SET TRANSACTION READ WRITE", mode: ReadOnly, code: "0A000"},
		{sql: "BEGIN READ ONLY; CREATE TABLE a (b serial)", denied: "25006"},
		{sql: "SELECT 1; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", denied: "25001"},
		{sql: "BEGIN; " + off + "; COMMIT; SELECT 1", code: "0A000"},
	} {
		plan := planner.Plan([]byte(test.sql))
		at := Position{Failed: test.failed, First: !test.behind, Settings: newSettings(t, "")}
		if test.block != 0 {
			at.Block = block.FromStatus(test.block)
		}
		turn := Turn{Mode: test.mode, denied: ErrMayWrite, beginReadOnly: true} // of the text before
		code := ""
		if turn.BeginCheck(plan) {
			code = codeOf(turn.Check(plan, at))
		}
		if code != test.code || codeOf(turn.denied) != test.denied || turn.BeginsReadOnly() != test.begins || turn.NeedsSubstitutes() != (test.begins || test.denied != "") {
			t.Errorf("%s, mode %d, block %q: %q, denied %q, begins %v", test.sql, test.mode, test.block, code, codeOf(turn.denied), turn.BeginsReadOnly())
		}
		want := test.denied
		if test.begins {
			want = "0A000"
		}
		if code == "" && codeOf(turn.ScriptError()) != want {
			t.Errorf("%s: without substitutes %q, want %q", test.sql, codeOf(turn.ScriptError()), want)
		}
	}
}

func TestTurn(t *testing.T) {
	for _, test := range []struct {
		mode                 Mode
		inBlock              bool
		begin, begins, shows bool
	}{
		{mode: ReadWrite}, {mode: Unsure}, {mode: ReadOnly, begins: true, shows: true}, {mode: ReadOnly, inBlock: true, begins: true},
	} {
		turn := Turn{Mode: test.mode}
		if turn.AnswersShow(Setting, test.inBlock) != test.shows || turn.AnswersShow("timezone", test.inBlock) {
			t.Errorf("%+v: SHOW", test)
		}
		if turn.AddsReadOnly(&rewrite.TxControl{Verb: rewrite.Begin}) != test.begins || turn.AddsReadOnly(&rewrite.TxControl{Verb: rewrite.Begin, ReadWrite: true}) {
			t.Errorf("%+v: BEGIN", test)
		}
	}
}

// TestStatementError finds that DDL in a READ ONLY block of a query is refused for that, before its form is looked at.
func TestStatementError(t *testing.T) {
	planner := newPlanner(t)
	after := func(sql string) block.Block {
		at := block.FromStatus('I')
		at.RecordStatement(planner.Plan([]byte(sql)).SingleStatement())
		return at
	}
	for _, test := range []struct {
		sql  string
		at   block.Block
		mode Mode
		want string
	}{
		{"CREATE TABLE a (b serial)", after("BEGIN READ ONLY"), ReadWrite, "25006"}, {"CREATE TABLE a (b int)", after("BEGIN READ ONLY"), ReadWrite, "25006"},
		{"CREATE TABLE a (b int)", after("BEGIN"), ReadWrite, ""}, {"CREATE TABLE a (b int)", after("SELECT 1"), ReadWrite, ""},
		{"INSERT INTO a VALUES (1)", after("BEGIN READ ONLY"), ReadWrite, ""}, {"SELECT 1", after("BEGIN READ ONLY"), ReadWrite, ""},
		{"CREATE TABLE a (b int)", after("SELECT 1"), ReadOnly, "25006"}, {"INSERT INTO a VALUES (1)", after("SELECT 1"), ReadOnly, "25006"},
	} {
		if got := codeOf(StatementError(&test.at, planner.Plan([]byte(test.sql)).SingleStatement(), test.mode)); got != test.want {
			t.Errorf("%s: %q, want %q", test.sql, got, test.want)
		}
	}
}

// A server's error about the form of a write in a READ ONLY block is replaced by 25006.
func TestFormError(t *testing.T) {
	planner := newPlanner(t)
	readOnly := block.FromStatus('I')
	readOnly.RecordStatement(planner.Plan([]byte("BEGIN READ ONLY")).SingleStatement())
	readWrite := block.FromStatus('I')
	readWrite.RecordStatement(planner.Plan([]byte("BEGIN")).SingleStatement())
	for _, test := range []struct {
		sql, code string
		at        block.Block
		want      string
	}{
		{"CREATE TABLE a (b serial)", "42704", readOnly, "25006"}, {"CREATE TABLE a (b int)", "0A000", readOnly, "25006"},
		{"CREATE TABLE a (b int)", "42P07", readOnly, ""}, {"CREATE TABLE a (b int)", "0A000", readWrite, ""},
		{"SELECT 1", "0A000", readOnly, ""}, {"CREATE TABLE a (b int)", "0A000", block.FromStatus('T'), ""},
	} {
		payload := (&wire.Error{Code: test.code, Message: "no"}).Append(nil)[wire.HeaderLen:]
		if got := codeOf(FormError(planner.Plan([]byte(test.sql)).SingleStatement(), payload, &test.at)); got != test.want {
			t.Errorf("%s, %s: %q, want %q", test.sql, test.code, got, test.want)
		}
	}
	if FormError(nil, nil, &readOnly) != nil {
		t.Error("an error of no statement")
	}
}

func TestHasTransactionDefaults(t *testing.T) {
	c := newSettings(t, "")
	if HasTransactionDefaults(c) {
		t.Error("a client without settings has some")
	}
	c.SetCarried(rewrite.SettingChange{Name: "default_transaction_isolation", SQL: "'repeatable read'", Text: "repeatable read"})
	if !HasTransactionDefaults(c) {
		t.Error("a default_transaction_ setting is not seen")
	}
}
