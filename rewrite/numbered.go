package rewrite

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/alter"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// PostgreSQL creates a serial column as a sequence, a column with DEFAULT nextval, and OWNED BY. On DSQL these steps
// need several transactions, which package proxy/constraint runs. Sluice creates int and smallint identities BY
// DEFAULT, which DSQL lacks, in the same way. GENERATED ALWAYS needs an identity of the server, which is always bigint.

// SerialForm says whether Sluice replaces serial columns by identity columns or by sequences.
type SerialForm string

const (
	// SerialIdentity replaces serial columns by identity columns of type bigint, in one CREATE TABLE.
	SerialIdentity SerialForm = ""
	// SerialSequence makes Sluice create sequences for serial columns. If it cannot, the statement stays unchanged.
	SerialSequence SerialForm = "sequence"
	// SerialAuto makes Sluice create sequences as with SerialSequence. If Sluice cannot, it uses identity columns.
	SerialAuto SerialForm = "auto"
)

// SerialKey is the configuration key that sets Rules.Serial and Rules.SerialForm.
const SerialKey = "rewrite.serial"

// SerialTable is a CREATE TABLE that Sluice carries out in several statements. Sluice creates sequences for serial
// columns, or widens columns to the type of the keys that the columns reference.
type SerialTable struct {
	Text     string // the client's statement
	Table    string // the table as the SQL argument of to_regclass, with the schema if the client writes it
	Schema   string // as the client writes it; "" for the current schema
	Relation string // the table's name without its schema
	// IfNotExists means that the statement says IF NOT EXISTS: an existing relation of the table's name is no error.
	IfNotExists bool
	// Identity means that bigint identity columns may replace the sequences.
	Identity  bool
	Sequences []alter.OwnedSequence
	Narrow    []NarrowColumn
	// Widens names the columns that become wider than declared if identity columns replace the sequences.
	Widens []string

	places   []sequencePlace // for each of Sequences, its place in Text
	plain    []parse.Edit    // the edits that both forms share (with sequences and with identities)
	sequence []parse.Edit    // the edits that insert defaults in the form with sequences, without their texts
	identity []parse.Edit    // the further edits in the form with identities
}

// sequencePlace says where in the CREATE TABLE the default of a column with an OwnedSequence belongs.
type sequencePlace struct {
	before string // the text that precedes the default: the new type of a serial column, or ""
	at     int    // the offset of the findings about the column in the client's text
}

// NarrowColumn is a column of int or smallint that references keys, which may become bigint.
type NarrowColumn struct {
	Column string
	Refers []ReferredKey
	// OwnKey means that the column references a column of the same table that is in Widens. OwnWide means that the
	// referenced column is an identity, and so bigint, even in the form with sequences.
	OwnKey, OwnWide bool

	wide parse.Edit
}

// ReferredKey is a column that a FOREIGN KEY references.
type ReferredKey struct {
	Table  string // the referenced table as the argument of to_regclass
	Column string // the column's name; "" for column number Nth of the primary key, counted from 1
	Nth    int
}

// serialTableBuilder collects the columns and edits of a SerialTable while rules read its CREATE TABLE.
type serialTableBuilder struct {
	SerialTable
	spans [][2]int                          // byte offsets in the text; the edits within them belong to identity
	swaps map[*byte]func(parse.TreeChanges) // by column node: functions that set the tree changes for a sequence
}

// newSerialTableBuilder returns an empty serialTableBuilder for a CREATE TABLE that Sluice may carry out in several
// statements. For other CREATE TABLEs it returns nil.
func (r *rewriter) newSerialTableBuilder(p *statementPart) *serialTableBuilder {
	relation := p.node.Child("relation")
	if r.rules.SerialForm == SerialIdentity && !r.rules.SerialKeys || len(r.parts) != 1 || r.planned == nil || p != &r.parts[0] || relation.Text("catalogname") != "" ||
		relation.Text("relpersistence") != "p" || relation.Text("schemaname") == "pg_temp" {
		return nil
	}
	for _, field := range []string{"partspec", "partbound", "inh_relations", "of_typename"} {
		if p.node.Child(field).Shape != nil {
			return nil
		}
	}
	return &serialTableBuilder{SerialTable: SerialTable{Table: parse.RegclassName(relation), Schema: relation.Text("schemaname"), Relation: relation.Text("relname"),
		IfNotExists: p.node.Flag("if_not_exists"), Identity: r.rules.SerialForm != SerialSequence}, swaps: map[*byte]func(parse.TreeChanges){}}
}

