package rewrite

// mapQuery rewrites a statement that reads or writes rows.
func (r *rewriter) mapQuery(p *part) {}
