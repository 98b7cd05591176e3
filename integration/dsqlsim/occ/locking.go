package occ

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// LockStrength is the strength of a locking clause.
type LockStrength uint8

const (
	Share  LockStrength = iota // FOR KEY SHARE: conflicts with DELETE and with a change of the key
	Update                     // FOR UPDATE: conflicts as a write does
)

// LockPlan says how a statement with locking clauses runs on a server where it must not lock rows.
type LockPlan struct {
	// SQL is the statement without its locking clauses.
	SQL string
	// Capture is a query that finds the rows which the locking clauses name. It takes the statement's parameters. Its last
	// columns are the table (an oid) and the place (a ctid) of a row, as text. There are two columns for each of
	// Strengths, NULL where an outer join has no row. Capture is empty if the clauses are in a subquery or reach no table.
	Capture string
	// Strengths are the lock strengths of the tables, in the order of Capture's columns.
	Strengths []LockStrength
}

// MayHaveLocking returns false only for a text without a locking clause. It does not parse the text.
func MayHaveLocking(sql string) bool {
	for i := 0; i+4 < len(sql); i++ {
		if c := sql[i]; c|0x20 != 'f' || sql[i+1]|0x20 != 'o' || sql[i+2]|0x20 != 'r' {
			continue
		}
		switch sql[i+3] {
		case ' ', '\t', '\n', '\r', '\f', '\v', '/', '-':
			return true
		}
	}
	return false
}

// NewLockPlan returns the LockPlan of one statement. It returns nil if the statement has no locking clause, or has one
// that PostgreSQL must refuse.
func NewLockPlan(sql string) *LockPlan {
	node, ok := parseStatement(sql)
	if !ok {
		return nil
	}
	clauses, allowed := 0, true
	dialect.WalkMessage(node.ProtoReflect(), func(m any) {
		s, ok := m.(*pg.SelectStmt)
		if !ok || len(s.LockingClause) == 0 {
			return
		}
		clauses += len(s.LockingClause)
		allowed = allowed && s.Op == pg.SetOperation_SETOP_NONE && len(s.DistinctClause)+len(s.GroupClause) == 0 &&
			s.HavingClause == nil && len(s.ValuesLists) == 0 && namesTablesInFrom(s)
	})
	if clauses == 0 || !allowed {
		return nil
	}
	p := &LockPlan{}
	if s := node.GetSelectStmt(); s != nil && len(s.LockingClause) > 0 {
		p.addCaptureColumns(cloneNode(node))
	}
	if p.SQL = blankLocking(sql); p.SQL != "" {
		return p
	}
	stripLocking(node)
	if p.SQL = deparse(node); p.SQL == "" {
		return nil
	}
	return p
}

// namesTablesInFrom reports whether all tables that the locking clauses of s name are in its FROM list.
func namesTablesInFrom(s *pg.SelectStmt) bool {
	from := make(map[string]bool)
	var visit func(*pg.Node)
	visit = func(n *pg.Node) {
		switch {
		case n.GetJoinExpr() != nil:
			visit(n.GetJoinExpr().Larg)
			visit(n.GetJoinExpr().Rarg)
		case n.GetRangeSubselect() != nil:
			from[n.GetRangeSubselect().GetAlias().GetAliasname()] = true
		case n.GetRangeVar().GetAlias() != nil:
			from[n.GetRangeVar().Alias.Aliasname] = true
		case n.GetRangeVar() != nil:
			from[n.GetRangeVar().Relname] = true
		}
	}
	for _, n := range s.FromClause {
		visit(n)
	}
	for _, clause := range s.LockingClause {
		for _, r := range clause.GetLockingClause().LockedRels {
			if v := r.GetRangeVar(); v.GetSchemaname() != "" || !from[v.GetRelname()] {
				return false
			}
		}
	}
	return true
}

// stripLocking removes every locking clause from the tree.
func stripLocking(node *pg.Node) {
	dialect.WalkMessage(node.ProtoReflect(), func(m any) {
		if s, ok := m.(*pg.SelectStmt); ok {
			s.LockingClause = nil
		}
	})
}

