package rewrite

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// A text shows what it reads, not what that runs: a relation may be a view over a
// function that writes, a.b a call of b(a), an operator or a cast a function of a
// user's. A text is a sure read when none of these can be: it reads no relation outside
// the catalog, and calls nothing. Plan.AsWrite is for where the schema does not say more.

// SureRead reports whether every statement of a plan is surely without effect,
// whatever the schema holds. It is false for most plans of Kind Read: of those it
// takes the schema to tell.
func (p *Plan) SureRead() bool { return p.Kind <= Read && !p.unsure }

// AsWrite is the plan of a text for a database in which reading may write: the same,
// where what is no sure read is a write. A plan without such statements is returned as it is.
func (p *Plan) AsWrite() *Plan {
	if !p.unsure {
		return p
	}
	p.written.once.Do(func() {
		w := &Plan{Kind: max(p.Kind, Write), Statements: slices.Clone(p.Statements), Pin: p.Pin, Text: p.Text, Operation: p.Operation,
			Sequence: p.Sequence, Mapped: p.Mapped, Lacks: p.Lacks, source: p.source, edits: p.edits, rereads: p.rereads}
		for i := range w.Statements {
			if st := &w.Statements[i]; st.unsure {
				st.Kind, st.unsure = Write, false
			}
		}
		p.written.plan = w
	})
	return p.written.plan
}

// doubt notes nodes that make a read unsure. call is a function call's.
func (a *analysis) doubt(m parse.Message) {
	switch m.Name() {
	case "RangeVar":
		schema := m.Text("schemaname")
		if m.Text("catalogname") != "" || schema != "pg_catalog" && schema != "information_schema" && (schema != "" || a.hidden[m.Text("relname")] == 0) {
			a.unsure = true
		}
	case "ColumnRef":
		if fields := m.Names("fields"); len(fields) > 1 {
			a.unsure = true
		}
	case "A_Indirection", "CollateClause", "RangeTableSample", "RangeTableFunc", "JsonFuncExpr", "JsonTable", "XmlExpr":
		a.unsure = true
	case "SubLink":
		a.unsure = a.unsure || m.Child("testexpr").Shape != nil
	case "TypeCast":
		a.unsure = a.unsure || !m.Child("arg").Is("A_Const") || !parse.IsBuiltinType(m.Child("type_name"))
	case "FuncCall", "A_Expr": // a user's of the same name may take these arguments
		a.unsure = true
	}
}
