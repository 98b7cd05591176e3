package rewrite

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
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

	table, column string        // as the text has them
	relation      string        // the table's own name
	kind          parse.Message // the type
	casts         bool          // USING says that the column is cast to the type
	besides       string        // the text of the constraints of Held
	declared      string        // the type as the client has it, where Type is another; else ""
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
		p.st.Does, p.st.Alteration = Alters, a
	}
}

// alterationOf reads an ALTER TABLE; nil for one that is no Alteration. Comments are left to
// others: a statement that is made of pieces must not end in one.
func (r *rewriter) alterationOf(p *part) *Alteration {
	var cmds []parse.Message
	for cmd := range p.node.List("cmds") {
		cmds = append(cmds, cmd)
	}
	text, relation := string(r.text[p.st.Start:p.st.End]), p.node.Child("relation")
	if len(cmds) != 1 || p.node.Flag("missing_ok") || parse.ObjectType(p.node.Integer("objtype")) != parse.OBJECT_TABLE ||
		relation.Text("catalogname") != "" || strings.Contains(text, "--") || strings.Contains(text, "/*") {
		return nil
	}
	ph := r.phrase(p)
	i := ph.At(relation.Integer("location"))
	if i < 0 {
		return nil
	}
	end := ph.Qualified(i)
	a := &Alteration{Text: text, table: ph.Span(i, end), Table: parse.Identifier(relation.Text("relname")), relation: relation.Text("relname")}
	if schema := relation.Text("schemaname"); schema != "" {
		a.Table = parse.Identifier(schema) + "." + a.Table
	}
	if ph.Punctuated(end, "*") {
		end++
	}
	at := ph.ColumnToken(end)
	a.column = string(ph.Lexeme(at))
	switch parse.AlterTableType(cmds[0].Integer("subtype")) {
	case parse.AT_AlterColumnType:
		return a.retypes(cmds[0], &ph, at)
	case parse.AT_AddColumn:
		reader := constraintReader{c: &Constraints{table: a.table}, ph: &ph, relation: relation, notNull: r.rules.NotNullCheck}
		if refusedAlter(cmds[0]) == AddSerial {
			return r.addsSerial(a, cmds[0], &reader, at)
		}
		return a.adds(cmds[0], &reader, at, r.rules.Constraints)
	}
	return nil
}

// retypes reads ALTER COLUMN name [SET DATA] TYPE type, with or without USING the column, as it
// is or cast to the type.
func (a *Alteration) retypes(cmd parse.Message, ph *parse.Phrase, at int) *Alteration {
	def := cmd.Child("def")
	a.Column, a.kind = cmd.Text("name"), def.Child("type_name")
	using := def.Child("raw_default")
	if using.Is("TypeCast") {
		if !(parse.Intents{}).Equal(using.Child("type_name"), a.kind) {
			return nil
		}
		a.casts, using = true, using.Child("arg")
	}
	if def.Child("coll_clause").Shape != nil || using.Shape != nil && !isColumn(using, a.Column) {
		return nil
	}
	i, end := at+1, len(ph.Tokens)
	for i < end && !ph.Word(i, "type") {
		i++
	}
	for n := i + 1; using.Shape != nil && n < end; n++ { // a reserved word in no type
		if ph.Word(n, "using") {
			end = n
		}
	}
	a.Type = ph.Span(i+1, end)
	return a
}

// isColumn reports a reference to the column by its name alone.
func isColumn(m parse.Message, name string) bool {
	return m.Is("ColumnRef") && len(m.Values("fields")) == 1 && slices.Equal(m.Names("fields"), []string{name})
}
