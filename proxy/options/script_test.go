package options

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// session is a Runner that notes what it is asked to do.
type session struct {
	open    bool
	calls   []string
	fails   string                 // the text of a piece that fails
	cancels string                 // the text of a piece during which a cancel comes
	ran     func(sql string)       // or nil
	results map[string]*wire.Error // of silent commands
}

var errCancelled = &wire.Error{Code: "57014", Message: "cancelled"}

func (s *session) InBlock() bool { return s.open }

func (s *session) record(sql string) {
	switch {
	case strings.HasPrefix(sql, "BEGIN"):
		s.open = true
	case strings.HasPrefix(sql, "COMMIT"), strings.HasPrefix(sql, "ROLLBACK"):
		s.open = false
	}
}

func (s *session) Run(sql string, before int) (end feature.NestedResult, err error) {
	s.calls = append(s.calls, fmt.Sprintf("%d:%s", before, sql))
	end.Failed = sql == s.fails
	if sql == s.cancels {
		end.Stopped = errCancelled
	}
	if s.ran != nil {
		s.ran(sql)
	}
	s.record(sql)
	return end, nil
}

func (s *session) RunSilently(sql string, _ silent.ExpectedAnswer) (feature.NestedResult, error) {
	s.calls = append(s.calls, "("+sql+")")
	s.record(sql)
	return feature.NestedResult{Err: s.results[sql]}, nil
}

func (s *session) GiveBlockToClient(*rewrite.Statement) error {
	s.calls = append(s.calls, "give")
	return nil
}

func (s *session) Warn(w *wire.Error) error {
	s.calls = append(s.calls, w.Code)
	return nil
}

func (s *session) TransactionEnded() { s.calls = append(s.calls, "ended") }

const o = "SET sluice.ddl.carry_out = 'all'"

// A query of several statements is cut, or refused, by the statements and by the session's block.
func TestScripts(t *testing.T) {
	for _, test := range []struct {
		name, sql string
		inBlock   bool
		fails     string
		cancels   string
		want      []string // nil: the query is not run in pieces
		end       string   // "failed", a SQLSTATE, or "" for success
	}{
		{name: "one statement", sql: o},
		{name: "no option", sql: "SELECT 1; SELECT 2"},
		{name: "leading", sql: o + "; SELECT 'é'; SELECT 2", want: []string{"0:" + o, "34:SELECT 'é'; SELECT 2"}},
		{name: "leading, all options", sql: o + ";" + o, want: []string{"0:" + o, "33:" + o}},
		{name: "leading fails", sql: o + ";SELECT 1", fails: "SELECT 1", want: []string{"0:" + o, "33:SELECT 1"}, end: "failed"},
		{name: "leading is cancelled", sql: o + ";SELECT 1", cancels: o, want: []string{"0:" + o}, end: "57014"},
		{name: "the cancel is late", sql: o + ";SELECT 1", cancels: "SELECT 1", want: []string{"0:" + o, "33:SELECT 1"}},
		{name: "leading, then COMMIT in a block", sql: o + ";COMMIT", inBlock: true, want: []string{"0:" + o, "33:COMMIT"}},
		{name: "inner", sql: "SELECT 'é';" + o + ";SELECT 2;SELECT 3",
			want: []string{"(BEGIN)", "0:SELECT 'é'", "11:" + o, "44:SELECT 2;SELECT 3", "(COMMIT)"}},
		{name: "inner in a block", sql: "SELECT 1;" + o, inBlock: true, want: []string{"0:SELECT 1", "9:" + o}},
		{name: "inner fails", sql: "SELECT 1;" + o + ";SELECT 2", fails: "SELECT 2",
			want: []string{"(BEGIN)", "0:SELECT 1", "9:" + o, "42:SELECT 2", "(ROLLBACK)"}, end: "failed"},
		{name: "inner is cancelled", sql: "SELECT 1;" + o + ";SELECT 2", cancels: "SELECT 1",
			want: []string{"(BEGIN)", "0:SELECT 1", "(ROLLBACK)"}, end: "57014"},
		{name: "the client's BEGIN", sql: "SELECT 1;BEGIN;" + o + ";COMMIT",
			want: []string{"(BEGIN)", "0:SELECT 1", "give", "15:" + o, "48:COMMIT", "ended"}},
		{name: "a COMMIT without block", sql: "SELECT 1;COMMIT;" + o,
			want: []string{"(BEGIN)", "0:SELECT 1", "25P01", "9:COMMIT", "ended", "16:" + o}},
		{name: "SET LOCAL alone", sql: "BEGIN;COMMIT;SET LOCAL sluice.ddl.carry_out = 'all'",
			want: []string{"0:BEGIN", "6:COMMIT", "ended", "(BEGIN)", "13:SET LOCAL sluice.ddl.carry_out = 'all'", "(COMMIT)"}},
		{name: "SAVEPOINT outside a block", sql: "SELECT 1;" + o + ";SAVEPOINT a", end: "0A000"},
		{name: "COMMIT AND CHAIN outside a block", sql: "SELECT 1;" + o + ";COMMIT AND CHAIN", end: "0A000"},
		{name: "late modes", sql: "SELECT 1;BEGIN READ ONLY;" + o, end: "0A000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, "app", nil)
			s := &session{open: test.inBlock, fails: test.fails, cancels: test.cancels}
			from := Place{InBlock: test.inBlock, Free: true}
			if test.inBlock {
				from.Block = block.FromStatus('T')
			}
			plan := b.planner.Plan([]byte(test.sql))
			end := ""
			if Concern(plan) {
				c, bad := b.state().Cut(plan, []byte(test.sql), from)
				if bad != nil {
					end = bad.Code
				} else if c != nil {
					switch failed, err := c.Run(s); {
					case err != nil:
						var e *wire.Error
						errors.As(err, &e)
						end = e.Code
					case failed:
						end = "failed"
					}
				}
			}
			if !slices.Equal(s.calls, test.want) || end != test.end {
				t.Errorf("%q, %q; want %q, %q", s.calls, end, test.want, test.end)
			}
		})
	}
}

