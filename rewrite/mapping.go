package rewrite

// mapping has the statements that read or write rows, and those that change the schema, say
// to the server what they mean where columns are mapped (MappedSuffix). It goes first: its
// edits and those of the other rules do not overlap.
func (r *rewriter) mapping(p *part) {
	if asks(p.node) {
		r.mapQuery(p)
	} else {
		r.mapDDL(p)
	}
	if p.st.Refusal != nil {
		f := handled(ByteaKey, Rejected, Error, "refused: a statement of this form over a mapped column is not rewritten", p.st.Start)
		f.Remedy = "name the columns, qualified by their table, and write the statement in a simpler way"
		r.find(f)
	}
}

// errUnmapped refuses a statement over mapped columns that cannot be said to the server.
func errUnmapped(detail string) *Refusal {
	return &Refusal{Unsent: true, Code: "0A000", Message: "cannot map the bytea columns of the statement", Detail: detail,
		Hint: "A bytea column of a key is stored as text (rewrite.bytea). Name the columns, qualified by their table, and write the statement in a simpler way."}
}
