package dialect

import pg "github.com/pganalyze/pg_query_go/v6"

// relationLocks maps the relations in a statement to the lock strengths that the statement asks for. PostgreSQL's
// constants for strengths are in ascending order.
type relationLocks struct {
	strengths map[*pg.RangeVar]pg.LockClauseStrength
	ctes      map[string]bool // names that are no relations
}

// checkLockingClauses refuses FOR SHARE and FOR NO KEY UPDATE at any place. It ignores a clause that reaches no
// relation, or that a stronger one on the same relation covers. The planner of a cluster does the same (measured).
func checkLockingClauses(q *checkedStatement) *Refusal {
	if q.clues&sawFor == 0 {
		return nil
	}
	l := relationLocks{strengths: make(map[*pg.RangeVar]pg.LockClauseStrength), ctes: make(map[string]bool)}
	var selects []*pg.SelectStmt
	WalkMessage(q.node.ProtoReflect(), func(m any) {
		switch m := m.(type) {
		case *pg.CommonTableExpr:
			l.ctes[m.Ctename] = true
		case *pg.SelectStmt:
			if len(m.LockingClause) > 0 {
				selects = append(selects, m)
			}
		}
	})
	for _, s := range selects {
		for _, n := range s.LockingClause {
			c := n.GetLockingClause()
			l.lockRelations(s.FromClause, c.LockedRels, c.Strength)
		}
	}
	for _, strength := range l.strengths {
		switch strength {
		case pg.LockClauseStrength_LCS_FORSHARE, pg.LockClauseStrength_LCS_FORNOKEYUPDATE:
			return notSupportedRefusal("locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported")
		}
	}
	return nil
}

// lockRelations applies a locking clause to the relations in these members of FROM, or only to the named members.
func (l *relationLocks) lockRelations(from []*pg.Node, names []*pg.Node, strength pg.LockClauseStrength) {
	for _, n := range from {
		switch n := n.Node.(type) {
		case *pg.Node_JoinExpr:
			l.lockRelations([]*pg.Node{n.JoinExpr.Larg, n.JoinExpr.Rarg}, names, strength)
		case *pg.Node_RangeTableSample:
			l.lockRelations([]*pg.Node{n.RangeTableSample.Relation}, names, strength)
		case *pg.Node_RangeSubselect:
			if s := n.RangeSubselect; names == nil || containsName(names, s.Alias.GetAliasname()) {
				l.lockRelations(s.Subquery.GetSelectStmt().GetFromClause(), nil, strength)
			}
		case *pg.Node_RangeVar:
			v := n.RangeVar
			name := v.Alias.GetAliasname()
			if name == "" {
				name = v.Relname
			}
			if (names == nil || containsName(names, name)) && !(v.Schemaname == "" && l.ctes[v.Relname]) {
				l.strengths[v] = max(l.strengths[v], strength)
			}
		}
	}
}

func containsName(names []*pg.Node, name string) bool {
	for _, n := range names {
		if n.GetRangeVar().GetRelname() == name {
			return true
		}
	}
	return false
}
