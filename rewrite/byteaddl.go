package rewrite

// mapDDL rewrites a statement that changes the schema.
func (r *rewriter) mapDDL(p *part) {}
