package doctor

import (
	"fmt"
	"strings"
)

// notFolded is the consequence if a cluster does not evaluate the digits of a parameter once.
// Sluice could send the digits themselves, which is not implemented.
const notFolded = "Sluice has no way around it: to make the digits of a parameter itself, at Bind, is not built. "

// askIndex asks for the plans of comparisons with a mapped column, for one value and for any value.
func askIndex(a *inquiry) {
	// The planner prefers a sequential scan on a table this small, which would hide whether the
	// index can be used.
	if refused, fine := a.do("SET enable_seqscan = off"); !fine {
		if a.err != nil {
			return
		}
		a.found("enable_seqscan could not be switched off: %v", refused)
	}
	asked, served := 0, true
	for _, test := range []struct{ what, condition string }{
		{"Equality", "a = 1 AND digits = %s"}, {"Row comparison", "(a, digits) > (1, %s)"},
	} {
		text := "SELECT n FROM " + a.e.table("keyed") + " WHERE " + test.condition
		for _, kind := range []string{"one value", "any value"} {
			plan := a.customPlan
			if kind == "any value" {
				plan = a.genericPlan
			}
			lines, refused := plan(text)
			if a.err != nil {
				return
			}
			if refused != nil {
				a.found("%s, planned for %s: not told: %v", test.what, kind, refused)
				continue
			}
			asked++
			how, fine := conditionIn(lines)
			a.found("%s, planned for %s: %s", test.what, kind, how)
			served = served && fine
		}
	}
	if asked == 0 {
		return
	}
	if a.settle(served); !served {
		a.So = notFolded + "Until then such statements read more rows than they need."
	}
}

// customPlan returns the plan of a text with one value in place of %s.
func (a *inquiry) customPlan(text string) ([]string, *serverError) {
	return a.explain("EXPLAIN " + fmt.Sprintf(text, a.hex(`'\x09'::bytea`)))
}

// genericPlan returns the plan of a text for any value. If the server does not explain texts with
// parameters, the text is prepared. After several executions the server plans for any value.
func (a *inquiry) genericPlan(text string) ([]string, *serverError) {
	text = fmt.Sprintf(text, a.hex("$1::bytea"))
	lines, refused := a.explain("EXPLAIN (GENERIC_PLAN) " + text)
	if refused == nil {
		return lines, nil
	}
	if refused, fine := a.do("PREPARE doctor (bytea) AS " + text); !fine {
		return nil, refused
	}
	defer func() { _, _ = a.do("DEALLOCATE doctor") }()
	for range 6 {
		if refused, fine := a.do(`EXECUTE doctor ('\x09')`); !fine {
			return nil, refused
		}
	}
	if lines, refused = a.explain(`EXPLAIN EXECUTE doctor ('\x09')`); refused == nil && !strings.Contains(strings.Join(lines, "\n"), "$1") {
		refused = &serverError{"NOTICE", "the server still plans for one value", "00000"}
	}
	return lines, refused
}

// explain returns the lines of a plan.
func (a *inquiry) explain(text string) ([]string, *serverError) {
	lines, err := a.e.here.rows(a.ctx, text)
	return lines, a.refusal(err)
}

// conditionIn returns how a plan compares the column digits, and whether an index serves that.
func conditionIn(lines []string) (how string, fine bool) {
	for _, line := range lines {
		kind, condition, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || !strings.Contains(condition, "digits") {
			continue
		}
		switch {
		case strings.HasSuffix(kind, "Index Cond"):
			how, fine = "index condition", true
		case strings.Contains(kind, "Filter"):
			return "filter above a scan (" + strings.TrimSpace(line) + ")", false
		}
	}
	if how == "" {
		how = "no condition was found in the plan: " + strings.Join(lines, " / ")
	}
	return how, fine
}

// askLocks locks a row by a comparison with digits that the cluster computes. A second client then
// changes another row, and later the locked one.
func askLocks(a *inquiry) {
	var err error
	if a.e.there, err = a.e.connect(a.ctx); err != nil {
		a.found("Not asked: there is no second connection: %v", err)
		return
	}
	other, refused := a.meets("0a")
	if a.err != nil {
		return
	}
	if refused != nil {
		a.found("It is refused: %v", refused)
		a.So = notFolded + "Until then statements of this form fail."
		a.settle(false)
		return
	}
	same, refused := a.meets("09")
	if a.err != nil {
		return
	}
	if refused != nil {
		a.found("It is refused at times: %v", refused)
		return
	}
	a.found("Another party changes another row: %s", conflictOr(other, "both commit"))
	a.found("Another party changes the row itself: %s", conflictOr(same, "both commit, so that the row is not flagged"))
	if a.settle(other == nil && same != nil); a.Answer == no {
		a.So = notFolded + "Until then expect conflicts (40001) of transactions over different rows, or rows that are not fenced."
	}
}

func conflictOr(refused *serverError, otherwise string) string {
	if refused == nil {
		return otherwise
	}
	return "a conflict: " + refused.Error()
}

// meets runs two transactions at once: one locks a row and changes a second one, while the other
// changes the row with these digits. It returns the conflict, if any, or the refusal of the lock.
func (a *inquiry) meets(digits string) (conflict, refused *serverError) {
	table := a.e.table("keyed")
	lock := "SELECT n FROM " + table + " WHERE a = 1 AND digits = " + a.hex(`'\x09'::bytea`) + " FOR UPDATE"
	for range mostTries {
		for _, step := range []struct {
			by  *asker
			sql string
		}{
			{a.e.here, "BEGIN"}, {a.e.here, lock},
			{a.e.there, "UPDATE " + table + " SET n = n + 1 WHERE a = 1 AND digits = '" + digits + "'"},
			{a.e.here, "UPDATE " + table + " SET n = n + 1 WHERE a = 2 AND digits = '10'"}, {a.e.here, "COMMIT"},
		} {
			var answered *serverError
			if _, err := step.by.rows(a.ctx, step.sql); err != nil {
				if answered = a.refusal(err); answered == nil {
					return nil, nil
				}
			}
			if answered == nil {
				continue
			}
			if _, err := a.e.here.rows(a.ctx, "ROLLBACK"); err != nil && a.refusal(err) == nil {
				return nil, nil
			}
			if conflict = answered; conflict.code != "40001" {
				return nil, conflict
			}
			break
		}
		// A conflict with an earlier change of the schema does not count.
		if conflict == nil || !strings.Contains(conflict.message, "OC001") {
			return conflict, nil
		}
	}
	return nil, conflict
}

// quoted returns a name as a quoted SQL identifier.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
