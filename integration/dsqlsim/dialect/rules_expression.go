package dialect

import (
	"fmt"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

func checkTablesample(q *checkedStatement) *Refusal {
	return q.searchTree(func(m any) *Refusal {
		if _, ok := m.(*pg.RangeTableSample); ok {
			return notSupportedRefusal("TABLESAMPLE clause not supported")
		}
		return nil
	})
}

var lockingCalls = wordSet(advisoryLocks)

// checkAdvisoryLocks refuses the functions that take and release advisory locks.
func checkAdvisoryLocks(q *checkedStatement) *Refusal {
	return q.searchTree(func(m any) *Refusal {
		call, ok := m.(*pg.FuncCall)
		if !ok || len(call.Funcname) > 1 && call.Funcname[0].GetString_().GetSval() != "pg_catalog" {
			return nil
		}
		if name := functionName(call); lockingCalls[name] {
			return notSupportedRefusal("function " + name + " not supported")
		}
		return nil
	})
}

// checkGeometry refuses an expression that names a geometric type, as a cast or as a function.
func checkGeometry(q *checkedStatement) *Refusal {
	return q.searchTree(func(m any) *Refusal {
		name := ""
		switch m := m.(type) {
		case *pg.TypeCast:
			name = typeName(m.TypeName)
		case *pg.FuncCall:
			name = functionName(m)
		}
		if geometricTypes[name] {
			return notSupportedRefusal("datatype " + name + " not supported")
		}
		return nil
	})
}

// onlyConfiguration is the only text search configuration of a cluster.
const onlyConfiguration = "simple"

// configArgFunctions maps functions with an optional text search configuration as first argument to their number of
// arguments with it.
var configArgFunctions = map[string]int{
	"to_tsvector": 2, "to_tsquery": 2, "plainto_tsquery": 2, "phraseto_tsquery": 2, "websearch_to_tsquery": 2,
	"json_to_tsvector": 3, "jsonb_to_tsvector": 3,
}

// checkTextSearch refuses constants that name a text search configuration other than simple.
func checkTextSearch(q *checkedStatement) *Refusal {
	return q.searchTree(func(m any) *Refusal {
		var named *pg.Node
		switch m := m.(type) {
		case *pg.TypeCast:
			if typeName(m.TypeName) == "regconfig" {
				named = m.Arg
			}
		case *pg.FuncCall:
			if n, ok := configArgFunctions[functionName(m)]; ok && len(m.Args) == n || headlineHasConfig(m) {
				named = m.Args[0]
			}
		}
		name := constantString(named)
		if name == "" || strings.TrimPrefix(name, "pg_catalog.") == onlyConfiguration {
			return nil
		}
		return &Refusal{undefined, `text search configuration "` + name + `" does not exist`}
	})
}

// headlineHasConfig reports whether a call of ts_headline begins with a configuration. If the last of three arguments
// is a constant string, that string has options, so the first argument is the document.
func headlineHasConfig(f *pg.FuncCall) bool {
	return functionName(f) == "ts_headline" && (len(f.Args) == 4 || len(f.Args) == 3 && constantString(f.Args[2]) == "")
}

// constantString returns the string that an expression consists of, with or without a cast, "" for other expressions.
func constantString(n *pg.Node) string {
	if c := n.GetTypeCast(); c != nil {
		n = c.Arg
	}
	return n.GetAConst().GetSval().GetSval()
}

// checkLateralOuter refuses a form of LEFT JOIN LATERAL on which a cluster's planner fails, apparently by a defect. The
// right side is a plain subquery over one table. One of its output columns is computed from columns of the left side.
// The cluster then confuses that column with one of the table's columns. checkLateralOuter cannot see whether the types
// agree by chance, or whether no row matches.
func checkLateralOuter(q *checkedStatement) *Refusal {
	return q.searchTree(func(m any) *Refusal {
		join, ok := m.(*pg.JoinExpr)
		if !ok || join.Jointype != pg.JoinType_JOIN_LEFT || !join.Rarg.GetRangeSubselect().GetLateral() {
			return nil
		}
		sub := join.Rarg.GetRangeSubselect().Subquery.GetSelectStmt()
		if len(sub.GetFromClause()) != 1 || !isPlainSelect(sub) {
			return nil
		}
		table := sub.FromClause[0].GetRangeVar()
		if table == nil {
			return nil
		}
		own := map[string]bool{table.Relname: true}
		if name := table.Alias.GetAliasname(); name != "" {
			own = map[string]bool{name: true}
		}
		place := 1
		for _, t := range sub.TargetList {
			outer := refersOutside(t, own)
			if outer {
				return &Refusal{mismatch, fmt.Sprintf("attribute %d of type %s has wrong type", place, table.Relname)}
			}
			place++
		}
		return nil
	})
}

// isPlainSelect reports whether the planner merges a subquery into the outer query.
func isPlainSelect(s *pg.SelectStmt) bool {
	plain := s.Op == pg.SetOperation_SETOP_NONE && s.WithClause == nil && len(s.GroupClause) == 0 && s.HavingClause == nil &&
		len(s.DistinctClause) == 0 && s.LimitCount == nil && s.LimitOffset == nil && len(s.SortClause) == 0
	for _, t := range s.TargetList {
		WalkMessage(t.ProtoReflect(), func(m any) {
			if f, ok := m.(*pg.FuncCall); ok && (aggregates[functionName(f)] || f.Over != nil || f.AggStar) {
				plain = false
			}
		})
	}
	return plain
}

// aggregates are the usual aggregate functions.
var aggregates = wordSet("count sum avg min max array_agg string_agg bool_and bool_or every json_agg jsonb_agg " +
	"json_object_agg jsonb_object_agg any_value stddev variance")

// refersOutside reports whether an expression has a qualified column of a relation that is not in own.
func refersOutside(n *pg.Node, own map[string]bool) bool {
	found := false
	WalkMessage(n.ProtoReflect(), func(m any) {
		if c, ok := m.(*pg.ColumnRef); ok && len(c.Fields) > 1 && !own[c.Fields[0].GetString_().GetSval()] {
			found = true
		}
	})
	return found
}

// searchTree calls check for each node of the statement until check returns a refusal.
func (q *checkedStatement) searchTree(check func(any) *Refusal) *Refusal {
	if q.clues&sawSpecial == 0 {
		return nil
	}
	var refused *Refusal
	WalkMessage(q.node.ProtoReflect(), func(m any) {
		if refused == nil {
			refused = check(m)
		}
	})
	return refused
}

// checkEncoding refuses encode() and decode() as functions that do not exist, with Options.WithoutEncode. It assumes
// arguments of the right types.
func checkEncoding(q *checkedStatement) *Refusal {
	if !q.withoutEncode || q.clues&sawEncode == 0 {
		return nil
	}
	takes := map[string]string{"encode": "bytea, unknown", "decode": "text, unknown"}
	var refused *Refusal
	WalkMessage(q.node.ProtoReflect(), func(m any) {
		f, ok := m.(*pg.FuncCall)
		if !ok || refused != nil || takes[functionName(f)] == "" || len(f.Args) != 2 {
			return
		}
		var name []string
		for _, part := range f.Funcname {
			name = append(name, part.GetString_().GetSval())
		}
		refused = &Refusal{noFunction, "function " + strings.Join(name, ".") + "(" + takes[functionName(f)] + ") does not exist"}
	})
	return refused
}
