package dialect

import (
	"fmt"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

func samples(q *question) *Refusal {
	return q.find(func(m any) *Refusal {
		if _, ok := m.(*pg.RangeTableSample); ok {
			return refuse("TABLESAMPLE clause not supported")
		}
		return nil
	})
}

var lockingCalls = words(advisoryLocks)

// advisory refuses the functions that take and release advisory locks.
func advisory(q *question) *Refusal {
	return q.find(func(m any) *Refusal {
		call, ok := m.(*pg.FuncCall)
		if !ok || len(call.Funcname) > 1 && call.Funcname[0].GetString_().GetSval() != "pg_catalog" {
			return nil
		}
		if name := functionName(call); lockingCalls[name] {
			return refuse("function " + name + " not supported")
		}
		return nil
	})
}

// geometry refuses an expression that names a geometric type, as a cast or as a function.
func geometry(q *question) *Refusal {
	return q.find(func(m any) *Refusal {
		name := ""
		switch m := m.(type) {
		case *pg.TypeCast:
			name = typeName(m.TypeName)
		case *pg.FuncCall:
			name = functionName(m)
		}
		if shapes[name] {
			return refuse("datatype " + name + " not supported")
		}
		return nil
	})
}

// onlyConfiguration is the only text search configuration of a cluster.
const onlyConfiguration = "simple"

// configured maps functions with an optional text search configuration as first argument to their number of arguments
// with it.
var configured = map[string]int{
	"to_tsvector": 2, "to_tsquery": 2, "plainto_tsquery": 2, "phraseto_tsquery": 2, "websearch_to_tsquery": 2,
	"json_to_tsvector": 3, "jsonb_to_tsvector": 3,
}

// textSearch refuses constants that name a text search configuration other than simple.
func textSearch(q *question) *Refusal {
	return q.find(func(m any) *Refusal {
		var named *pg.Node
		switch m := m.(type) {
		case *pg.TypeCast:
			if typeName(m.TypeName) == "regconfig" {
				named = m.Arg
			}
		case *pg.FuncCall:
			if n, ok := configured[functionName(m)]; ok && len(m.Args) == n || takesHeadline(m) {
				named = m.Args[0]
			}
		}
		name := constant(named)
		if name == "" || strings.TrimPrefix(name, "pg_catalog.") == onlyConfiguration {
			return nil
		}
		return &Refusal{undefined, `text search configuration "` + name + `" does not exist`}
	})
}

// takesHeadline reports whether a call of ts_headline begins with a configuration. With three arguments, a constant as
// the last one is the options.
func takesHeadline(f *pg.FuncCall) bool {
	return functionName(f) == "ts_headline" && (len(f.Args) == 4 || len(f.Args) == 3 && constant(f.Args[2]) == "")
}

// constant returns the string that an expression consists of, with or without a cast, "" for other expressions.
func constant(n *pg.Node) string {
	if c := n.GetTypeCast(); c != nil {
		n = c.Arg
	}
	return n.GetAConst().GetSval().GetSval()
}

// lateralOuter refuses a form of LEFT JOIN LATERAL on which a cluster's planner fails, apparently by a defect. The
// right side is a plain subquery over one table. One of its output columns is computed from columns of the left side.
// The cluster then confuses that column with one of the table's columns. lateralOuter cannot see whether the types
// agree by chance, or whether no row matches.
func lateralOuter(q *question) *Refusal {
	return q.find(func(m any) *Refusal {
		join, ok := m.(*pg.JoinExpr)
		if !ok || join.Jointype != pg.JoinType_JOIN_LEFT || !join.Rarg.GetRangeSubselect().GetLateral() {
			return nil
		}
		sub := join.Rarg.GetRangeSubselect().Subquery.GetSelectStmt()
		if len(sub.GetFromClause()) != 1 || !plainSelect(sub) {
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

// plainSelect reports whether the planner merges a subquery into the outer query.
func plainSelect(s *pg.SelectStmt) bool {
	plain := s.Op == pg.SetOperation_SETOP_NONE && s.WithClause == nil && len(s.GroupClause) == 0 && s.HavingClause == nil &&
		len(s.DistinctClause) == 0 && s.LimitCount == nil && s.LimitOffset == nil && len(s.SortClause) == 0
	for _, t := range s.TargetList {
		Walk(t.ProtoReflect(), func(m any) {
			if f, ok := m.(*pg.FuncCall); ok && (aggregates[functionName(f)] || f.Over != nil || f.AggStar) {
				plain = false
			}
		})
	}
	return plain
}

// aggregates are the usual aggregate functions.
var aggregates = words("count sum avg min max array_agg string_agg bool_and bool_or every json_agg jsonb_agg " +
	"json_object_agg jsonb_object_agg any_value stddev variance")

// refersOutside reports whether an expression has a qualified column of a relation that is not in own.
func refersOutside(n *pg.Node, own map[string]bool) bool {
	found := false
	Walk(n.ProtoReflect(), func(m any) {
		if c, ok := m.(*pg.ColumnRef); ok && len(c.Fields) > 1 && !own[c.Fields[0].GetString_().GetSval()] {
			found = true
		}
	})
	return found
}

// find calls check for each node of the statement until check returns a refusal.
func (q *question) find(check func(any) *Refusal) *Refusal {
	if q.clues&sawSpecial == 0 {
		return nil
	}
	var refused *Refusal
	Walk(q.node.ProtoReflect(), func(m any) {
		if refused == nil {
			refused = check(m)
		}
	})
	return refused
}

// encoding refuses encode() and decode() as functions that do not exist, with Options.WithoutEncode. It assumes
// arguments of the right types.
func encoding(q *question) *Refusal {
	if !q.withoutEncode || q.clues&sawEncode == 0 {
		return nil
	}
	takes := map[string]string{"encode": "bytea, unknown", "decode": "text, unknown"}
	var refused *Refusal
	Walk(q.node.ProtoReflect(), func(m any) {
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
