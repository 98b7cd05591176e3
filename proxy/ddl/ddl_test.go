package ddl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// reply is what a scripted server answers to a statement that contains the words.
type reply struct {
	words string
	rows  [][]string
	err   error
	once  bool
}

// scripted is a server that answers by a script, and accepts every other statement.
type scripted struct {
	script  []reply
	asked   []string
	batches int // rows that Batches changes
	early   int // calls of EarlyCommit
	more    int // statements after which More stops the work; 0: never
}

var (
	errLost     = errors.New("lost")
	errStopped  = errors.New("stopped")
	unsupported = &wire.Error{Code: "0A000", Message: "unsupported"}
)

func (s *scripted) Ask(sql string, row func([]string)) error {
	s.asked = append(s.asked, sql)
	for i := range s.script {
		r := &s.script[i]
		if r.words == "" || !strings.Contains(sql, r.words) {
			continue
		}
		if r.once {
			r.words = ""
		}
		for _, values := range r.rows {
			row(values)
		}
		return r.err
	}
	return nil
}

func (s *scripted) RefusalFrom(err error) *wire.Error {
	e, _ := err.(*wire.Error)
	return e
}

func (s *scripted) Pause(time.Duration) error { return nil }

func (s *scripted) CheckMayContinue() error {
	if s.more > 0 && len(s.asked) >= s.more {
		return errStopped
	}
	return nil
}

func (s *scripted) UpdateInBatches(_ string, update func(key []string, rows int) string) (int, error) {
	if err := s.Ask(update([]string{"id"}, 3), nil); err != nil {
		return 0, err
	}
	return s.batches, nil
}

func (s *scripted) ChangedNothing(err error) bool { return err != errLost }
func (s *scripted) ConsumeCancel(error)           {}
func (s *scripted) EarlyCommit()                  { s.early++ }

func (s *scripted) Warnings(st *rewrite.Statement) [][]byte { return nil }

// steps returns the words that the statements of the server have, in order, of those that are asked for.
func (s *scripted) steps(words ...string) (all []string) {
	for _, sql := range s.asked {
		if i := slices.IndexFunc(words, func(w string) bool { return strings.Contains(sql, w) }); i >= 0 {
			all = append(all, words[i])
		}
	}
	return all
}

// statement plans a statement as the default configuration for DSQL does.
func statement(t *testing.T, sql string) *rewrite.Statement {
	t.Helper()
	c := rewrite.Defaults()
	c.Rules.Backfill, c.Rules.NotNullCheck, c.Rules.InTransactions = true, true, rewrite.CommitDDL
	p, err := rewrite.New(c)
	if err != nil {
		t.Fatal(err)
	}
	st := p.Plan([]byte(sql)).SingleStatement()
	if st == nil || !st.MayRunInSteps() {
		t.Fatalf("%s is not carried out in steps", sql)
	}
	return st
}

const addColumn = "ALTER TABLE t ADD COLUMN c int DEFAULT 7"

// The steps of a column with a default, and what an error at each of them leaves.
func TestColumn(t *testing.T) {
	t.Parallel()
	violation := &wire.Error{Code: "23514", Message: `column "c__adding" violates`}
	words := []string{addColumn, "FROM pg_catalog.pg_attribute", "ADD COLUMN", "SET DEFAULT", "UPDATE", "RENAME", "DROP COLUMN"}
	steps := func(to int, undone bool) (all []string) {
		all = slices.Clone(words[:to])
		if undone {
			all = append(all, "DROP COLUMN")
		}
		return all
	}
	refuses := reply{words: addColumn, err: unsupported}
	keyless, many := reply{words: "contype = 'p'", rows: [][]string{{"t"}}}, reply{words: "OFFSET 3000", rows: [][]string{{"1"}}}
	temporary := statement(t, addColumn).Steps.(*alter.Alteration).TemporaryName()
	for _, test := range []struct {
		name   string
		script []reply
		steps  []string
		err    string // code and a part of the text
	}{
		{"accepted", nil, steps(1, false), ""},
		{"another error", []reply{{words: addColumn, err: violation}}, steps(1, false), "23514"},
		{"in steps", []reply{refuses}, steps(6, false), ""},
		{"the column exists", []reply{refuses, {words: words[1], rows: [][]string{{"c"}}}}, steps(2, false), `42701 column "c" of relation "t" already exists`},
		{"its default is refused", []reply{refuses, {words: "SET DEFAULT", err: violation}}, steps(4, true), "23514"},
		{"a row violates", []reply{refuses, {words: "UPDATE", err: violation}}, steps(5, true), "23514"},
		{"lost while filling", []reply{refuses, {words: "UPDATE", err: errLost}}, steps(5, false), "lost"},
		{"conflict while filling", []reply{refuses, {words: "UPDATE", err: &wire.Error{Code: "40001", Message: "conflict"}}}, steps(5, false), "40001 conflict The column stands as"},
		{"may not be filled", []reply{refuses, {words: "UPDATE", err: &wire.Error{Code: "42501", Message: "permission denied"}}}, steps(5, true), "42501 permission denied"},
		{"too large to be filled", []reply{refuses, {words: "UPDATE", err: &wire.Error{Code: "54000", Message: "transaction size limit 10mb exceeded"}}}, steps(5, true), "0A000 the rows of the table cannot be given"},
		{"begun before, and its default refused", []reply{refuses, {words: words[1], rows: [][]string{{temporary}}}, {words: "ADD COLUMN \"c__", err: &wire.Error{Code: "42701"}}, {words: "SET DEFAULT", err: violation}}, steps(4, true), "23514"},
		{"a conflict over the default", []reply{refuses, {words: words[1], rows: [][]string{{temporary}}}, {words: "ADD COLUMN \"c__", err: &wire.Error{Code: "42701"}}, {words: "SET DEFAULT", err: &wire.Error{Code: "40001", Message: "conflict"}}}, steps(4, false), "40001 conflict The column stands as"},
		{"no key, few rows", []reply{refuses, keyless}, steps(6, false), ""},
		{"no key, many rows", []reply{refuses, keyless, many}, steps(2, false), "0A000 the rows of the table cannot be given the default of column \"c\" in batches The table has no primary key"},
		{"renamed by another", []reply{refuses, {words: "RENAME", err: &wire.Error{Code: "42703"}}}, steps(6, false), "42701"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := &scripted{script: test.script, batches: 2}
			work, _ := For(server, statement(t, addColumn))
			err := work.WithPartialResult(work.Run())
			if got := shown(err); !strings.HasPrefix(got, test.err) || (test.err == "") != (err == nil) {
				t.Errorf("%q, want %q", got, test.err)
			}
			if got := server.steps(words...); !slices.Equal(got, test.steps) {
				t.Errorf("steps %q, want %q", got, test.steps)
			}
		})
	}
}

