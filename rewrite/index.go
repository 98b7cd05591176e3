package rewrite

import (
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// rewriteCreateIndex rewrites CREATE INDEX to CREATE INDEX ASYNC. DSQL then builds the index in a background job, and
// returns the job's id.
func (r *rewriter) rewriteCreateIndex(p *statementPart) {
	if !r.rules.Index && !r.rules.Dialect {
		return
	}
	ph := r.statementTokens(p)
	at := 0
	for at < len(ph.Tokens) && !ph.IsKeyword(at, "index") {
		at++
	}
	cannot := r.reportIndexRefusals(p)
	if ph.IsKeyword(at+1, "async") {
		return // the client uses DSQL's own form, and itself reads the job's id
	}
	switch {
	case !r.rules.Index:
		r.addFinding(finding.Disabled(finding.CreateIndex, p.st.Start))
		return
	}
	if ph.IsKeyword(at+1, "concurrently") {
		r.addEdits(ph.Replace(at+1, "ASYNC"))
		r.meant.Set(p.node, "concurrent")
	} else {
		r.addEdits(ph.InsertAfter(at, " ASYNC"))
	}
	if !cannot { // otherwise it fails on DSQL, whatever its keys are
		r.simplifyIndexKeys(p, &ph, at)
	}
	if p.st.Job = AwaitedJob; !r.rules.AwaitIndex {
		p.st.Job = UnawaitedJob
	}
	if relation := p.node.Child("relation"); p.node.Flag("if_not_exists") && relation.Text("catalogname") == "" {
		p.st.IfNoIndex = &IndexName{Name: p.node.Text("idxname"), Table: parse.RegclassName(relation)}
	}
	if cannot {
		return // without ASYNC, the server's error would be about ASYNC and not about the unsupported part
	}
	action := "rewritten to CREATE INDEX ASYNC; the answer waits for the job, in a transaction block that of its COMMIT"
	if !r.rules.AwaitIndex {
		action = "rewritten to CREATE INDEX ASYNC; the answer does not wait for the job"
	}
	r.addFinding(finding.Handled(finding.CreateIndex, finding.Rewritten, finding.Info, action, p.st.Start))
}

// reportIndexRefusals reports those parts of a CREATE INDEX that DSQL does not support in any form.
func (r *rewriter) reportIndexRefusals(p *statementPart) (any bool) {
	refuse := func(f finding.Feature, yes bool) {
		if yes {
			any = true
			refused := finding.Refused(f, p.st.Start)
			if r.rules.Index {
				refused.Action = "rewritten to CREATE INDEX ASYNC, and fails there"
			}
			r.addFinding(refused)
		}
	}
	method := p.node.Text("access_method")
	refuse(finding.IndexMethod, method != "btree" && method != "")
	keys, descend, classed, unique := 0, 0, false, p.node.Flag("unique")
	for key := range p.node.List("index_params") {
		keys++
		if key.Integer("ordering") == descending {
			descend++
		}
		classed = classed || key.Child("opclass").Shape != nil && !isDefaultOpClass(key, unique)
	}
	refuse(finding.IndexOrder, descend > 0 && (descend < keys || method != "btree" && method != ""))
	refuse(finding.IndexOpClass, classed && (method == "btree" || method == ""))
	return any
}

// These are the values of the fields ordering and nulls_ordering of an index key in the parse tree.
const (
	ascending  = int(parse.SORTBY_ASC)
	descending = int(parse.SORTBY_DESC)
	nullsFirst = int(parse.SORTBY_NULLS_FIRST)
	nullsLast  = int(parse.SORTBY_NULLS_LAST)
)

// usualClasses are B-tree operator classes that have no effect under the collation C. Each is the default class of its
// type, or compares bytes.
var usualClasses = parse.WordSet(`text_pattern_ops varchar_pattern_ops text_ops varchar_ops int2_ops int4_ops int8_ops float4_ops float8_ops
	numeric_ops bool_ops uuid_ops date_ops time_ops timetz_ops timestamp_ops timestamptz_ops interval_ops bytea_ops`)

// paddedClasses are operator classes that ignore trailing blanks. In an index over text, they treat more values as
// equal than text itself does.
var paddedClasses = parse.WordSet("bpchar_pattern_ops bpchar_ops")

// isDefaultOpClass reports whether a key's operator class has no effect on DSQL. In a UNIQUE index it must not treat
// more values as equal.
func isDefaultOpClass(key parse.TreeNode, unique bool) bool {
	names := key.Names("opclass")
	if len(names) == 2 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	return len(names) == 1 && key.Child("opclassopts").Shape == nil && (usualClasses[names[0]] || paddedClasses[names[0]] && !unique)
}

// simplifyIndexKeys removes redundant parts of an index that DSQL refuses: USING btree, ASC, and operator classes
// without effect. If all keys have DESC, it removes DESC as well, because a server can read an index backwards. It then
// swaps NULLS FIRST and NULLS LAST.
func (r *rewriter) simplifyIndexKeys(p *statementPart, ph *parse.TokenList, at int) {
	i := at
	for ; i < len(ph.Tokens) && !ph.IsPunct(i, '('); i++ {
		if ph.IsKeyword(i, "using") && p.node.Text("access_method") == "btree" {
			r.addEdits(ph.Remove(i), ph.Remove(i+1))
			i++
		}
	}
	mirrored, classed := false, false
	i++
	for key := range p.node.List("index_params") {
		end := ph.ParenItemEnd(i)
		mirrored = mirrored || key.Integer("ordering") == descending
		classed = classed || key.Child("opclass").Shape != nil
		r.simplifyIndexKey(ph, key, end)
		i = end + 2
	}
	if mirrored {
		r.addFinding(finding.Handled(finding.IndexOrder, finding.Rewritten, finding.Info, "DESC is taken out of every key: the index is read backwards", p.st.Start))
	}
	if classed {
		r.addFinding(finding.Handled(finding.IndexOpClass, finding.Rewritten, finding.Info, "the operator class is taken out: it orders as the type does", p.st.Start))
	}
}

// simplifyIndexKey removes the redundant parts of one index key. end is the key's last token.
func (r *rewriter) simplifyIndexKey(ph *parse.TokenList, key parse.TreeNode, end int) {
	order, nulls := key.Integer("ordering"), key.Integer("nulls_ordering")
	if nulls == nullsFirst || nulls == nullsLast {
		switch {
		case order == descending && nulls == nullsFirst: // the default order of NULLs after DESC
			r.addEdits(ph.Remove(end-1), ph.Remove(end))
			r.meant.Set(key, "nulls_ordering", parse.Value{Number: uint64(parse.SORTBY_NULLS_DEFAULT)})
		case order == descending:
			r.addEdits(ph.Replace(end, "FIRST"))
			r.meant.Set(key, "nulls_ordering", parse.Value{Number: uint64(nullsFirst)})
		}
		end -= 2
	}
	if order == ascending || order == descending {
		r.addEdits(ph.Remove(end))
		r.meant.Set(key, "ordering", parse.Value{Number: uint64(parse.SORTBY_DEFAULT)})
		end--
	}
	if names := len(key.Names("opclass")); names > 0 {
		for i := range 2*names - 1 {
			r.addEdits(ph.Remove(end - i))
		}
		r.meant.Set(key, "opclass")
	}
}

// dropIndex removes CONCURRENTLY from DROP INDEX. On DSQL, neither form locks anything.
func (r *rewriter) dropIndex(p *statementPart) {
	isIndex := parse.ObjectType(p.node.Integer("remove_type")) == parse.OBJECT_INDEX
	switch ph := r.statementTokens(p); {
	case !isIndex || !p.node.Flag("concurrent"):
	case r.rules.Index && ph.AreKeywords(0, "drop", "index", "concurrently"):
		r.addEdits(ph.Remove(2))
		r.meant.Set(p.node, "concurrent")
		r.addFinding(finding.Handled(finding.DropConcurrently, finding.Rewritten, finding.Info, "CONCURRENTLY is taken out", p.st.Start))
	case r.rules.Index || r.rules.Dialect:
		r.addFinding(finding.Disabled(finding.DropConcurrently, p.st.Start))
	}
}