// addSequence adds a column that gets its numbers from a sequence. kind is the column's new type, or "" for the
// declared type. The column's default replaces the text between the offsets from and to. at is the offset of the
// column's findings. constraint is the identity that the default replaces, and is absent for a serial column.
func (n *serialTableBuilder) addSequence(r *rewriter, column, constraint parse.TreeNode, kind, options string, from, to, at int) {
	place := sequencePlace{at: at}
	if kind != "" {
		place.before = kind + " "
	}
	options, ok := r.adaptSequenceOptions(options)
	if !ok {
		return
	}
	n.sequence = append(n.sequence, parse.Edit{Start: from, End: to, Text: ""})
	n.Sequences = append(n.Sequences, alter.OwnedSequence{Column: column.Text("colname"), Options: options})
	n.places = append(n.places, place)
	model := parse.ColumnTree(cmp.Or(place.before, "int ") + sequenceDefaultSQL("s"))
	n.swaps[&column.Wire[0]] = func(meant parse.TreeChanges) {
		constraints := model.Values("constraints")
		if constraint.Shape == nil {
			constraints = append(constraints, column.Values("constraints")...)
		} else {
			var all []parse.Value
			i := 0
			for other := range column.List("constraints") {
				if parse.ConstraintIs(other, parse.CONSTR_IDENTITY) {
					all = append(all, constraints...)
				} else {
					all = append(all, column.Values("constraints")[i])
				}
				i++
			}
			constraints = all
		}
		if kind != "" {
			meant.Set(column, "type_name", model.Values("type_name")...)
		}
		meant.Set(column, "constraints", constraints...)
	}
	if constraint.Shape != nil {
		n.swaps[&constraint.Wire[0]] = func(parse.TreeChanges) {}
	}
}

// adaptSequenceOptions rewrites options of CREATE SEQUENCE to a form that DSQL accepts, or returns false.
func (r *rewriter) adaptSequenceOptions(options string) (string, bool) {
	text := "CREATE SEQUENCE n " + options
	tree, err := parse.Tree(text)
	if err != nil {
		return "", false
	}
	_, parts := buildPlan(text, tree)
	if len(parts) != 1 || !parts[0].node.Is("CreateSeqStmt") {
		return "", false
	}
	made := &rewriter{rules: r.rules, text: []byte(text), parts: parts, meant: parse.TreeChanges{}}
	made.createSequence(&parts[0])
	sql, ok := parse.Apply(text, made.edits)
	if !ok {
		return "", false
	}
	after, err := parse.Tree(sql)
	if err != nil || !made.meant.Equal(tree, after) || slices.ContainsFunc(made.findings, func(f finding.Finding) bool { return f.Severity == finding.Error }) {
		return "", false
	}
	return strings.TrimPrefix(sql, "CREATE SEQUENCE n"), true
}

// addIdentitySpan records that only the form with identity columns has the edits between the offsets from and to.
func (n *serialTableBuilder) addIdentitySpan(from, to int) {
	n.spans = append(n.spans, [2]int{from, to})
}

// sequenceDefaultSQL returns the constraints of a column whose default is the next value of a sequence. name is SQL.
func sequenceDefaultSQL(name string) string {
	return "DEFAULT nextval(" + parse.QuoteLiteral(name) + "::regclass) NOT NULL"
}

// collectNarrowColumns collects the int and smallint columns that reference keys of this table or of other tables.
func (n *serialTableBuilder) collectNarrowColumns(r *rewriter, p *statementPart) {
	columns := map[string]parse.TreeNode{}
	for column := range p.node.List("table_elts") {
		if column.Is("ColumnDef") {
			columns[column.Text("colname")] = column
		}
	}
	for constraint, keys := range parse.ConstraintsOf(p.node) {
		if !parse.ConstraintIs(constraint, parse.CONSTR_FOREIGN) || constraint.Child("pktable").Text("catalogname") != "" {
			continue
		}
		to, names := constraint.Child("pktable"), constraint.Names("pk_attrs")
		for i, key := range keys {
			column, is := columns[key]
			if _, small := narrowIntBits(column.Child("type_name")); !is || !small || parse.IdentityConstraint(column).Shape != nil || len(names) > 0 && len(names) != len(keys) {
				continue
			}
			refers := ReferredKey{Table: parse.RegclassName(to), Nth: i + 1}
			if len(names) > 0 {
				refers.Column = names[i]
			}
			own := n.isWidenedOwnKey(p, to, &refers)
			n.addReferredKey(r, p, column, refers, own)
		}
	}
}

