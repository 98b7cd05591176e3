package rewrite

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// CREATE TABLE with serial columns, as PostgreSQL makes it: a sequence, a column of the declared type
// whose DEFAULT draws from it, and OWNED BY. That is several statements of DDL, each a transaction of
// its own on DSQL, so that the relay carries them out (package proxy/constraint). Identity columns of
// int and smallint, which DSQL has not, are made so too where they are BY DEFAULT. With ALWAYS the server
// must refuse the values of clients, which it does for its own identities alone: those are bigint.

// SerialForm says what serial columns become.
type SerialForm string

const (
	// SerialIdentity makes them identity columns of bigint, which is one statement.
	SerialIdentity SerialForm = ""
	// SerialSequence has the relay make sequences, and leaves to the server what it cannot carry out.
	SerialSequence SerialForm = "sequence"
	// SerialAuto is SerialSequence where that can be done, and else SerialIdentity.
	SerialAuto SerialForm = "auto"
)

// SerialKey is the configuration key of Rules.Serial and Rules.Form.
const SerialKey = "rewrite.serial"

// Numbered is a CREATE TABLE that the relay makes with sequences, or whose columns it makes as wide as
// the keys that they refer to.
type Numbered struct {
	Text     string // the client's
	Table    string // for to_regclass: with its schema where the client names it
	Schema   string // as the client names it; "" for the current one
	Relation string // the table's own name
	// IfNotExists: a relation of the name that is there is no error.
	IfNotExists bool
	// Identity: the form with identity columns may stand for the one with sequences.
	Identity  bool
	Sequences []OwnedSequence
	Narrow    []NarrowColumn
	// Widens are the columns that are wider than declared where they are identities.
	Widens []string

	plain    []parse.Edit // of the statement as the client means it: without what serial columns become
	sequence []parse.Edit // of the form with sequences, beside plain: with a default in each place of text ""
	identity []parse.Edit // of the form with identities, beside plain
}

// OwnedSequence is the sequence of a column.
type OwnedSequence struct {
	Column string

	options string // of CREATE SEQUENCE
	before  string // of the place of its default: the type, for serial
	at      int    // where the findings about it are, in the client's text
}

// NarrowColumn is a column of int or smallint that refers to keys.
type NarrowColumn struct {
	Column string
	Refers []ReferredKey
	// OwnKey: it refers to a column of this table that is among Widens. OwnWide: that is an identity in the
	// form with sequences, too.
	OwnKey, OwnWide bool

	wide parse.Edit
}

// ReferredKey is a column that a FOREIGN KEY refers to.
type ReferredKey struct {
	Table  string // for to_regclass
	Column string // "" for the column of the primary key that is Nth, from 1
	Nth    int
}

// numbering gathers what a Numbered is made of, while its statement is read.
type numbering struct {
	Numbered
	spans [][2]int                      // of edits that are no part of plain
	swaps map[*byte]func(parse.Intents) // what the form with sequences means by a column, by its node
}

// gathers begins the Numbered of a statement that may become one.
func (r *rewriter) gathers(p *part) *numbering {
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
	return &numbering{Numbered: Numbered{Table: regclass(relation), Schema: relation.Text("schemaname"), Relation: relation.Text("relname"),
		IfNotExists: p.node.Flag("if_not_exists"), Identity: r.rules.SerialForm != SerialSequence}, swaps: map[*byte]func(parse.Intents){}}
}

// draws notes a column whose numbers a sequence can give. kind is the type that it gets, "" for its own,
// from and to what the default takes the place of, at where its findings are, constraint the one that goes,
// which is absent for serial.
func (n *numbering) draws(r *rewriter, column, constraint parse.Message, kind, options string, from, to, at int) {
	s := OwnedSequence{Column: column.Text("colname"), at: at}
	if kind != "" {
		s.before = kind + " "
	}
	var ok bool
	if s.options, ok = r.optionsOfOwn(options); !ok {
		return
	}
	n.sequence = append(n.sequence, parse.Edit{Start: from, End: to, Text: ""})
	n.Sequences = append(n.Sequences, s)
	model := columnOf(cmp.Or(s.before, "int ") + defaultOf("s"))
	n.swaps[&column.Wire[0]] = func(meant parse.Intents) {
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
		n.swaps[&constraint.Wire[0]] = func(parse.Intents) {}
	}
}

