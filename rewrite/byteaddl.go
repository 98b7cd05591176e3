package rewrite

import (
	"slices"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// ddl is the mapping of one statement that changes the schema.
type ddl struct {
	r       *rewriter
	p       *part
	ph      phrase
	refusal *Refusal
	// created are the tables with mapped columns that this CREATE SCHEMA makes.
	created map[string]bool
}

// mapDDL rewrites a statement that changes the schema.
func (r *rewriter) mapDDL(p *part) {
	edits, meant := len(r.edits), r.meant
	r.meant = intents{}
	d := &ddl{r: r, p: p, created: map[string]bool{}}
	d.statement(p.node)
	if d.refusal != nil {
		p.st.Refusal = d.refusal
		r.edits, r.maps = r.edits[:edits], true
	} else {
		for node, changes := range r.meant {
			meant[node] = append(meant[node], changes...)
		}
	}
	if len(r.edits) > edits {
		r.maps = true
		r.find(handled(ByteaKey, Rewritten, Info, mappedAction, p.st.Start))
	}
	r.meant = meant
}

// mappedAction says what becomes of a bytea column of a key.
const mappedAction = "mapped to text of hexadecimal digits, in a column of its name with " + MappedSuffix + " behind it"

func (d *ddl) statement(node message) {
	switch node.name() {
	case "CreateStmt":
		d.createTable(node)
	case "IndexStmt":
		d.createIndex(node)
	case "AlterTableStmt":
		d.alterTable(node)
	case "RenameStmt":
		d.rename(node)
	case "CommentStmt":
		d.comment(node)
	case "GrantStmt":
		d.grant(node)
	case "VacuumStmt":
		d.analyze(node)
	case "CreateSchemaStmt":
		for element := range node.list("schema_elts") {
			d.statement(element)
		}
	case "DropStmt", "LockStmt", "TruncateStmt", "ReindexStmt", "ClusterStmt", "AlterObjectSchemaStmt":
		// They name no column, or the server refuses them whatever they say.
	default:
		d.leaves(node)
	}
}

// leaves refuses a statement that nothing here rewrites and that reads a mapped table.
func (d *ddl) leaves(node message) {
	if node.is("RangeVar") {
		if rel := d.find(node); rel != nil && rel.Maps() {
			d.refuse("Statements of this kind over a table with such columns are not rewritten.")
		}
		return
	}
	for child := range node.nodes() {
		d.leaves(child)
	}
}

// refuse has the statement refused; the first reason stays.
func (d *ddl) refuse(detail string) {
	if d.refusal == nil {
		d.refusal = errUnmapped(detail)
	}
}

// find is the relation that a RangeVar names; nil where the snapshot has none, or where it
// is not known which it is: then the statement is refused.
func (d *ddl) find(relation message) *Relation {
	return d.named(relation.text("schemaname"), relation.text("relname"))
}

func (d *ddl) named(schema, name string) *Relation {
	if schema == "" && d.created[name] {
		d.refuse("The statement makes a table and names it again.")
		return nil
	}
	rel, known := d.r.names.find(schema, name)
	if !known {
		d.refuse("The search path is not known, so that nobody can tell which table the name stands for.")
	}
	return rel
}

// phrase are the statement's tokens.
func (d *ddl) phrase() *phrase {
	if d.ph.tokens == nil {
		d.ph = d.r.phrase(d.p)
	}
	return &d.ph
}

// token is the token that begins at a place of the text, which the tree names.
func (d *ddl) token(at int) int {
	i := d.phrase().at(at)
	if i < 0 {
		d.refuse("The place of a name was not found in the text.")
	}
	return i
}

// write puts a name in the place of token i.
func (d *ddl) write(i int, name string) {
	ph := d.phrase()
	if !ph.name(i) {
		d.refuse("The place of a name was not found in the text.")
		return
	}
	d.r.edit(edit{int(ph.tokens[i].start), int(ph.tokens[i].end), written(name)})
}

// before puts text in front of token i.
func (d *ddl) before(i int, text string) {
	if ph := d.phrase(); i >= 0 && i < len(ph.tokens) {
		at := int(ph.tokens[i].start)
		d.r.edit(edit{at, at, text})
	}
}

// behind puts text behind token i.
func (d *ddl) behind(i int, text string) {
	if ph := d.phrase(); i >= 0 && i < len(ph.tokens) {
		at := int(ph.tokens[i].end)
		d.r.edit(edit{at, at, text})
	}
}

// renameList writes the physical names in a list of columns in parentheses that opens at
// token open: the names in a field of a node.
func (d *ddl) renameList(node message, field string, open int, mapped func(name string) bool) {
	i := 0
	var tokens []int
	for name := range node.list(field) {
		if text := name.text("sval"); mapped(text) {
			if tokens == nil {
				tokens = d.phrase().listed(open)
			}
			if i >= len(tokens) {
				d.refuse("The place of a name was not found in the text.")
				return
			}
			d.rewriteName(name, "sval", tokens[i], physicalName(text))
		}
		i++
	}
}

// rewriteName writes another name, which a field of a node has, in the place of token i.
func (d *ddl) rewriteName(node message, field string, i int, name string) {
	d.write(i, name)
	d.r.meant.set(node, field, value{bytes: []byte(name)})
}

// closing is the ) that belongs to the ( at token i; -1 where it is none.
func (p *phrase) closing(i int) int {
	if !p.punct(i, '(') {
		return -1
	}
	for depth := 0; i < len(p.tokens); i++ {
		switch {
		case p.punct(i, '('):
			depth++
		case p.punct(i, ')'):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// listed are the tokens of the names in a list in parentheses that opens at token i; none
// where something else is in it.
func (p *phrase) listed(i int) []int {
	var names []int
	for end := p.closing(i); i < end; i += 2 {
		if !p.name(i+1) || i+2 != end && !p.punct(i+2, ',') {
			return nil
		}
		names = append(names, i+1)
	}
	return names
}

// ends is the last token of what begins at token i and goes on to a comma or a closing
// parenthesis of its own depth, or to the end.
func (p *phrase) ends(i int) int {
	for depth := 0; i < len(p.tokens); i++ {
		switch {
		case p.punct(i, '(') || p.punct(i, '['):
			depth++
		case p.punct(i, ')') || p.punct(i, ']'):
			if depth--; depth < 0 {
				return i - 1
			}
		case depth == 0 && p.punct(i, ','):
			return i - 1
		}
	}
	return i - 1
}

// qualified is the token behind a name with as many dots as it has, which begins at token i.
func (p *phrase) qualified(i int) int {
	for p.punct(i+1, '.') {
		i += 2
	}
	return i + 1
}

// isBytea reports whether a type is bytea, as a column's definition has it.
func isBytea(kind message) bool { return isType(kind, "bytea") }

// constraintIs reports the kind of a constraint.
func constraintIs(constraint message, kinds ...pg_query.ConstrType) bool {
	return slices.Contains(kinds, pg_query.ConstrType(constraint.integer("contype")))
}
