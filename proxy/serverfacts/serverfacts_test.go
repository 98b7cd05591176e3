package serverfacts

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// row is the payload of a DataRow with columns in text format.
func row(columns ...string) []byte {
	b := []byte{0, byte(len(columns))}
	for _, c := range columns {
		b = append(append(b, 0, 0, 0, byte(len(c))), c...)
	}
	return b
}

// server answers a question with rows, or with an error of that SQLSTATE. asked counts the questions.
type server struct {
	rows  [][]byte
	state string
	err   error
	asked int
	then  func() // called at each question
}

func (s *server) exchange(frames []byte, each func([]byte)) ([]byte, error) {
	if s.asked++; s.then != nil {
		s.then()
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.state != "" {
		e := wire.Error{Code: s.state, Message: "no"}
		return e.Append(nil)[wire.HeaderLen:], nil
	}
	for _, r := range s.rows {
		each(r)
	}
	return nil, nil
}

var quiet = slog.New(slog.DiscardHandler)

// TestPurity asks about reads in each way that a server may answer.
func TestPurity(t *testing.T) {
	for name, test := range map[string]struct {
		server    server
		pure, was bool
		known     bool
		sequences bool
		err       error
		asked     int
	}{
		"pure":         {server: server{rows: [][]byte{row("t", "f")}}, pure: true, was: true, known: true, asked: 1},
		"may write":    {server: server{rows: [][]byte{row("f", "f")}}, known: true, asked: 1},
		"numbers":      {server: server{rows: [][]byte{row("t", "t")}}, pure: true, was: true, known: true, sequences: true, asked: 1},
		"no row":       {asked: 1},
		"refused":      {server: server{state: "42501"}, asked: 1},
		"conflicts":    {server: server{state: "40001"}, asked: mostPurityTries},
		"a lost one":   {server: server{err: errors.New("lost")}, err: errors.New("lost"), asked: 1},
		"is cancelled": {server: server{err: interrupt.ErrCut}, err: interrupt.ErrCut, asked: 1},
	} {
		var p Purity
		numbers := false
		q := &PurityQuestion{Exchange: test.server.exchange, Epoch: func() uint64 { return 7 }, UsesSequences: func() { numbers = true }, Log: quiet}
		if !p.IsDue(7, time.Now()) || p.IsKnown(7) || p.ReadsArePure(7) {
			t.Errorf("%s: the zero value has an answer", name)
		}
		answered, err := p.Ask(q)
		if (err == nil) != (test.err == nil) || answered != test.known || p.IsKnown(7) != test.known || p.ReadsArePure(7) != test.pure || p.WasPure() != test.was || numbers != test.sequences || test.server.asked != test.asked {
			t.Errorf("%s: answered %v, %v, %d times; known %v, pure %v, numbers %v", name, answered, err, test.server.asked, p.IsKnown(7), p.ReadsArePure(7), numbers)
		}
		if cancelled := test.err == interrupt.ErrCut; p.IsDue(7, time.Now()) != cancelled {
			t.Errorf("%s: due at once %v", name, !cancelled)
		}
		if p.ReadsArePure(8) || p.IsKnown(8) {
			t.Errorf("%s: the answer is that of a newer schema", name)
		}
	}
}

// TestPurityOfAChangingSchema finds that an answer to an older schema is dropped, and that a fault leaves the answer
// that is known, unless the server has reported another schema.
func TestPurityOfAChangingSchema(t *testing.T) {
	var p Purity
	epoch := uint64(1)
	s := &server{rows: [][]byte{row("t", "f")}}
	q := &PurityQuestion{Exchange: s.exchange, Epoch: func() uint64 { return epoch }, Log: quiet, Again: true}
	s.then = func() {
		if s.asked < 3 {
			epoch++
		}
	}
	if answered, err := p.Ask(q); !answered || err != nil || s.asked != 3 || !p.ReadsArePure(3) {
		t.Errorf("%v, %v after %d questions", answered, err, s.asked)
	}
	s.then, s.state = nil, "53300"
	if answered, err := p.Ask(q); answered || err != nil || !p.ReadsArePure(3) {
		t.Errorf("behind a fault: %v, %v, pure %v", answered, err, p.ReadsArePure(3))
	}
	s.state = "40001"
	if answered, _ := p.Ask(q); answered || p.WasPure() {
		t.Errorf("behind another schema: %v, pure %v", answered, p.WasPure())
	}
}

// TestPipeline asks about groups in each way that a server may answer. A fault leaves the answer that is known.
func TestPipeline(t *testing.T) {
	same, other := row("2026-01-01 00:00:00"), row("2026-01-01 00:00:01")
	for name, test := range map[string]struct {
		server server
		one    bool
		asked  int
		due    bool
		err    bool
	}{
		"one":         {server: server{rows: [][]byte{same, same}}, one: true, asked: 1},
		"several":     {server: server{rows: [][]byte{same, other}}, asked: 1},
		"one row":     {server: server{rows: [][]byte{same}}, asked: 1},
		"conflicts":   {server: server{state: "40001"}, asked: pipelineTries},
		"refused":     {server: server{state: "0A000"}, asked: 1},
		"a lost one":  {server: server{err: errors.New("lost")}, asked: 1, err: true},
		"a cancelled": {server: server{err: interrupt.ErrCut}, asked: 1, err: true, due: true},
	} {
		var g Pipeline
		err := g.Ask(test.server.exchange, quiet)
		if g.IsOneTransaction() != test.one || test.server.asked != test.asked || (err != nil) != test.err || g.IsDue(time.Now()) != test.due {
			t.Errorf("%s: one %v, %d questions, %v, due %v", name, g.IsOneTransaction(), test.server.asked, err, g.IsDue(time.Now()))
		}
		if err := g.Ask(test.server.exchange, quiet); !test.due && (err != nil || test.server.asked != test.asked) {
			t.Errorf("%s: asked again at once, %v", name, err)
		}
	}
}

func TestQuery(t *testing.T) {
	plain, prefixed := Query("SELECT 1", false), Query("SELECT 1", true)
	if len(prefixed) <= len(plain) || plain[0] != wire.Query {
		t.Errorf("%q, %q", plain, prefixed)
	}
	if !errors.Is(RefusalError(nil), ErrNoAnswer) {
		t.Error("no refusal is an answer")
	}
}

// TestMayChangeReads asks about DDL of each kind, and about statements that are no DDL.
func TestMayChangeReads(t *testing.T) {
	p, err := rewrite.New(rewrite.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]bool{
		"SELECT 1": false, "INSERT INTO t VALUES (1)": false, "BEGIN": false, "SET a = 1": false, "TRUNCATE t": false,
		"CREATE TABLE t (a int)": false, "CREATE TABLE t (a serial)": false, "ALTER TABLE t ADD COLUMN b int DEFAULT 1": false, "CREATE UNIQUE INDEX i ON t (a)": false,
		"CREATE SEQUENCE s": false, "ALTER SEQUENCE s RESTART": false, "DROP TABLE t": false, "DROP INDEX i": false, "DROP SEQUENCE s": false,
		"ALTER TABLE t RENAME a TO b": false, "ALTER TABLE t RENAME TO u": false, "ALTER INDEX i RENAME TO j": false, "ALTER TABLE t RENAME CONSTRAINT c TO d": false,
		"ALTER TABLE t SET SCHEMA s": false, "COMMENT ON TABLE t IS 'x'": false,

		"CREATE VIEW v AS SELECT 1": true, "DROP FUNCTION f": true, "DROP VIEW v": true, "DROP SCHEMA s CASCADE": true, "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'": true, "ALTER FUNCTION f RENAME TO g": true,
		"CREATE OPERATOR @@ (FUNCTION = f)": true, "CREATE CAST (a AS b) WITH FUNCTION f(a)": true, "CREATE AGGREGATE m(int) (SFUNC = f, STYPE = int)": true,
		"CREATE DOMAIN d AS int": true, "CREATE POLICY p ON t": true, "CREATE RULE r AS ON SELECT TO t DO INSTEAD SELECT 1": true, "ALTER FUNCTION f SET SCHEMA s": true,
		"ALTER VIEW v RENAME TO w": true, "CREATE FOREIGN TABLE t (a int) SERVER s": true, "CREATE MATERIALIZED VIEW m AS SELECT f()": true, "ALTER FUNCTION f() VOLATILE": true,
		"CREATE TABLE t AS SELECT f()": true, "SELECT f() INTO t": true, "DO $$ $$": true, "CALL p()": true, "CREATE EXTENSION e": true, "CREATE SCHEMA s CREATE VIEW v AS SELECT 1": true,
	} {
		plan := p.Plan([]byte(sql))
		if got := plan.AnyStatement(MayChangeReads); got != want {
			t.Errorf("%q: %v", sql, got)
		}
	}
	if unread := (rewrite.Statement{Kind: rewrite.Unknown}); !MayChangeReads(&unread) {
		t.Error("a text that was not parsed")
	}
}
