package rewrite

import "slices"

// Which statements tell their client the time of the transaction: a client that was told it may compare with
// what it is told next. Of some that time can be taken from the answer (Instants, Insertion.Times); of others
// it has to be asked for.

// MayUseTime reports whether a text may tell the time of its transaction, or store that: a quick look, made for
// each statement behind a savepoint.
func MayUseTime(sql []byte) bool {
	named, inserts, _ := timeWords(sql)
	return named || inserts
}

// timeWords reports whether a text names the time of its transaction, and whether it may insert rows, and may
// return such.
func timeWords(sql []byte) (named, inserts, returned bool) {
	var small [maxWord + 1]byte
	for l := (lexer{text: sql, utf8: true}); ; {
		switch l.next() {
		case endToken, badToken:
			return false, inserts, returned
		case wordToken:
			switch word := string(lowered(small[:0], l.lexeme())); {
			case periods[word]:
				return true, inserts, returned
			case word == "insert", word == "merge":
				inserts = true
			case word == "returning":
				returned = returned || inserts
			}
		}
	}
}

// HidesTime reports whether the answer of a text may tell the time of its transaction, and that time cannot
// be taken from it: it is told by an expression, or in rows of which there may be none. A text of several
// statements is looked through as one.
func (p *Planner) HidesTime(sql string, names *Names) bool {
	statements := p.statements(sql)
	for _, node := range statements {
		tells, shows := p.tellsTime(sql, node, names)
		if tells && !(shows && len(statements) == 1) {
			return true
		}
	}
	return false
}

// tellsTime reports whether a statement may tell the time, and whether it surely shows the very time where that
// is looked for: in the columns that an INSERT ... VALUES returns, or in the only row of a query without tables.
func (p *Planner) tellsTime(sql string, node message, names *Names) (tells, shows bool) {
	timed, _, _ := timeWords([]byte(sql))
	switch node.name() {
	case "SelectStmt":
		several := node.has("from_clause", "where_clause", "having_clause", "limit_count", "limit_offset", "distinct_clause", "group_clause", "locking_clause")
		return timed || returnsStored(node, names, 0), timed && !several && len(p.Instants(sql)) > 0
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		if !node.has("returning_list") {
			return false, false
		}
		in := p.Insertion(sql, names)
		if in == nil {
			return timed || returnsStored(node, names, 0), false
		}
		tells = in.expresses && (timed || fillsTime(node.child("relation"), names))
		in.Times(func(kind string, _ Cell) { tells, shows = true, shows || Instant(kind) })
		return tells, shows && !node.has("on_conflict_clause")
	}
	return false, false
}

// returnsStored reports whether a statement returns rows that it inserts into what has a column that is filled with
// the time.
func returnsStored(m message, names *Names, depth int) bool {
	if depth > deepest || (m.is("InsertStmt") || m.is("MergeStmt")) && m.has("returning_list") && fillsTime(m.child("relation"), names) {
		return true
	}
	for child := range m.nodes() {
		if returnsStored(child, names, depth+1) {
			return true
		}
	}
	return false
}

// StoredTimes are the relations in which statements of a transaction have stored its time.
type StoredTimes struct{ in []relationName }

// unnamed stands for relations of which nobody knows which they are.
var unnamed = relationName{}

// Note takes in what a text stores.
func (t *StoredTimes) Note(p *Planner, sql string, names *Names) {
	timed, inserts, _ := timeWords([]byte(sql))
	if !timed && !inserts {
		return
	}
	for _, node := range p.statements(sql) {
		t.note(node, timed, names, 0)
	}
}

func (t *StoredTimes) note(m message, timed bool, names *Names, depth int) {
	if depth > deepest {
		t.add(unnamed)
		return
	}
	switch m.name() {
	case "InsertStmt", "MergeStmt", "UpdateStmt":
		relation := m.child("relation")
		switch r := names.Relation(relation.text("schemaname"), relation.text("relname")); {
		case r == nil, r.View:
			t.add(unnamed)
		case timed, !m.is("UpdateStmt") && fillsTime(relation, names):
			t.add(relationName{r.Schema, r.Name})
		}
	}
	for child := range m.nodes() {
		t.note(child, timed, names, depth+1)
	}
}

func (t *StoredTimes) add(name relationName) {
	if !slices.Contains(t.in, name) {
		t.in = append(t.in, name)
	}
}

// Read reports whether a text may read what was stored, and so tell its client the time.
func (t *StoredTimes) Read(p *Planner, sql string, names *Names) bool {
	if len(t.in) == 0 {
		return false
	}
	return slices.ContainsFunc(p.statements(sql), func(node message) bool { return t.read(node, names, 0) })
}

func (t *StoredTimes) read(m message, names *Names, depth int) bool {
	switch {
	case depth > deepest, m.is("FuncCall") && callsUnknown(m):
		return true
	case m.is("RangeVar"):
		return t.reads(m, names)
	}
	target := message{}
	if m.is("InsertStmt") && !m.has("on_conflict_clause") { // what it returns it has inserted
		target = m.child("relation")
	}
	for child := range m.nodes() {
		if (target.shape == nil || !child.same(target)) && t.read(child, names, depth+1) {
			return true
		}
	}
	return false
}

// reads reports whether a relation has what was stored, or may show that. Those of the catalog do not.
func (t *StoredTimes) reads(m message, names *Names) bool {
	schema := m.text("schemaname")
	r := names.Relation(schema, m.text("relname"))
	if r != nil {
		schema = r.Schema
	}
	switch {
	case schema == "pg_catalog" || schema == "information_schema":
		return false
	case slices.Contains(t.in, unnamed):
		return true
	case r == nil: // of a WITH query the query itself is looked at
		return schema != ""
	}
	return r.View || slices.Contains(t.in, relationName{r.Schema, r.Name})
}