// isWidenedOwnKey reports whether refers is a column of this table that becomes wider if it becomes an identity. If the
// reference names no column of the primary key, isWidenedOwnKey sets refers.Column.
func (n *serialTableBuilder) isWidenedOwnKey(p *statementPart, to parse.TreeNode, refers *ReferredKey) bool {
	if to.Text("relname") != n.Relation || to.Text("schemaname") != n.Schema {
		return false
	}
	if refers.Column == "" {
		for constraint, keys := range parse.ConstraintsOf(p.node) {
			if parse.ConstraintIs(constraint, parse.CONSTR_PRIMARY) && refers.Nth <= len(keys) {
				refers.Column = keys[refers.Nth-1]
			}
		}
	}
	return slices.Contains(n.Widens, refers.Column)
}

// addReferredKey records in Narrow that a column references the key. own means that the key is in the same table.
func (n *serialTableBuilder) addReferredKey(r *rewriter, p *statementPart, column parse.TreeNode, key ReferredKey, own bool) {
	name := column.Text("colname")
	at := slices.IndexFunc(n.Narrow, func(c NarrowColumn) bool { return c.Column == name })
	if at < 0 {
		ph := r.statementTokens(p)
		i := ph.TokenAt(column.Child("type_name").Integer("location"))
		if i < 0 {
			return
		}
		end := ph.AfterQualifiedName(i) - 1
		at = len(n.Narrow)
		n.Narrow = append(n.Narrow, NarrowColumn{Column: name, wide: parse.Edit{Start: int(ph.Tokens[i].Start), End: int(ph.Tokens[end].End), Text: ph.MatchCase(end, "BIGINT")}})
	}
	n.Narrow[at].OwnKey = n.Narrow[at].OwnKey || own
	n.Narrow[at].OwnWide = n.Narrow[at].OwnWide || own && !slices.ContainsFunc(n.Sequences, func(s alter.OwnedSequence) bool { return s.Column == key.Column })
	if !own {
		n.Narrow[at].Refers = append(n.Narrow[at].Refers, key)
	}
}

// attachVerified sets st.Steps to the SerialTable if all forms of the CREATE TABLE have the intended meaning.
func (n *serialTableBuilder) attachVerified(p *Planner, r *rewriter, tree parse.TreeNode, st *Statement, held bool) {
	if len(n.Sequences) == 0 && (len(n.Narrow) == 0 || !r.rules.SerialKeys) {
		return
	}
	n.Text = string(r.text[st.Start:st.End])
	for _, e := range r.edits {
		e.Start, e.End = e.Start-st.Start, e.End-st.Start
		if slices.ContainsFunc(n.spans, func(span [2]int) bool { return e.Start+st.Start >= span[0] && e.End+st.Start <= span[1] }) {
			n.identity = append(n.identity, e)
		} else {
			n.plain = append(n.plain, e)
		}
	}
	for i := range n.sequence {
		n.sequence[i].Start, n.sequence[i].End = n.sequence[i].Start-st.Start, n.sequence[i].End-st.Start
	}
	for i := range n.Narrow {
		n.Narrow[i].wide.Start, n.Narrow[i].wide.End = n.Narrow[i].wide.Start-st.Start, n.Narrow[i].wide.End-st.Start
	}
	if !n.editsAreDisjoint() || len(n.Sequences) > 0 && r.rules.SerialForm != SerialIdentity && !n.verifiedWithSequences(p, r, tree, st, held) {
		return
	}
	if r.rules.SerialForm == SerialIdentity {
		n.sequence = nil
	}
	made := n.SerialTable
	st.Does, st.Steps = Alters, &made
}

// verifiedWithSequences reports whether the CREATE TABLE with sequences has the intended meaning. It parses the whole
// text of the client with the statement in this form.
func (n *serialTableBuilder) verifiedWithSequences(p *Planner, r *rewriter, tree parse.TreeNode, st *Statement, held bool) bool {
	meant := maps.Clone(r.meant)
	for node := range n.swaps {
		delete(meant, node)
	}
	for _, swap := range n.swaps {
		swap(meant)
	}
	names := make([]string, len(n.Sequences))
	for i := range names {
		names[i] = "s"
	}
	text := string(r.text[:st.Start]) + n.createSQL(names, nil, false) + string(r.text[st.End:])
	return p.hasIntendedMeaning(text, tree, meant, held)
}

// ServerSerialSQL returns the CREATE TABLE for a server that accepts serial columns.
func (n *SerialTable) ServerSerialSQL() string { return n.applyEdits(slices.Clone(n.plain)) }

// applyEdits returns the client's statement after edits, which must not overlap (editsAreDisjoint).
func (n *SerialTable) applyEdits(edits []parse.Edit) string {
	text, _ := parse.Apply(n.Text, edits)
	return text
}

// editsAreDisjoint reports whether no edits overlap in each form of the CREATE TABLE, with all columns widened.
func (n *serialTableBuilder) editsAreDisjoint() bool {
	wide, names := make([]bool, len(n.Narrow)), make([]string, len(n.sequence))
	for i := range wide {
		wide[i] = true
	}
	return n.ServerSerialSQL() != "" && n.CreateWithIdentities(wide) != "" && n.createSQL(names, wide, true) != ""
}

