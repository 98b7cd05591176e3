package occ

import (
	"cmp"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
)

// GuessQuery is a query that replaces an INSERT, UPDATE or DELETE which cannot run. It returns a row for each row that
// the statement would have written.
type GuessQuery struct {
	SQL string
	// Returning means that the client gets the query's rows, as those of a RETURNING clause.
	Returning bool
	verb      string
}

// CommandTag returns the statement's command tag, from the query's tag "SELECT n".
func (g *GuessQuery) CommandTag(tag string) string {
	n := strings.TrimPrefix(tag, "SELECT ")
	if g.verb == "INSERT" {
		return "INSERT 0 " + n
	}
	return g.verb + " " + n
}

// NewGuessQuery returns the GuessQuery for a statement, or nil if no query can show the statement's outcome. The result
// is nil for statements other than INSERT, UPDATE and DELETE, and for an INSERT that returns values of defaults.
func NewGuessQuery(sql string) *GuessQuery {
	node, ok := parseStatement(sql)
	if !ok {
		return nil
	}
	g := &GuessQuery{}
	s := &pg.SelectStmt{LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE}
	switch {
	case node.GetUpdateStmt() != nil:
		u := node.GetUpdateStmt()
		g.verb, g.Returning = "UPDATE", len(u.ReturningList) > 0
		s.WithClause, s.WhereClause = u.WithClause, u.WhereClause
		s.TargetList = returningAssigned(u)
		g.setFrom(s, u.Relation, u.FromClause)
	case node.GetDeleteStmt() != nil:
		d := node.GetDeleteStmt()
		g.verb, g.Returning = "DELETE", len(d.ReturningList) > 0
		s.WithClause, s.WhereClause = d.WithClause, d.WhereClause
		s.TargetList = d.ReturningList
		g.setFrom(s, d.Relation, d.UsingClause)
	case node.GetInsertStmt() != nil:
		i := node.GetInsertStmt()
		if len(i.ReturningList) > 0 {
			return nil
		}
		g.verb = "INSERT"
		s = insertSource(i)
	default:
		return nil
	}
	if len(s.TargetList) == 0 && len(s.ValuesLists) == 0 && s.Op == pg.SetOperation_SETOP_NONE {
		s.TargetList = parseTargets("1")
	}
	stands := &pg.Node{Node: &pg.Node_SelectStmt{SelectStmt: s}}
	stripLocking(stands)
	if g.SQL = deparse(stands); g.SQL == "" {
		return nil
	}
	return g
}

// WrittenTable returns the name of the table that a statement writes, "" where the statement alone does not show it.
func WrittenTable(sql string) string {
	node, ok := parseStatement(sql)
	if !ok {
		return ""
	}
	return cmp.Or(node.GetUpdateStmt().GetRelation().GetRelname(), node.GetDeleteStmt().GetRelation().GetRelname(), node.GetInsertStmt().GetRelation().GetRelname())
}

// setFrom sets the FROM list of s to the tables of an UPDATE or DELETE. With further tables it adds a DISTINCT ON, so
// that each row of relation counts once.
func (g *GuessQuery) setFrom(s *pg.SelectStmt, relation *pg.RangeVar, others []*pg.Node) {
	s.FromClause = append([]*pg.Node{{Node: &pg.Node_RangeVar{RangeVar: relation}}}, others...)
	if len(others) > 0 {
		place := columnNode(relationName(relation), "ctid")
		s.DistinctClause = []*pg.Node{place}
	}
}

func relationName(r *pg.RangeVar) string {
	if r.Alias != nil {
		return r.Alias.Aliasname
	}
	return r.Relname
}

func columnNode(table, name string) *pg.Node {
	return pg.MakeColumnRefNode([]*pg.Node{pg.MakeStrNode(table), pg.MakeStrNode(name)}, -1)
}

// returningAssigned returns the RETURNING list of an UPDATE with new values. It replaces each column that the UPDATE
// sets by the column's new value, cast to the column's type.
func returningAssigned(u *pg.UpdateStmt) []*pg.Node {
	values := make(map[string]*pg.Node)
	for _, n := range u.TargetList {
		t := n.GetResTarget()
		if len(t.Indirection) == 0 && t.Val.GetMultiAssignRef() == nil && t.Val.GetSetToDefault() == nil {
			values[t.Name] = t.Val
		}
	}
	table := relationName(u.Relation)
	list := make([]*pg.Node, 0, len(u.ReturningList))
	for _, n := range u.ReturningList {
		t := n.GetResTarget()
		fields := t.GetVal().GetColumnRef().GetFields()
		if len(fields) == 2 && fields[0].GetString_().GetSval() == table {
			fields = fields[1:]
		}
		if len(fields) == 1 && fields[0].GetString_() != nil {
			name := fields[0].GetString_().Sval
			if value := values[name]; value != nil {
				t = proto.Clone(t).(*pg.ResTarget)
				if t.Name == "" {
					t.Name = name
				}
				t.Val = castLike(value, columnNode(table, name))
				n = &pg.Node{Node: &pg.Node_ResTarget{ResTarget: t}}
			}
		}
		list = append(list, n)
	}
	return list
}

// castLike returns an expression for value that has the type of like, as far as a CASE can convert it.
func castLike(value, like *pg.Node) *pg.Node {
	when := &pg.Node{Node: &pg.Node_CaseWhen{CaseWhen: &pg.CaseWhen{
		Expr: pg.MakeAConstIntNode(1, -1), Result: cloneNode(value),
	}}}
	return &pg.Node{Node: &pg.Node_CaseExpr{CaseExpr: &pg.CaseExpr{
		Arg: pg.MakeAConstIntNode(1, -1), Args: []*pg.Node{when}, Defresult: like,
	}}}
}

// insertSource returns the SELECT that yields the rows of an INSERT.
func insertSource(i *pg.InsertStmt) *pg.SelectStmt {
	s := i.SelectStmt.GetSelectStmt()
	if s == nil { // DEFAULT VALUES
		return &pg.SelectStmt{LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE}
	}
	for _, row := range s.ValuesLists {
		items := row.GetList().GetItems()
		for k, item := range items {
			if item.GetSetToDefault() != nil {
				items[k] = &pg.Node{Node: &pg.Node_AConst{AConst: &pg.A_Const{Isnull: true}}}
			}
		}
	}
	if s.WithClause == nil {
		s.WithClause = i.WithClause
	}
	return s
}
