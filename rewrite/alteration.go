package rewrite

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// ALTER TABLE that DSQL refuses as it is written and that can be carried out otherwise. What
// is equivalent is a rule of the text (alter.go). What depends on the catalog, or takes
// several transactions, is left to the relay, which sends the statement first: a server may
// take it.

// Alteration is an ALTER TABLE with one command: a change of a column's type, which needs
// nothing where the column has the type already, or a column that is added with a DEFAULT.
type Alteration struct {
	Text   string // the statement
	Table  string // for a cast to regclass
	Column string // its name
	Type   string // as SQL
	// Default is that of a column that is added, as SQL; "" for a change of type.
	Default              string
	NotNull, IfNotExists bool
	// Own is the sequence of a serial column that is added, and from which its default draws; nil for none.
	Own *OwnedSequence
	// Held is what the column is held to from the moment that it has its name; nil for nothing.
	// NotNull is told of where it is not in there.
	Held *Constraints
	// Retypes: a change of type is carried out, as Apart says; Checks: also where that makes a
	// CHECK of NOT NULL.
	Retypes, Checks bool

	table, column string  // as the text has them
	relation      string  // the table's own name
	kind          message // the type
	casts         bool    // USING says that the column is cast to the type
	besides       string  // the text of the constraints of Held
	declared      string  // the type as the client has it, where Type is another; else ""
}

// alteration looks at an ALTER TABLE: it leaves to the relay what that may carry out, and
// makes the hint of what the server refuses of one command.
func (r *rewriter) alteration(p *part) {
	a := r.alterationOf(p)
	switch {
	case a == nil || !r.rules.Dialect:
		return
	case a.Default == "":
		r.retypes(p, a)
	case a.Own != nil && (!r.rules.Backfill || len(r.parts) > 1 || !a.verified()):
		p.st.Hint = "Set " + AddColumnDefaultKey + " to backfill, and send the statement alone: the column is then added with a sequence. Or: " + hint(catalogue[AddSerial].remedy)
		return
	case !r.rules.Backfill:
		p.st.Hint = a.addHint()
		return
	case len(r.parts) > 1 || !a.verified():
		p.st.Hint = a.addHint() + " It must be sent alone."
		return
	default:
		p.st.Hint = "Send the statement alone outside of a transaction: it is then carried out (" + AddColumnDefaultKey + ")."
		action := "carried out in several transactions: the column gets its name when its rows have the default"
		switch {
		case a.Held != nil && a.Held.hasNotNull():
			action += "; NOT NULL becomes a CHECK, and its errors have the code 23514"
		case a.NotNull:
			action += "; NOT NULL is given up"
		}
		feature := AddColumn
		if a.Own != nil {
			feature, action = AddSerial, action+"; it draws from a sequence that it owns"
		}
		r.find(handled(feature, Rewritten, Warning, action, p.st.Start))
	}
	if len(r.parts) == 1 && len(r.edits) == 0 {
		p.st.Alteration = a
	}
}

// alterationOf reads an ALTER TABLE; nil for one that is no Alteration. Comments are left to
// others: a statement that is made of pieces must not end in one.
func (r *rewriter) alterationOf(p *part) *Alteration {
	var cmds []message
	for cmd := range p.node.list("cmds") {
		cmds = append(cmds, cmd)
	}
	text, relation := string(r.text[p.st.Start:p.st.End]), p.node.child("relation")
	if len(cmds) != 1 || p.node.flag("missing_ok") || pg_query.ObjectType(p.node.integer("objtype")) != pg_query.ObjectType_OBJECT_TABLE ||
		relation.text("catalogname") != "" || strings.Contains(text, "--") || strings.Contains(text, "/*") {
		return nil
	}
	ph := r.phrase(p)
	i := ph.at(relation.integer("location"))
	if i < 0 {
		return nil
	}
	end := ph.qualified(i)
	a := &Alteration{Text: text, table: ph.span(i, end), Table: identifier(relation.text("relname")), relation: relation.text("relname")}
	if schema := relation.text("schemaname"); schema != "" {
		a.Table = identifier(schema) + "." + a.Table
	}
	if ph.punctuated(end, "*") {
		end++
	}
	at := ph.columnToken(end)
	a.column = string(ph.lexeme(at))
	switch pg_query.AlterTableType(cmds[0].integer("subtype")) {
	case pg_query.AlterTableType_AT_AlterColumnType:
		return a.retypes(cmds[0], &ph, at)
	case pg_query.AlterTableType_AT_AddColumn:
		reader := constraintReader{c: &Constraints{table: a.table}, ph: &ph, relation: relation, notNull: r.rules.NotNullCheck}
		if refusedAlter(cmds[0]) == AddSerial {
			return r.addsSerial(a, cmds[0], &reader, at)
		}
		return a.adds(cmds[0], &reader, at, r.rules.Constraints)
	}
	return nil
}

// span is the text from token i up to token end, which it does not include.
func (p *phrase) span(i, end int) string {
	if i >= end || end > len(p.tokens) {
		return ""
	}
	return string(p.text[p.tokens[i].start:p.tokens[end-1].end])
}

// retypes reads ALTER COLUMN name [SET DATA] TYPE type, with or without USING the column, as it
// is or cast to the type.
func (a *Alteration) retypes(cmd message, ph *phrase, at int) *Alteration {
	def := cmd.child("def")
	a.Column, a.kind = cmd.text("name"), def.child("type_name")
	using := def.child("raw_default")
	if using.is("TypeCast") {
		if !(intents{}).equal(using.child("type_name"), a.kind) {
			return nil
		}
		a.casts, using = true, using.child("arg")
	}
	if def.child("coll_clause").shape != nil || using.shape != nil && !isColumn(using, a.Column) {
		return nil
	}
	i, end := at+1, len(ph.tokens)
	for i < end && !ph.word(i, "type") {
		i++
	}
	for n := i + 1; using.shape != nil && n < end; n++ { // a reserved word in no type
		if ph.word(n, "using") {
			end = n
		}
	}
	a.Type = ph.span(i+1, end)
	return a
}

// isColumn reports a reference to the column by its name alone.
func isColumn(m message, name string) bool {
	return m.is("ColumnRef") && len(m.values("fields")) == 1 && slices.Equal(m.names("fields"), []string{name})
}
