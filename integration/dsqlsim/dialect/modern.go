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

// rewriteNumbers replaces numbers such as 1_000 or 0xff by plain decimals.
func (r *respelling) rewriteNumbers(node *pg.Node) {
	WalkMessage(node.ProtoReflect(), func(m any) {
		c, ok := m.(*pg.A_Const)
		start := int(c.GetLocation()) - r.offset
		if !ok || c.Isnull || start < 0 || start >= len(r.text) {
			return
		}
		lex := lexer{sql: r.text, at: start}
		t := lex.nextToken()
		s := r.text[t.start:t.end]
		if t.kind != literal || !isModernNumber(s) {
			return
		}
		if n, err := strconv.ParseUint(s, 0, 64); err == nil && (s[0] == '0' && len(s) > 1) {
			r.addEdit(t.start, t.end, strconv.FormatUint(n, 10))
			return
		}
		r.addEdit(t.start, t.end, strings.ReplaceAll(s, "_", ""))
	})
}

// removeStorage removes STORAGE from the definitions of new columns. For ALTER TABLE it adds a command that sets the
// storage. For CREATE TABLE the storage is lost, which only pg_attribute shows.
func (r *respelling) removeStorage(node *pg.Node) {
	elements, behind := node.GetCreateStmt().GetTableElts(), false
	if a := node.GetAlterTableStmt(); a != nil {
		behind = true
		for _, n := range a.Cmds {
			elements = append(elements, n.GetAlterTableCmd().GetDef())
		}
	}
	for _, n := range elements {
		c := n.GetColumnDef()
		r.setNumericPrecision(c.GetTypeName())
		if c.GetStorageName() == "" {
			continue
		}
		r.blankStorage(int(c.Location) - r.offset)
		if behind && c.StorageName != "default" {
			end := endOfLastToken(r.text)
			r.edits = append(r.edits, textEdit{end, end,
				", ALTER COLUMN " + quoteIdentifier(c.Colname) + " SET STORAGE " + c.StorageName})
		}
	}
}

// storedNumeric is the precision that a cluster gives to a column of type numeric without one (documented: data types).
const storedNumeric = "(18,6)"

// setNumericPrecision adds the precision that a cluster gives to a column of type numeric without one.
func (r *respelling) setNumericPrecision(t *pg.TypeName) {
	if typeName(t) != "numeric" || len(t.Typmods) > 0 || len(t.ArrayBounds) > 0 {
		return
	}
	lex := lexer{sql: r.text, at: int(t.Location) - r.offset}
	end := lex.nextToken().end
	for dot := lex.nextToken(); dot.kind == operator && r.text[dot.start] == '.'; dot = lex.nextToken() {
		end = lex.nextToken().end
	}
	r.edits = append(r.edits, textEdit{end, end, storedNumeric})
}

// blankStorage removes the word STORAGE and the next word from the column definition at start.
func (r *respelling) blankStorage(start int) {
	lex := lexer{sql: r.text, at: start}
	lex.nextToken() // the column's name, which may be storage as well
	for t := lex.nextToken(); t.kind != endOfText; t = lex.nextToken() {
		if t.kind == word && strings.EqualFold(r.text[t.start:t.end], "storage") {
			mode := lex.nextToken()
			r.addEdit(t.start, mode.end, "")
			return
		}
	}
}

// endOfLastToken returns the offset at which the text ends, without trailing space, comments and semicolons.
func endOfLastToken(text string) int {
	lex, end := lexer{sql: text}, 0
	for t := lex.nextToken(); t.kind != endOfText; t = lex.nextToken() {
		if t.kind != semicolon {
			end = t.end
		}
	}
	return end
}

func quoteIdentifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