// optionsOfOwn are the options of a sequence as DSQL takes them; false where it takes none of the kind.
func (r *rewriter) optionsOfOwn(options string) (string, bool) {
	text := "CREATE SEQUENCE n " + options
	tree, err := parse.Tree(text)
	if err != nil {
		return "", false
	}
	_, parts := build(text, tree)
	if len(parts) != 1 || !parts[0].node.Is("CreateSeqStmt") {
		return "", false
	}
	made := &rewriter{rules: r.rules, text: []byte(text), parts: parts, meant: parse.Intents{}}
	made.createSequence(&parts[0])
	sql, ok := parse.Apply(text, made.edits)
	if !ok {
		return "", false
	}
	after, err := parse.Tree(sql)
	if err != nil || !made.meant.Equal(tree, after) || slices.ContainsFunc(made.findings, func(f Finding) bool { return f.Severity == Error }) {
		return "", false
	}
	return strings.TrimPrefix(sql, "CREATE SEQUENCE n"), true
}

// hides says that edits between two places of the text are of the form with identities.
func (n *numbering) hides(from, to int) { n.spans = append(n.spans, [2]int{from, to}) }

// defaultOf is what a serial column says behind its type; name is that of the sequence, as SQL.
func defaultOf(name string) string {
	return "DEFAULT nextval(" + parse.Literal(name) + "::regclass) NOT NULL"
}

// narrow notes the columns of int and smallint that refer to other tables' keys, or to this one's.
func (n *numbering) narrow(r *rewriter, p *part) {
	columns := map[string]parse.Message{}
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
			if _, small := narrowOf(column.Child("type_name")); !is || !small || identityOf(column).Shape != nil || len(names) > 0 && len(names) != len(keys) {
				continue
			}
			refers := ReferredKey{Table: regclass(to), Nth: i + 1}
			if len(names) > 0 {
				refers.Column = names[i]
			}
			own := n.own(p, to, &refers)
			n.refers(r, p, column, refers, own)
		}
	}
}

