package alter

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Some ALTER TABLE statements that DSQL refuses depend on the catalog or need several transactions. Sluice first
// sends the statement unchanged, as newer clusters may take it. If refused, Sluice sends several statements instead.

// Alteration is an ALTER TABLE with one command that Sluice can carry out. The command changes a column's type, or
// adds a column with a DEFAULT. If the column already has the new type, Sluice has nothing to do.
type Alteration struct {
	Text   string // the client's statement
	Table  string // the table as SQL, for a cast to regclass
	Column string // the column's name without quotes
	Type   string // the column's type as SQL
	// Default is the default of the added column as SQL, or "" for a change of type.
	Default              string
	NotNull, IfNotExists bool
	// Own is the sequence of an added serial column, or nil for other columns.
	Own *OwnedSequence
	// Held are the constraints that the added column gets before its final name, or nil for none. If Held has no CHECK
	// for NotNullCheck, Sluice reports that NOT NULL is missing.
	Held *AddedConstraints
	// Retypes means that Sluice carries out the change of type, by StartTypeChange. Checks allows this for a NOT NULL
	// column, whose NOT NULL then becomes a CHECK.
	Retypes, Checks bool

	table, column string         // table and column as the client's text spells them
	relation      string         // the table's name without its schema
	kind          parse.TreeNode // the tree of the type in Type
	casts         bool           // USING casts the column to the type
	heldText      string         // the text of the constraints that Held adds
	declared      string         // the client's type, if Type differs from it
}

// PlanColumn plans an ALTER TABLE with one command. PlanColumn sets Steps (statements to run instead) if Sluice can
// carry the command out, and otherwise the hint for the server's refusal.
func (d *Draft) PlanColumn() {
	a := d.parseAlteration()
	switch {
	case a == nil || !d.Rules.Dialect:
		return
	case a.Default == "":
		d.planRetype(a)
	case a.Own != nil && (!d.Rules.Backfill || !d.Alone || !a.verifiesSteps()):
		d.Hint = "Set " + AddColumnDefaultKey + " to backfill, and send the statement alone: the column is then added with a sequence. Or: " + finding.Sentence(finding.Remedy(finding.AddSerial))
		return
	case !d.Rules.Backfill:
		d.Hint = a.addHint()
		return
	case !a.verifiesSteps():
		d.Hint = a.AddStepsHint()
		return
	case !d.Alone:
		d.Hint = aloneHint + AddColumnDefaultKey + ")."
		return
	default:
		d.Hint = aloneHint + AddColumnDefaultKey + ")."
		action := "carried out in several transactions: the column gets its name when its rows have the default"
		switch {
		case a.Held != nil && a.Held.hasNotNull():
			action += "; NOT NULL becomes a CHECK, and its errors have the code 23514"
		case a.NotNull:
			action += "; NOT NULL is given up"
		}
		feature := finding.AddColumn
		if a.Own != nil {
			feature, action = finding.AddSerial, action+"; it draws from a sequence that it owns"
		}
		d.addFinding(finding.Handled(feature, finding.Rewritten, finding.Warning, action, d.Start))
	}
	if d.Alone && !d.Dry && len(d.Edits) == 0 {
		d.Steps = a
	}
}

// TextAndTag implements Steps: it returns the client's ALTER TABLE and its command tag.
func (a *Alteration) TextAndTag() (text, tag string) { return a.Text, "ALTER TABLE" }

// Bytes implements Steps: it estimates the memory of the plan in bytes.
func (a *Alteration) Bytes(source int) int {
	n := int(unsafe.Sizeof(*a)) + 2*len(a.Text) + len(a.Table) + source
	if a.Held != nil {
		n += a.Held.Bytes(0)
	}
	return n
}

// aloneHint begins the hint for a statement that Sluice would carry out if it were alone. A configuration key follows.
const aloneHint = "Send the statement alone outside of a transaction: it is then carried out ("

// parseAlteration returns the Alteration of an ALTER TABLE, or nil. Statements with comments are excluded, because
// Sluice composes the statements to run from parts of the text.
func (d *Draft) parseAlteration() *Alteration {
	var cmds []parse.TreeNode
	for cmd := range d.Node.List("cmds") {
		cmds = append(cmds, cmd)
	}
	text, relation := d.statementText(), d.Node.Child("relation")
	if len(cmds) != 1 || d.Node.Flag("missing_ok") || parse.ObjectType(d.Node.Integer("objtype")) != parse.OBJECT_TABLE ||
		relation.Text("catalogname") != "" || strings.Contains(text, "--") || strings.Contains(text, "/*") {
		return nil
	}
	ph := d.tokens()
	i := ph.TokenAt(relation.Integer("location"))
	if i < 0 {
		return nil
	}
	end := ph.AfterQualifiedName(i)
	a := &Alteration{Text: text, table: ph.TextBetween(i, end), Table: parse.QuoteIdent(relation.Text("relname")), relation: relation.Text("relname")}
	if schema := relation.Text("schemaname"); schema != "" {
		a.Table = parse.QuoteIdent(schema) + "." + a.Table
	}
	if ph.IsOperator(end, "*") {
		end++
	}
	at := ph.ColumnNameToken(end)
	a.column = string(ph.Lexeme(at))
	switch parse.AlterTableType(cmds[0].Integer("subtype")) {
	case parse.AT_AlterColumnType:
		return a.completeRetype(cmds[0], &ph, at)
	case parse.AT_AddColumn:
		reader := constraintReader{c: &AddedConstraints{table: a.table}, ph: &ph, relation: relation, notNull: d.Rules.NotNullCheck}
		if RefusedFeature(cmds[0]) == finding.AddSerial {
			return d.completeAddSerial(a, cmds[0], &reader, at)
		}
		return a.completeAddColumn(cmds[0], &reader, at, d.Rules.Constraints)
	}
	return nil
}

// completeRetype completes the Alteration of ALTER COLUMN ... TYPE. USING is allowed with the column itself, or with
// its cast to the new type. For any other USING, completeRetype returns nil.
func (a *Alteration) completeRetype(cmd parse.TreeNode, ph *parse.TokenList, at int) *Alteration {
	def := cmd.Child("def")
	a.Column, a.kind = cmd.Text("name"), def.Child("type_name")
	using := def.Child("raw_default")
	if using.Is("TypeCast") {
		if !(parse.TreeChanges{}).Equal(using.Child("type_name"), a.kind) {
			return nil
		}
		a.casts, using = true, using.Child("arg")
	}
	if def.Child("coll_clause").Shape != nil || using.Shape != nil && !isColumn(using, a.Column) {
		return nil
	}
	i, end := at+1, len(ph.Tokens)
	for i < end && !ph.IsKeyword(i, "type") {
		i++
	}
	for n := i + 1; using.Shape != nil && n < end; n++ { // USING is a reserved word, and cannot be in a type
		if ph.IsKeyword(n, "using") {
			end = n
		}
	}
	a.Type = ph.TextBetween(i+1, end)
	return a
}

// isColumn reports whether m is a reference to the column name that no table's name qualifies.
func isColumn(m parse.TreeNode, name string) bool {
	return m.Is("ColumnRef") && len(m.Values("fields")) == 1 && slices.Equal(m.Names("fields"), []string{name})
}
