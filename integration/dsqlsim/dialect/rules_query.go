package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func selectInto(q *question) *Refusal {
	if q.node.GetSelectStmt().IntoClause != nil {
		return refuse("unsupported statement: CreateTableAs")
	}
	return nil
}

func vacuum(q *question) *Refusal {
	if q.node.GetVacuumStmt().IsVacuumcmd {
		return refuse("unsupported VACUUM statement")
	}
	return nil
}

// lockingClauses refuses the share strengths wherever they stand. The check is
// the planner's: a clause that reaches no relation, or that a stronger one
// covers, does no harm (measured).
func lockingClauses(q *question) *Refusal {
	if q.clues&sawFor == 0 {
		return nil
	}
	var refused *Refusal
	walk(q.node.ProtoReflect(), func(m any) {
		s, ok := m.(*pg.SelectStmt)
		if !ok || len(s.FromClause) == 0 || covered(s.LockingClause) {
			return
		}
		for _, n := range s.LockingClause {
			switch n.GetLockingClause().Strength {
			case pg.LockClauseStrength_LCS_FORSHARE, pg.LockClauseStrength_LCS_FORNOKEYUPDATE:
				refused = refuse("locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported")
			}
		}
	})
	return refused
}

// covered tells whether one of the clauses is FOR UPDATE of every relation.
func covered(clauses []*pg.Node) bool {
	for _, n := range clauses {
		c := n.GetLockingClause()
		if c.Strength == pg.LockClauseStrength_LCS_FORUPDATE && len(c.LockedRels) == 0 {
			return true
		}
	}
	return false
}

func setConfigCalls(q *question) *Refusal {
	if q.clues&sawSetConfig == 0 {
		return nil
	}
	var refused *Refusal
	walk(q.node.ProtoReflect(), func(m any) {
		call, ok := m.(*pg.FuncCall)
		if !ok || functionName(call) != "set_config" || len(call.Args) == 0 {
			return
		}
		refused = NotSettable(call.Args[0].GetAConst().GetSval().GetSval())
	})
	return refused
}

// functionName is the name without its schema.
func functionName(call *pg.FuncCall) string {
	if n := len(call.Funcname); n > 0 {
		return strings.ToLower(call.Funcname[n-1].GetString_().GetSval())
	}
	return ""
}

// walk visits a message and everything below it.
func walk(m protoreflect.Message, visit func(any)) {
	visit(m.Interface())
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Kind() != protoreflect.MessageKind:
		case field.IsList():
			for i := range v.List().Len() {
				walk(v.List().Get(i).Message(), visit)
			}
		default:
			walk(v.Message(), visit)
		}
		return true
	})
}