// shown returns an error as text.
func shown(err error) string {
	e, ok := err.(*wire.Error)
	switch {
	case err == nil:
		return ""
	case !ok:
		return err.Error()
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s", e.Code, e.Message, e.Detail, e.Hint)), " ")
}

// The commands of one ALTER TABLE are committed one by one, and an error names both halves.
func TestCommands(t *testing.T) {
	t.Parallel()
	const sql = "ALTER TABLE t ADD COLUMN a int DEFAULT 1, ALTER COLUMN b SET DEFAULT 1, ALTER COLUMN d DROP DEFAULT"
	refuses := reply{words: sql, err: unsupported, once: true}
	for _, test := range []struct {
		name   string
		script []reply
		more   int
		err    string
		sent   int
	}{
		{"accepted", nil, 0, "", 1},
		{"one by one", []reply{refuses}, 0, "", 6},
		{"the first fails", []reply{refuses, {words: `d DROP DEFAULT`, err: &wire.Error{Code: "42701", Message: "exists"}}}, 0, "42701 exists", 4},
		{"a later fails", []reply{refuses, {words: `COLUMN a int`, err: &wire.Error{Code: "42701", Message: "exists"}}}, 0, "42701 exists Of the statement this is committed: ", 5},
		{"a later conflicts", []reply{refuses, {words: `COLUMN a int`, err: &wire.Error{Code: "40001", Message: "conflict"}}}, 0, "25000 conflict Of the statement this is committed: ", 5},
		{"stopped", []reply{refuses}, 4, "stopped", 4},
		{"a default that cannot be filled", []reply{refuses, {words: "contype = 'p'", rows: [][]string{{"t"}}}, {words: "OFFSET 3000", rows: [][]string{{"1"}}}}, 0, "0A000 the rows of the table", 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := &scripted{script: test.script, more: test.more}
			work, notices := For(server, statement(t, sql))
			err := work.WithPartialResult(work.Run())
			if got := shown(err); !strings.HasPrefix(got, test.err) || (test.err == "") != (err == nil) {
				t.Errorf("%q, want %q", got, test.err)
			}
			if len(server.asked) != test.sent {
				t.Errorf("%d statements: %q", len(server.asked), server.asked)
			}
			if warned := len(notices()) > 0; warned != (test.name == "one by one") || warned != (server.early == 1) {
				t.Errorf("warned: %v, %d counted", warned, server.early)
			}
		})
	}
}