// own reports whether a key is a column of this table that an identity would make wider than declared. It names
// the column of a key that does not.
func (n *numbering) own(p *part, to parse.Message, refers *ReferredKey) bool {
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

// refers adds a key to those of a column.
func (n *numbering) refers(r *rewriter, p *part, column parse.Message, key ReferredKey, own bool) {
	name := column.Text("colname")
	at := slices.IndexFunc(n.Narrow, func(c NarrowColumn) bool { return c.Column == name })
	if at < 0 {
		ph := r.phrase(p)
		i := ph.At(column.Child("type_name").Integer("location"))
		if i < 0 {
			return
		}
		end := ph.Qualified(i) - 1
		at = len(n.Narrow)
		n.Narrow = append(n.Narrow, NarrowColumn{Column: name, wide: parse.Edit{Start: int(ph.Tokens[i].Start), End: int(ph.Tokens[end].End), Text: ph.Like(end, "BIGINT")}})
	}
	n.Narrow[at].OwnKey = n.Narrow[at].OwnKey || own
	n.Narrow[at].OwnWide = n.Narrow[at].OwnWide || own && !slices.ContainsFunc(n.Sequences, func(s OwnedSequence) bool { return s.Column == key.Column })
	if !own {
		n.Narrow[at].Refers = append(n.Narrow[at].Refers, key)
	}
}

// isFor gives the statement of a plan its Numbered, where the statements that are made of the pieces mean
// what they are to mean.
func (n *numbering) isFor(p *Planner, r *rewriter, tree parse.Message, st *Statement, held bool) {
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
	if !n.fits() || len(n.Sequences) > 0 && r.rules.SerialForm != SerialIdentity && !n.means(p, r, tree, st, held) {
		return
	}
	if r.rules.SerialForm == SerialIdentity {
		n.sequence = nil
	}
	made := n.Numbered
	st.Does, st.Numbered = Alters, &made
}

// means reports whether the form with sequences is the client's statement with the columns that it is
// to have. It is read in the place of the client's in the whole text.
func (n *numbering) means(p *Planner, r *rewriter, tree parse.Message, st *Statement, held bool) bool {
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
	text := string(r.text[:st.Start]) + n.create(names, nil, false) + string(r.text[st.End:])
	return p.verified(text, tree, meant, held)
}

// ByServer is the statement for a server that has serial columns.
func (n *Numbered) ByServer() string { return n.edited(slices.Clone(n.plain)) }

// edited is the statement with edits that do not overlap, as fits has seen.
func (n *Numbered) edited(edits []parse.Edit) string {
	text, _ := parse.Apply(n.Text, edits)
	return text
}

// fits reports whether the edits of each form lie beside one another, with all columns that may be made wider.
func (n *numbering) fits() bool {
	wide, names := make([]bool, len(n.Narrow)), make([]string, len(n.sequence))
	for i := range wide {
		wide[i] = true
	}
	return n.ByServer() != "" && n.WithIdentities(wide) != "" && n.create(names, wide, true) != ""
}

// WithSequences makes the table with sequences of these names, which are SQL, one for each of Sequences.
// It fails where the table is there. wide are columns of Narrow that become bigint.
func (n *Numbered) WithSequences(names []string, wide []bool) string {
	return n.create(names, wide, true)
}

func (n *Numbered) create(names []string, wide []bool, anew bool) string {
	edits := slices.Clone(n.plain)
	for i, e := range n.sequence {
		e.Text = n.Sequences[i].before + defaultOf(names[i])
		edits = append(edits, e)
	}
	edits = append(edits, n.widened(wide)...)
	if anew && n.IfNotExists {
		ph := parse.LexPhrase([]byte(n.Text), 0, len(n.Text))
		if i := ph.Next(0, "if"); i >= 0 && ph.Words(i, "if", "not", "exists") {
			edits = append(edits, ph.Remove(i), ph.Remove(i+1), ph.Remove(i+2))
		}
	}
	return n.edited(edits)
}

// WithIdentities makes the table with identity columns of bigint.
func (n *Numbered) WithIdentities(wide []bool) string {
	others := slices.Clone(wide)
	for i := range others {
		others[i] = others[i] && !n.Narrow[i].OwnKey // identity has it
	}
	return n.edited(slices.Concat(n.plain, n.identity, n.widened(others)))
}

func (n *Numbered) widened(wide []bool) (edits []parse.Edit) {
	for i, is := range wide {
		if is {
			edits = append(edits, n.Narrow[i].wide)
		}
	}
	return edits
}

// MayStay reports whether nothing is lost where the server is sent the statement as it is: at the most columns
// that refer to wider keys keep the declared type.
func (n *Numbered) MayStay() bool { return !n.HasSequences() }

// HasSequences reports whether the table can be made with sequences.
func (n *Numbered) HasSequences() bool { return len(n.sequence) > 0 }

// Candidate is the name that PostgreSQL gives to the sequence of a column where those of the passes
// before, which are counted from 0, are taken by relations of the schema.
func (s *OwnedSequence) Candidate(relation string, pass int) string {
	a := Addition{relation: relation, second: s.Column, Kind: ownSequence}
	return a.Candidate(pass)
}

// Create makes the sequence; name is SQL.
func (s *OwnedSequence) Create(name string) string { return "CREATE SEQUENCE " + name + s.options }

// Own gives it to its column; table is SQL.
func (s *OwnedSequence) Own(name, table string) string {
	return "ALTER SEQUENCE " + name + " OWNED BY " + table + "." + parse.Identifier(s.Column)
}

// bytes is about what it takes in memory.
func (n *Numbered) bytes() int {
	b := int(unsafe.Sizeof(*n)) + 2*len(n.Text) + len(n.Table)
	for _, e := range slices.Concat(n.plain, n.sequence, n.identity) {
		b += int(unsafe.Sizeof(e)) + len(e.Text)
	}
	for _, s := range n.Sequences {
		b += int(unsafe.Sizeof(s)) + len(s.options) + len(s.before)
	}
	for _, c := range n.Narrow {
		b += int(unsafe.Sizeof(c)) + len(c.Refers)*4*wordBytes
	}
	return b
}

// wider is what a client is told of columns that are wider than declared.
func wider(columns []string) *Notice {
	return &Notice{"bigint, and wider than declared: " + strings.Join(columns, ", "),
		"The identity columns of a cluster are bigint (" + SerialKey + ")."}
}

// tellsNumbered has the findings of a statement that the relay carries out say so.
func (r *rewriter) tellsNumbered(st *Statement) {
	n := st.Numbered
	if n == nil || !n.HasSequences() {
		return
	}
	st.Hint = "Send the statement alone outside of a transaction: it is then carried out, with a sequence for each serial column (" + SerialKey + ")."
	for i := range r.findings {
		f := &r.findings[i]
		if slices.ContainsFunc(n.Sequences, func(s OwnedSequence) bool { return s.at == f.At }) && (f.Feature == Serial || f.Feature == IdentityType) {
			operation := f.Operation
			*f = handled(f.Feature, Rewritten, Info, "carried out in several transactions, undone where one of them fails: a sequence, the table with DEFAULT nextval, OWNED BY", f.At)
			f.Operation = operation
		}
	}
}