// addCaptureColumns builds the Capture query: the statement with further output columns that name rows. The statement's
// own columns remain, because its ORDER BY may number them and because they may contain parameters.
func (p *LockPlan) addCaptureColumns(node *pg.Node) {
	s := node.GetSelectStmt()
	ctes := make(map[string]bool)
	for _, n := range s.GetWithClause().GetCtes() {
		ctes[n.GetCommonTableExpr().GetCtename()] = true
	}
	var list []string
	var visit func(*pg.Node)
	visit = func(n *pg.Node) {
		if j := n.GetJoinExpr(); j != nil {
			visit(j.Larg)
			visit(j.Rarg)
			return
		}
		r := n.GetRangeVar()
		if r == nil || r.Schemaname == "" && ctes[r.Relname] {
			return
		}
		name := r.Relname
		if r.Alias != nil {
			name = r.Alias.Aliasname
		}
		strength, named := strongestLock(s.LockingClause, name)
		if !named {
			return
		}
		name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		list = append(list, name+".tableoid::pg_catalog.text", name+".ctid::pg_catalog.text")
		p.Strengths = append(p.Strengths, strength)
	}
	for _, n := range s.FromClause {
		visit(n)
	}
	if len(list) == 0 {
		return
	}
	stripLocking(node)
	s.TargetList = append(s.TargetList, parseTargets(strings.Join(list, ", "))...)
	if p.Capture = deparse(node); p.Capture == "" {
		p.Strengths = nil
	}
}

// strongestLock returns the strength of the strongest clause that names a table of the FROM list.
func strongestLock(clauses []*pg.Node, table string) (s LockStrength, named bool) {
	for _, n := range clauses {
		c := n.GetLockingClause()
		reaches := len(c.LockedRels) == 0
		for _, r := range c.LockedRels {
			reaches = reaches || r.GetRangeVar().GetRelname() == table
		}
		if !reaches {
			continue
		}
		named = true
		if c.Strength != pg.LockClauseStrength_LCS_FORKEYSHARE {
			s = Update
		}
	}
	return s, named
}

// blankLocking returns sql with its locking clauses replaced by spaces, so that error positions remain valid. It
// returns "" if some clause cannot be replaced.
func blankLocking(sql string) string {
	scan, err := pg.Scan(sql)
	if err != nil {
		return ""
	}
	tokens := scan.Tokens
	text := []byte(sql)
	for i := 0; i < len(tokens); i++ {
		n := clauseLength(tokens[i:])
		if n == 0 {
			continue
		}
		for at := tokens[i].Start; at < tokens[i+n-1].End; at++ {
			text[at] = ' '
		}
		i += n - 1
	}
	node, ok := parseStatement(string(text))
	if !ok {
		return ""
	}
	left := false
	dialect.WalkMessage(node.ProtoReflect(), func(m any) {
		s, ok := m.(*pg.SelectStmt)
		left = left || ok && len(s.LockingClause) > 0
	})
	if left {
		return ""
	}
	return string(text)
}

// clauseLength returns the number of tokens of the locking clause that begins at t[0], 0 when none does.
func clauseLength(t []*pg.ScanToken) int {
	at := func(i int) pg.Token {
		if i < len(t) {
			return t[i].Token
		}
		return pg.Token_NUL
	}
	n := 0
	switch {
	case at(0) != pg.Token_FOR:
		return 0
	case at(1) == pg.Token_UPDATE, at(1) == pg.Token_SHARE:
		n = 2
	case at(1) == pg.Token_KEY && at(2) == pg.Token_SHARE:
		n = 3
	case at(1) == pg.Token_NO && at(2) == pg.Token_KEY && at(3) == pg.Token_UPDATE:
		n = 4
	default:
		return 0
	}
	if at(n) == pg.Token_OF {
		n += 2
		for at(n) == pg.Token_ASCII_44 || at(n) == pg.Token_ASCII_46 { // , and .
			n += 2
		}
	}
	switch {
	case at(n) == pg.Token_NOWAIT:
		n++
	case at(n) == pg.Token_SKIP && at(n+1) == pg.Token_LOCKED:
		n += 2
	}
	return min(n, len(t))
}
