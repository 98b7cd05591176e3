package proxy_test

import (
	"strings"
	"testing"
)

// The comment turns replay off for its whole transaction, wherever in it the
// comment stands and whoever answers the statement that carries it.
func TestOptOutOfWholeBlock(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	s := startSluice(t, pg, fastReplay, asDSQL, maxOpen(3))
	saves := startSluice(t, pg, withSavepoints, asDSQL, maxOpen(3))
	const no = "/* sluice: no-retry */"
	lines := func(statements ...string) string { return "Q " + strings.Join(statements, "\n< Z\nQ ") + "\n< Z\n" }
	for name, test := range map[string]struct {
		s      *sluice
		script string
	}{
		"BEGIN":                     {s, lines("BEGIN " + no)},
		"in front":                  {s, lines(no + " BEGIN")},
		"START TRANSACTION":         {s, lines("START TRANSACTION " + no + " READ WRITE")},
		"with a level":              {s, lines("BEGIN ISOLATION LEVEL REPEATABLE READ " + no)},
		"a second BEGIN":            {s, lines("BEGIN", "BEGIN "+no)},
		"BEGIN at the server":       {s, lines("BEGIN " + no + " READ WRITE; SELECT 1")},
		"a statement between":       {s, lines("BEGIN "+no, "SELECT 1")},
		"only a comment":            {s, lines("BEGIN", no)},
		"a setting that is kept":    {s, lines("BEGIN", "SET statement_timeout = 0 "+no)},
		"a SHOW that is answered":   {s, lines("BEGIN", "SHOW application_name "+no)},
		"a savepoint":               {saves, lines("BEGIN", "SAVEPOINT a", "RELEASE a "+no)},
		"extended BEGIN":            {s, ext("BEGIN "+no) + "S\n< Z\n"},
		"extended, in front":        {s, ext(no+" START TRANSACTION") + ext("SELECT 1") + "S\n< Z\n"},
		"extended, a setting":       {s, lines("BEGIN") + ext("SET statement_timeout = 0 "+no) + "S\n< Z\n"},
		"extended, named, and late": {s, "P st1 | " + no + " SHOW application_name\nS\n< Z\n" + lines("BEGIN") + "B - | st1\nE -\nS\n< Z\n"},
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, true)
			before := test.s.count(t, "dsql_tx_replay_refused_total", "opted_out")
			got := perform(t, test.s.addr, test.script+"Q SELECT stumble(1)\n< Z\nQ ROLLBACK\n< Z\n")
			if !strings.Contains(got, conflictSeen+"replay is off") || test.s.count(t, "dsql_tx_replay_refused_total", "opted_out") != before+1 {
				t.Errorf("run again, or refused for another reason:\n%s", got)
			}
			// The next transaction is none of its business.
			stumbles(t, pg, true)
			if got := perform(t, test.s.addr, test.script+"Q ROLLBACK\n< Z\nQ BEGIN\n< Z\nQ SELECT stumble(1)\n< Z\nQ COMMIT\n< Z\n"); strings.Contains(got, "C=40001") {
				t.Errorf("the next transaction is not run again:\n%s", got)
			}
		})
	}
	t.Run("autocommit", func(t *testing.T) {
		stumbles(t, pg, true)
		got := perform(t, s.addr, lines(no, "SHOW application_name "+no, "SELECT stumble(1)"))
		if strings.Contains(got, "C=40001") {
			t.Errorf("a statement of its own transaction turned replay off for the next:\n%s", got)
		}
	})
}
