package rewrite

import (
	"github.com/sluice-proxy/sluice/rewrite/bytea"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// conversions maps each ByteaMapping to its SQL conversion between bytea and digits. All store the same digits.
var conversions = map[ByteaMapping]*bytea.Conversion{ByteaHex: bytea.Functions, ByteaHexCast: bytea.Casts}

// HexSQL returns SQL that converts an operand of type bytea to its hexadecimal digits.
func (how ByteaMapping) HexSQL(operand string) string { return conversions[how].HexSQL(operand) }

// ByteaSQL returns SQL that converts hexadecimal digits, the operand, to bytea.
func (how ByteaMapping) ByteaSQL(operand string) string { return conversions[how].ByteaSQL(operand) }

// CheckSQL returns the CHECK of a mapped column (bytea stored as text). physical is the column's name on the server.
func (how ByteaMapping) CheckSQL(physical string) string {
	return conversions[how].CheckConstraint(physical)
}

// unmappedIndex is the hint for an index on a bytea column that DSQL refuses. Sluice did not map the column to text,
// because no key contained the column when its table was created.
const unmappedIndex = "To index a column of type bytea, name it in " + bytea.ColumnsKey + " and create the table anew."

// These are texts of Finding.Action: for mapped columns, and for rewritten queries that no index can serve.
const (
	mappedAction  = "mapped to text of hexadecimal digits, in a column of its name with " + schema.MappedSuffix + " behind it"
	derivedAction = "rewritten to read derived tables in the place of those with mapped columns: no index over these serves it"
)

// byteaMapping returns the bytea.Mapping that rewrites the text's statements for mapped columns (bytea stored as text).
func (r *rewriter) byteaMapping() *bytea.Mapping {
	r.mapper = bytea.Mapping{Names: r.names, By: conversions[r.rules.Bytea], Check: r.rules.ByteaCheck, Columns: r.rules.ByteaColumns, Text: r.text, Tokens: &r.tokens}
	return &r.mapper
}

// rewriteMapped rewrites a statement that reads or writes mapped columns (bytea stored as text), or that changes the
// schema of their tables. rewriteMapped is the first rule. Its edits and those of other rules do not overlap.
func (r *rewriter) rewriteMapped(p *statementPart) {
	made := r.byteaMapping().MapStatement(p.node, p.st.Start, p.st.End)
	r.maps = r.maps || made.Maps
	if made.Refusal == nil {
		r.applyForm(p, made)
		return
	}
	p.st.Refusal = (*Refusal)(made.Refusal)
	f := finding.Handled(finding.ByteaKey, finding.Rejected, finding.Error, "refused: a statement of this form over a mapped column is not rewritten", p.st.Start)
	f.Remedy = "name the columns, qualified by their table, and write the statement in a simpler way"
	r.addFinding(f)
}

// applyForm adds the edits, intended changes and findings of made, the form of a statement for mapped bytea columns.
func (r *rewriter) applyForm(p *statementPart, made bytea.MappedEdits) {
	r.edits = append(r.edits, made.Edits...)
	for node, changes := range made.Meant {
		r.meant[node] = append(r.meant[node], changes...)
	}
	switch {
	case len(made.Edits) == 0 && !made.Again:
	case made.Derived:
		r.addFinding(finding.Handled(finding.ByteaFollowed, finding.Rewritten, finding.Warning, derivedAction, p.st.Start))
	default:
		r.addFinding(finding.Handled(finding.ByteaKey, finding.Rewritten, finding.Info, mappedAction, p.st.Start))
	}
}

// mapAlternative tries a statement's second form for mapped columns after the first one failed, and reports success.
func (r *rewriter) mapAlternative(planner *Planner, p *statementPart, held bool) bool {
	if r.names == nil || len(p.locked) > 0 {
		return false
	}
	made, ok := r.byteaMapping().AlternativeForm(p.node, p.st.Start, p.st.End, func(text string, meant parse.TreeChanges) bool {
		tree, ok := planner.parseGuarded(text, held)
		return ok && len(tree.Values("stmts")) == 1 && meant.Equal(p.raw, tree.Child("stmts"))
	})
	if ok {
		r.maps, r.mapped = true, true
		r.applyForm(p, made)
	}
	return ok
}
