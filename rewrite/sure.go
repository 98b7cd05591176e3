package rewrite

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// A statement that looks like a read may run code that its text does not show. A relation may be a view over a function
// that writes. a.b may call b(a), and operators and casts may be functions of a user. A sure read has none of these: it
// reads only the catalog and calls nothing. For databases in which reads may write, the proxy uses Plan.AsWrite.

// IsSureRead reports whether no statement of the plan can write, whatever the schema contains. The result is false for
// most plans of kind Read, because their effect depends on the schema.
func (p *Plan) IsSureRead() bool { return p.Kind <= Read && !p.unsure }

// MayWrite reports whether the statement looks like a read but may write, because a view, an operator or a cast may run
// a function.
func (st *Statement) MayWrite() bool { return st.unsure }

// AsWrite returns a copy of the plan in which each read that may write has the kind Write. It returns p if there is
// none.
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

// markIfUnsure marks the statement as unsure (a read that may write) if the node m may run a function of a user.
func (a *analysis) markIfUnsure(m parse.TreeNode) {
	switch m.TypeName() {
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
	case "FuncCall", "A_Expr": // a user may have created a function or operator of this name for these arguments
		a.unsure = true
	}
}
