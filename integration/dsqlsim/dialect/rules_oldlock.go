package dialect

import pg "github.com/pganalyze/pg_query_go/v6"

// These refusals of a locking clause are those of clusters of early 2026 and before (documented). Measurements of
// August 2026 found neither refusal.
var (
	singleTableOnly = notSupportedRefusal("locking clause such as FOR UPDATE can be applied on a single table")
	// WholeKeyRequired refuses a clause on one table without equality on its whole key. Only the catalog knows the key, see
	// Statement.Locked.
	WholeKeyRequired = notSupportedRefusal("locking clause such as FOR UPDATE can be applied only on tables with equality predicates on the key")
)

// LockedTable is a table whose rows a statement locks, with the columns that its conditions compare with a constant.
type LockedTable struct {
	Schema, Table string // as written; Schema may be empty
	Columns       []string
}

// checkOldLocking refuses a locking clause over several tables or over a subquery, and one without an equality.
func checkOldLocking(q *checkedStatement) *Refusal {
	if !q.oldLocking || q.clues&sawFor == 0 {
		return nil
	}
	var refused *Refusal
	WalkMessage(q.node.ProtoReflect(), func(m any) {
		s, ok := m.(*pg.SelectStmt)
		if !ok || len(s.LockingClause) == 0 || refused != nil {
			return
		}
		if len(s.FromClause) != 1 || s.FromClause[0].GetRangeVar() == nil {
			refused = singleTableOnly
			return
		}
		table := s.FromClause[0].GetRangeVar()
		l := LockedTable{Schema: table.Schemaname, Table: table.Relname}
		if l.addEqualities(s.WhereClause); len(l.Columns) == 0 {
			refused = WholeKeyRequired
			return
		}
		q.locked = append(q.locked, l)
	})
	return refused
}

// addEqualities collects the columns in conditions of the form column = constant, joined by AND.
func (l *LockedTable) addEqualities(n *pg.Node) {
	if b := n.GetBoolExpr(); b.GetBoolop() == pg.BoolExprType_AND_EXPR {
		for _, arg := range b.Args {
			l.addEqualities(arg)
		}
		return
	}
	e := n.GetAExpr()
	if e.GetKind() != pg.A_Expr_Kind_AEXPR_OP || len(e.Name) != 1 || e.Name[0].GetString_().GetSval() != "=" {
		return
	}
	for _, side := range [2][2]*pg.Node{{e.Lexpr, e.Rexpr}, {e.Rexpr, e.Lexpr}} {
		column := side[0].GetColumnRef()
		if column == nil || !isConstant(side[1]) {
			continue
		}
		l.Columns = append(l.Columns, column.Fields[len(column.Fields)-1].GetString_().GetSval())
		return
	}
}

// isConstant reports whether an expression is a constant or parameter, with or without a cast.
func isConstant(n *pg.Node) bool {
	if c := n.GetTypeCast(); c != nil {
		n = c.Arg
	}
	return n.GetAConst() != nil || n.GetParamRef() != nil
}