// A RESET ALL is no change of options unless it changes one. In a busy session nothing can run in pieces.
func TestCutByState(t *testing.T) {
	b := newBench(t, "app", nil)
	const reset = "SELECT 1; RESET ALL"
	cut := func(sql string, from Place) (*Script, *wire.Error) {
		return b.state().Cut(b.planner.Plan([]byte(sql)), []byte(sql), from)
	}
	if c, err := cut(reset, Place{}); c != nil || err != nil {
		t.Error(c, err)
	}
	b.set(t, o)
	if c, err := cut(reset, Place{}); c == nil || err != nil {
		t.Error(c, err)
	}
	for _, sql := range []string{o + "; SELECT 1", "SELECT 1;" + o, reset} {
		if c, err := cut(sql, Place{Busy: true}); c != nil || err != ErrInScript {
			t.Errorf("%s: %v, %v", sql, c, err)
		}
	}
}

// A query that fails takes its leading options back outside a block. In a block, and behind an error of Sluice's own
// COMMIT, it does not.
func TestUndo(t *testing.T) {
	for _, inBlock := range []bool{false, true} {
		b := newBench(t, "app", nil)
		sql := o + ";SELECT 1"
		s := &session{open: inBlock, fails: "SELECT 1", ran: func(sql string) {
			if sql == o {
				b.set(t, o)
			}
		}}
		c, _ := b.state().Cut(b.planner.Plan([]byte(sql)), []byte(sql), Place{InBlock: inBlock})
		if failed, err := c.Run(s); !failed || err != nil {
			t.Fatal(failed, err)
		}
		if left := b.settings.Options() != nil; left != inBlock {
			t.Errorf("in a block %v: the option remains %v", inBlock, left)
		}
	}
	b := newBench(t, "app", nil)
	sql := "SELECT 1;" + o + ";SELECT 2"
	s := &session{results: map[string]*wire.Error{"COMMIT": errCancelled}}
	c, _ := b.state().Cut(b.planner.Plan([]byte(sql)), []byte(sql), Place{})
	if failed, err := c.Run(s); failed || err != error(errCancelled) {
		t.Errorf("%v, %v", failed, err)
	}
}
