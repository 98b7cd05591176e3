package alter

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Some ALTER TABLE statements that DSQL refuses depend on the catalog or need several transactions. Sluice first sends
// such a statement unchanged, as newer clusters may accept it. If the server refuses it, Sluice runs several statements
// instead.

// Alteration is an ALTER TABLE with one command that Sluice can carry out. The command changes a column's type, or adds
// a column with a DEFAULT. If the column already has the new type, Sluice changes nothing.
type Alteration struct {
	Text   string // the client's statement
	Table  string // the table as SQL, for a cast to regclass
	Column string // the column's name without SQL quotes
	Type   string // the column's type as SQL
	// Default is the SQL of the added column's default, or "" for a change of type.
	Default              string
	NotNull, IfNotExists bool
	// Own is the sequence of an added serial column, or nil for other columns.
	Own *OwnedSequence
	// Held are the constraints that the added column gets while it has a temporary name, or nil for none. If Held lacks
	// a CHECK for the client's NOT NULL, Sluice reports to the client that NOT NULL is missing.
	Held *AddedConstraints
	// Retypes means that Sluice carries out a change of type (StartTypeChange). Checks allows the change for a NOT NULL
	// column, whose NOT NULL then becomes a CHECK.
	Retypes, Checks bool

	table, column string         // the table and the column as the client's text spells them
	relation      string         // the table's name without its schema
	kind          parse.TreeNode // the parse tree of Type
	casts         bool           // the client's USING casts the column to the new type
	heldText      string         // the SQL of the constraints in Held
	declared      string         // the type in the client's text, if Type differs from it
}

// PlanColumn plans an ALTER TABLE with one command. If Sluice can carry the command out, PlanColumn sets Steps (the
// statements to run instead). Otherwise it sets the hint that accompanies the server's refusal.
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

// aloneHint begins the hint for a statement that Sluice carries out only if it is alone. A configuration key follows.
const aloneHint = "Send the statement alone outside of a transaction: it is then carried out ("

// parseAlteration returns the Alteration of an ALTER TABLE, or nil. It returns nil for a statement with comments,
// because Sluice composes new statements from parts of its text.
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

// completeRetype completes the Alteration of an ALTER COLUMN ... TYPE. USING may be the column itself, or a cast of the
// column to the new type. For any other USING, completeRetype returns nil.
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

// isColumn reports whether m is the name of a column without a table's name before it.
func isColumn(m parse.TreeNode, name string) bool {
	return m.Is("ColumnRef") && len(m.Values("fields")) == 1 && slices.Equal(m.Names("fields"), []string{name})
}
