package dialect

import (
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// This file respells, in the text, syntax that PostgreSQL 16 has and PostgreSQL 15 lacks. File json.go respells more of
// it, in the tree. Any further syntax of PostgreSQL 16 works over a PostgreSQL 16 only.

// isModernNumber reports whether a token is a number such as 1_000 or 0xff. PostgreSQL 15 reads it as a number followed
// by a name.
func isModernNumber(s string) bool {
	if s[0] < '0' || s[0] > '9' {
		return false
	}
	return strings.IndexByte(s, '_') >= 0 || len(s) > 2 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) >= 0
}

// numbers replaces numbers such as 1_000 or 0xff by plain decimals.
func (r *respelling) numbers(node *pg.Node) {
	Walk(node.ProtoReflect(), func(m any) {
		c, ok := m.(*pg.A_Const)
		start := int(c.GetLocation()) - r.offset
		if !ok || c.Isnull || start < 0 || start >= len(r.text) {
			return
		}
		lex := lexer{sql: r.text, at: start}
		t := lex.next()
		s := r.text[t.start:t.end]
		if t.kind != literal || !isModernNumber(s) {
			return
		}
		if n, err := strconv.ParseUint(s, 0, 64); err == nil && (s[0] == '0' && len(s) > 1) {
			r.replace(t.start, t.end, strconv.FormatUint(n, 10))
			return
		}
		r.replace(t.start, t.end, strings.ReplaceAll(s, "_", ""))
	})
}

// storage removes STORAGE from the definitions of new columns. For ALTER TABLE it adds a command that sets the storage.
// For CREATE TABLE the storage is lost, which only pg_attribute shows.
func (r *respelling) storage(node *pg.Node) {
	elements, behind := node.GetCreateStmt().GetTableElts(), false
	if a := node.GetAlterTableStmt(); a != nil {
		behind = true
		for _, n := range a.Cmds {
			elements = append(elements, n.GetAlterTableCmd().GetDef())
		}
	}
	for _, n := range elements {
		c := n.GetColumnDef()
		r.numeric(c.GetTypeName())
		if c.GetStorageName() == "" {
			continue
		}
		r.blankStorage(int(c.Location) - r.offset)
		if behind && c.StorageName != "default" {
			end := lastToken(r.text)
			r.edits = append(r.edits, edit{end, end,
				", ALTER COLUMN " + quote(c.Colname) + " SET STORAGE " + c.StorageName})
		}
	}
}

// storedNumeric is the precision that a cluster gives to a column of type numeric without one (documented: data types).
const storedNumeric = "(18,6)"

// numeric adds the precision that a cluster gives to a column of type numeric without one.
func (r *respelling) numeric(t *pg.TypeName) {
	if typeName(t) != "numeric" || len(t.Typmods) > 0 || len(t.ArrayBounds) > 0 {
		return
	}
	lex := lexer{sql: r.text, at: int(t.Location) - r.offset}
	end := lex.next().end
	for dot := lex.next(); dot.kind == operator && r.text[dot.start] == '.'; dot = lex.next() {
		end = lex.next().end
	}
	r.edits = append(r.edits, edit{end, end, storedNumeric})
}

// blankStorage removes the word STORAGE and the next word from the column definition at start.
func (r *respelling) blankStorage(start int) {
	lex := lexer{sql: r.text, at: start}
	lex.next() // the column's name, which may be storage as well
	for t := lex.next(); t.kind != endOfText; t = lex.next() {
		if t.kind == word && strings.EqualFold(r.text[t.start:t.end], "storage") {
			mode := lex.next()
			r.replace(t.start, mode.end, "")
			return
		}
	}
}

// lastToken returns the offset at which the text ends, without trailing space, comments and semicolons.
func lastToken(text string) int {
	lex, end := lexer{sql: text}, 0
	for t := lex.next(); t.kind != endOfText; t = lex.next() {
		if t.kind != semicolon {
			end = t.end
		}
	}
	return end
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
