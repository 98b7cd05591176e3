package rewrite

import pg_query "github.com/pganalyze/pg_query_go/v6"

// index is the rule of CREATE INDEX: DSQL builds in the background, and answers
// with the job.
func (r *rewriter) index(p *part) {
	if !r.rules.Index && !r.rules.Dialect {
		return
	}
	ph := r.phrase(p)
	at := 0
	for at < len(ph.tokens) && !ph.word(at, "index") {
		at++
	}
	cannot := r.indexRefusals(p)
	if ph.word(at+1, "async") {
		return // DSQL's own form; its client wants the job
	}
	switch {
	case !r.rules.Index:
		r.find(off(CreateIndex, p.st.Start))
		return
	}
	if ph.word(at+1, "concurrently") {
		r.edit(ph.replace(at+1, "ASYNC"))
		r.meant.set(p.node, "concurrent")
	} else {
		r.edit(ph.insert(at, " ASYNC"))
	}
	if !cannot { // else it fails there, whatever its keys look like
		r.plainKeys(p, &ph, at)
	}
	if p.st.Job = AwaitedJob; !r.rules.AwaitIndex {
		p.st.Job = UnawaitedJob
	}
	if cannot {
		return // without ASYNC the server would name that as the reason, and not what it refuses
	}
	action := "rewritten to CREATE INDEX ASYNC; outside a transaction block the answer waits for the job"
	if !r.rules.AwaitIndex {
		action = "rewritten to CREATE INDEX ASYNC; the answer does not wait for the job"
	}
	r.find(handled(CreateIndex, Rewritten, Info, action, p.st.Start))
}

// indexRefusals reports what no form of CREATE INDEX has on DSQL.
func (r *rewriter) indexRefusals(p *part) (any bool) {
	refuse := func(f Feature, yes bool) {
		if yes {
			any = true
			refused := found(f, p.st.Start)
			if r.rules.Index {
				refused.Action = "rewritten to CREATE INDEX ASYNC, and fails there"
			}
			r.find(refused)
		}
	}
	method := p.node.text("access_method")
	refuse(IndexMethod, method != "btree" && method != "")
	descends, classed := false, false
	for key := range p.node.list("index_params") {
		order := key.integer("ordering")
		descends = descends || order == int(pg_query.SortByDir_SORTBY_DESC)
		classed = classed || key.child("opclass").shape != nil
	}
	refuse(IndexOrder, descends)
	refuse(IndexOpClass, classed && (method == "btree" || method == ""))
	return any
}

// plainKeys takes out what DSQL refuses and what is so without it: USING btree
// (the parser fills it in) and ASC.
func (r *rewriter) plainKeys(p *part, ph *phrase, at int) {
	i := at
	for ; i < len(ph.tokens) && !ph.punct(i, '('); i++ {
		if ph.word(i, "using") && p.node.text("access_method") == "btree" {
			r.edit(ph.remove(i), ph.remove(i+1))
			i++
		}
	}
	for depth := 0; i < len(ph.tokens); i++ {
		switch {
		case ph.punct(i, '('):
			depth++
		case ph.punct(i, ')'):
			depth--
		case depth == 1 && ph.word(i, "asc"):
			r.edit(ph.remove(i))
		}
		if depth == 0 {
			break
		}
	}
	for key := range p.node.list("index_params") {
		if key.integer("ordering") == int(pg_query.SortByDir_SORTBY_ASC) {
			r.meant.set(key, "ordering", value{number: uint64(pg_query.SortByDir_SORTBY_DEFAULT)})
		}
	}
}