// The statement of a DO block runs if its condition holds, and the block ignores the errors that it names.
func TestGuarded(t *testing.T) {
	t.Parallel()
	const (
		ifMissing = "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'i') THEN ALTER TABLE t ADD COLUMN c int; END IF; END $$"
		ignoring  = "DO $$ BEGIN ALTER TABLE t ADD COLUMN c int; EXCEPTION WHEN duplicate_column THEN null; END $$"
	)
	refuses, exists := reply{words: "DO $$", err: unsupported}, reply{words: "ADD COLUMN c", err: &wire.Error{Code: "42701", Message: "exists"}}
	for _, test := range []struct {
		name, sql string
		script    []reply
		err       string
		ran       bool
	}{
		{"accepted", ifMissing, []reply{{words: "DO $$"}}, "", false},
		{"true", ifMissing, []reply{refuses, {words: "pg_class", rows: [][]string{{"t"}}}}, "", true},
		{"false", ifMissing, []reply{refuses, {words: "pg_class", rows: [][]string{{"f"}}}}, "", false},
		{"ignored", ignoring, []reply{refuses, exists}, "", true},
		{"not ignored", ifMissing, []reply{refuses, {words: "pg_class", rows: [][]string{{"t"}}}, exists}, "42701 exists", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := &scripted{script: test.script}
			work, _ := For(server, statement(t, test.sql))
			if got := shown(work.WithPartialResult(work.Run())); got != test.err {
				t.Errorf("%q, want %q", got, test.err)
			}
			if ran := slices.ContainsFunc(server.asked, func(sql string) bool { return strings.HasPrefix(sql, "ALTER") }); ran != test.ran {
				t.Errorf("ran: %v, %q", ran, server.asked)
			}
		})
	}
}

// A database is a schema, which is dropped object by object where DROP SCHEMA does not cascade.
func TestDatabase(t *testing.T) {
	t.Parallel()
	there := reply{words: "SELECT 1 FROM", rows: [][]string{{"1"}}}
	objects := reply{words: "SELECT k.kind", rows: [][]string{{"TABLE", "a", ""}, {"FUNCTION", "f", "(integer)"}}, once: true}
	stays := &wire.Error{Code: "2BP01", Message: "others depend on it"}
	for _, test := range []struct {
		name     string
		database Database
		script   []reply
		err      string
		last     string
	}{
		{"create", Database{}, nil, "", `CREATE SCHEMA "app"`},
		{"create again", Database{}, []reply{{words: "CREATE", err: &wire.Error{Code: "42P06"}}}, `42P04 database "app" already exists`, `CREATE SCHEMA "app"`},
		{"create too many", Database{}, []reply{{words: "CREATE", err: &wire.Error{Code: "54000", Message: "limit"}}}, "54000 limit A database is a schema here", `CREATE SCHEMA "app"`},
		{"drop", Database{DatabaseChange: &rewrite.DatabaseChange{Drop: true}}, []reply{there, objects}, "", `DROP SCHEMA "app"`},
		{"drop, cascading", Database{DatabaseChange: &rewrite.DatabaseChange{Drop: true}, Cascades: true}, []reply{there}, "", `DROP SCHEMA "app" CASCADE`},
		{"drop none", Database{DatabaseChange: &rewrite.DatabaseChange{Drop: true}}, nil, `3D000 database "app" does not exist`, ""},
		{"drop none, if exists", Database{DatabaseChange: &rewrite.DatabaseChange{Drop: true, IfExists: true}}, nil, "", ""},
		{"an object stays", Database{DatabaseChange: &rewrite.DatabaseChange{Drop: true}}, []reply{there, {words: "SELECT k.kind", rows: [][]string{{"TABLE", "a", ""}}}, {words: "DROP TABLE", err: stays}},
			`2BP01 database "app" is not dropped: its schema still holds something 0 objects of the database are dropped. table "app"."a" stay: others depend on it.`, ""},
		{"lost", Database{DatabaseChange: &rewrite.DatabaseChange{Drop: true}}, []reply{there, objects, {words: "DROP FUNCTION", err: errLost}}, "lost", `DROP FUNCTION IF EXISTS "app"."f"(integer)`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d, server := test.database, &scripted{script: test.script}
			if d.DatabaseChange == nil {
				d.DatabaseChange = &rewrite.DatabaseChange{}
			}
			d.Name, d.Schema, d.Server = "app", "app", server
			if got := shown(d.WithPartialResult(d.Run())); !strings.HasPrefix(got, test.err) || test.err == "" && got != "" {
				t.Errorf("%q, want %q", got, test.err)
			}
			if last := server.asked[len(server.asked)-1]; test.last != "" && last != test.last {
				t.Errorf("the last statement is %q", last)
			}
			if noticed := len(d.Notices) == 1; noticed != (test.name == "drop none, if exists") {
				t.Errorf("notices %q", d.Notices)
			}
		})
	}
}

// DROP DATABASE waits for the sessions in the database.
func TestUnused(t *testing.T) {
	t.Parallel()
	left := 3
	d := Database{DatabaseChange: &rewrite.DatabaseChange{Drop: true, Name: "app", Schema: "app"}, Server: &scripted{}, Sessions: func() int { left--; return left }}
	if err := d.Unused(); err != nil || left != 0 {
		t.Errorf("%v with %d sessions left", err, left)
	}
	d.Current = "app"
	if got := shown(d.Unused()); got != "55006 cannot drop the currently open database" {
		t.Error(got)
	}
	d.Current, d.Force, left = "", true, 100
	if err := d.Unused(); err != nil || left != 100 {
		t.Errorf("FORCE waits: %v", err)
	}
}