// CreateWithSequences returns the CREATE TABLE in the form with sequences, without IF NOT EXISTS. names are the SQL
// names of Sequences. wide says for each column of Narrow whether it becomes bigint.
func (n *SerialTable) CreateWithSequences(names []string, wide []bool) string {
	return n.createSQL(names, wide, true)
}

func (n *SerialTable) createSQL(names []string, wide []bool, anew bool) string {
	edits := slices.Clone(n.plain)
	for i, e := range n.sequence {
		e.Text = n.places[i].before + sequenceDefaultSQL(names[i])
		edits = append(edits, e)
	}
	edits = append(edits, n.wideningEdits(wide)...)
	if anew && n.IfNotExists {
		ph := parse.LexTokens([]byte(n.Text), 0, len(n.Text))
		if i := ph.NextKeyword(0, "if"); i >= 0 && ph.AreKeywords(i, "if", "not", "exists") {
			edits = append(edits, ph.Remove(i), ph.Remove(i+1), ph.Remove(i+2))
		}
	}
	return n.applyEdits(edits)
}

// CreateWithIdentities returns the CREATE TABLE in the form with bigint identity columns. wide says for each column of
// Narrow whether it becomes bigint.
func (n *SerialTable) CreateWithIdentities(wide []bool) string {
	others := slices.Clone(wide)
	for i := range others {
		others[i] = others[i] && !n.Narrow[i].OwnKey // for an OwnKey column, an edit in n.identity widens the column
	}
	return n.applyEdits(slices.Concat(n.plain, n.identity, n.wideningEdits(others)))
}

func (n *SerialTable) wideningEdits(wide []bool) (edits []parse.Edit) {
	for i, is := range wide {
		if is {
			edits = append(edits, n.Narrow[i].wide)
		}
	}
	return edits
}

// MayPassUnchanged reports whether Sluice may send the server the client's CREATE TABLE. It may if the statement has no
// sequences, and Sluice would at most widen columns that reference keys.
func (n *SerialTable) MayPassUnchanged() bool { return !n.HasSequences() }

// HasSequences reports whether the table can be created with sequences.
func (n *SerialTable) HasSequences() bool { return len(n.sequence) > 0 }

// TextAndTag implements alter.Steps: it returns the client's CREATE TABLE and its command tag.
func (n *SerialTable) TextAndTag() (text, tag string) { return n.Text, "CREATE TABLE" }

// Bytes implements alter.Steps: it estimates the memory of the plan in bytes.
func (n *SerialTable) Bytes(source int) int {
	b := int(unsafe.Sizeof(*n)) + 2*len(n.Text) + len(n.Table) + source
	for _, e := range slices.Concat(n.plain, n.sequence, n.identity) {
		b += int(unsafe.Sizeof(e)) + len(e.Text)
	}
	for i, s := range n.Sequences {
		b += int(unsafe.Sizeof(s)+unsafe.Sizeof(n.places[i])) + len(s.Options) + len(n.places[i].before)
	}
	for _, c := range n.Narrow {
		b += int(unsafe.Sizeof(c)) + len(c.Refers)*4*wordBytes
	}
	return b
}

// sequenceOfFinding returns the index in Sequences of the column that the finding is about, or -1 if there is none.
func (n *SerialTable) sequenceOfFinding(f *finding.Finding) int {
	if f.Feature != finding.Serial && f.Feature != finding.IdentityType {
		return -1
	}
	return slices.IndexFunc(n.places, func(p sequencePlace) bool { return p.at == f.At })
}

// wideningNotice returns the notice that the named columns are bigint, and so wider than the client declared them.
func wideningNotice(columns []string) *Notice {
	return &Notice{"bigint, and wider than declared: " + strings.Join(columns, ", "),
		"The identity columns of a cluster are bigint (" + SerialKey + ")."}
}

// reportSequences replaces the findings about columns for which Sluice creates sequences.
func (r *rewriter) reportSequences(st *Statement) {
	n, is := st.Steps.(*SerialTable)
	if !is || !n.HasSequences() {
		return
	}
	st.Hint = "Send the statement alone outside of a transaction: it is then carried out, with a sequence for each serial column (" + SerialKey + ")."
	for i := range r.findings {
		f := &r.findings[i]
		if n.sequenceOfFinding(f) >= 0 {
			operation := f.Operation
			*f = finding.Handled(f.Feature, finding.Rewritten, finding.Info, "carried out in several transactions, undone where one of them fails: a sequence, the table with DEFAULT nextval, OWNED BY", f.At)
			f.Operation = operation
		}
	}
}
