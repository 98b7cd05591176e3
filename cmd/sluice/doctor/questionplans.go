package doctor

import (
	"fmt"
	"strings"
)

// notFoldedAdvice is the advice if a cluster converts a bytea parameter to hexadecimal digits more than once for a
// statement. Sluice could convert the parameter and send the digits, but that is not implemented.
const notFoldedAdvice = "Sluice has no way around it: to make the digits of a parameter itself, at Bind, is not built. "

// askIndexUse asks for the plans of comparisons with a mapped column (bytea stored as hexadecimal digits). It asks
// for plans for one value and for any value.
func askIndexUse(a *questionRun) {
	// The planner prefers a sequential scan on a table this small, which would hide whether the
	// index can be used.
	if refused, fine := a.execute("SET enable_seqscan = off"); !fine {
		if a.err != nil {
			return
		}
		a.addFinding("enable_seqscan could not be switched off: %v", refused)
	}
	asked, served := 0, true
	for _, test := range []struct{ what, condition string }{
		{"Equality", "a = 1 AND digits = %s"}, {"Row comparison", "(a, digits) > (1, %s)"},
	} {
		text := "SELECT n FROM " + a.e.tableName("keyed") + " WHERE " + test.condition
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
				a.addFinding("%s, planned for %s: not told: %v", test.what, kind, refused)
				continue
			}
			asked++
			how, fine := planCondition(lines)
			a.addFinding("%s, planned for %s: %s", test.what, kind, how)
			served = served && fine
		}
	}
	if asked == 0 {
		return
	}
	if a.setAnswer(served); !served {
		a.So = notFoldedAdvice + "Until then such statements read more rows than they need."
	}
}

// customPlan returns the server's plan of a query with one value in place of %s.
func (a *questionRun) customPlan(text string) ([]string, *serverError) {
	return a.explain("EXPLAIN " + fmt.Sprintf(text, a.hexSQL(`'\x09'::bytea`)))
}

// genericPlan returns the server's plan of a query for any value. If the server does not explain queries with
// parameters, the query is prepared. After several executions the server plans for any value.
func (a *questionRun) genericPlan(text string) ([]string, *serverError) {
	text = fmt.Sprintf(text, a.hexSQL("$1::bytea"))
	lines, refused := a.explain("EXPLAIN (GENERIC_PLAN) " + text)
	if refused == nil {
		return lines, nil
	}
	if refused, fine := a.execute("PREPARE doctor (bytea) AS " + text); !fine {
		return nil, refused
	}
	defer func() { _, _ = a.execute("DEALLOCATE doctor") }()
	for range 6 {
		if refused, fine := a.execute(`EXECUTE doctor ('\x09')`); !fine {
			return nil, refused
		}
	}
	if lines, refused = a.explain(`EXPLAIN EXECUTE doctor ('\x09')`); refused == nil && !strings.Contains(strings.Join(lines, "\n"), "$1") {
		refused = &serverError{"NOTICE", "the server still plans for one value", "00000"}
	}
	return lines, refused
}

// explain returns the lines of the server's plan of a query.
func (a *questionRun) explain(text string) ([]string, *serverError) {
	lines, err := a.e.mainConn.queryRows(a.ctx, text)
	return lines, a.asServerError(err)
}

// planCondition returns how a server's plan compares the column that is named digits, and whether an index serves
// that comparison.
func planCondition(lines []string) (how string, fine bool) {
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

// askForUpdate locks a row that it selects by hexadecimal digits, which the cluster computes from a bytea. A second
// client then changes another row, and later the locked row.
func askForUpdate(a *questionRun) {
	var err error
	if a.e.secondConn, err = a.e.connect(a.ctx); err != nil {
		a.addFinding("Not asked: there is no second connection: %v", err)
		return
	}
	other, refused := a.provokeConflict("0a")
	if a.err != nil {
		return
	}
	if refused != nil {
		a.addFinding("It is refused: %v", refused)
		a.So = notFoldedAdvice + "Until then statements of this form fail."
		a.setAnswer(false)
		return
	}
	same, refused := a.provokeConflict("09")
	if a.err != nil {
		return
	}
	if refused != nil {
		a.addFinding("It is refused at times: %v", refused)
		return
	}
	a.addFinding("Another party changes another row: %s", describeConflict(other, "both commit"))
	a.addFinding("Another party changes the row itself: %s", describeConflict(same, "both commit, so that the row is not flagged"))
	if a.setAnswer(other == nil && same != nil); a.Answer == no {
		a.So = notFoldedAdvice + "Until then expect conflicts (40001) of transactions over different rows, or rows that are not fenced."
	}
}

func describeConflict(refused *serverError, otherwise string) string {
	if refused == nil {
		return otherwise
	}
	return "a conflict: " + refused.Error()
}

// provokeConflict runs two transactions at once. The first locks a row and changes a second row. The other transaction
// changes the row with the given digits. provokeConflict returns the conflict, if any, or the refusal of the lock.
func (a *questionRun) provokeConflict(digits string) (conflict, refused *serverError) {
	table := a.e.tableName("keyed")
	lock := "SELECT n FROM " + table + " WHERE a = 1 AND digits = " + a.hexSQL(`'\x09'::bytea`) + " FOR UPDATE"
	for range maxTries {
		for _, step := range []struct {
			by  *queryConn
			sql string
		}{
			{a.e.mainConn, "BEGIN"}, {a.e.mainConn, lock},
			{a.e.secondConn, "UPDATE " + table + " SET n = n + 1 WHERE a = 1 AND digits = '" + digits + "'"},
			{a.e.mainConn, "UPDATE " + table + " SET n = n + 1 WHERE a = 2 AND digits = '10'"}, {a.e.mainConn, "COMMIT"},
		} {
			var answered *serverError
			if _, err := step.by.queryRows(a.ctx, step.sql); err != nil {
				if answered = a.asServerError(err); answered == nil {
					return nil, nil
				}
			}
			if answered == nil {
				continue
			}
			if _, err := a.e.mainConn.queryRows(a.ctx, "ROLLBACK"); err != nil && a.asServerError(err) == nil {
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

// quoteIdentifier returns a name as a quoted SQL identifier.
func quoteIdentifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
