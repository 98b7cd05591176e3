package dialect

import pg "github.com/pganalyze/pg_query_go/v6"

// Refusals of a locking clause by clusters of early 2026 and before (documented). Measurements of August 2026 found
// neither refusal.
var (
	severalTables = refuse("locking clause such as FOR UPDATE can be applied on a single table")
	// NoWholeKey refuses a clause on one table without equality on its whole key. Only the catalog knows the key, see
	// Statement.Locked.
	NoWholeKey = refuse("locking clause such as FOR UPDATE can be applied only on tables with equality predicates on the key")
)

// Locked is a table whose rows a statement locks, with the columns that its conditions compare with a constant.
type Locked struct {
	Schema, Table string // as written; Schema may be empty
	Columns       []string
}

// oldLocking refuses a locking clause over several tables or over a subquery, and one without an equality.
func oldLocking(q *question) *Refusal {
	if !q.oldLocking || q.clues&sawFor == 0 {
		return nil
	}
	var refused *Refusal
	Walk(q.node.ProtoReflect(), func(m any) {
		s, ok := m.(*pg.SelectStmt)
		if !ok || len(s.LockingClause) == 0 || refused != nil {
			return
		}
		if len(s.FromClause) != 1 || s.FromClause[0].GetRangeVar() == nil {
			refused = severalTables
			return
		}
		table := s.FromClause[0].GetRangeVar()
		l := Locked{Schema: table.Schemaname, Table: table.Relname}
		if l.equalities(s.WhereClause); len(l.Columns) == 0 {
			refused = NoWholeKey
			return
		}
		q.locked = append(q.locked, l)
	})
	return refused
}

// equalities collects the columns in conditions of the form column = constant, joined by AND.
func (l *Locked) equalities(n *pg.Node) {
	if b := n.GetBoolExpr(); b.GetBoolop() == pg.BoolExprType_AND_EXPR {
		for _, arg := range b.Args {
			l.equalities(arg)
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
