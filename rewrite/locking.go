package rewrite

import (
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// These are the strengths of locking clauses, as the parse tree gives them.
const (
	forKeyShare    = int(parse.LCS_FORKEYSHARE)
	forShare       = int(parse.LCS_FORSHARE)
	forNoKeyUpdate = int(parse.LCS_FORNOKEYUPDATE)
	forUpdate      = int(parse.LCS_FORUPDATE)
)

// rewriteLocking applies a locking policy (LockPolicy) to all FOR SHARE and FOR NO KEY UPDATE clauses of a statement.
// They get the same policy.
func (r *rewriter) rewriteLocking(p *statementPart) {
	if len(p.locked) == 0 || !r.rules.Locking && !r.rules.Dialect {
		return
	}
	weak, clauses, features := r.weakLockClauses(p)
	if len(weak) == 0 {
		return
	}
	if !r.rules.Locking {
		for _, f := range features {
			r.addFinding(finding.Disabled(f, p.st.Start))
		}
		return
	}
	policy, name := r.rules.strongestPolicy(p.st.Tables, clauses)
	if name != "" {
		p.st.Operation = name
	}
	for _, f := range features {
		r.addFinding(lockClauseFinding(f, policy, p.st.Start))
	}
	switch policy {
	case Flag:
	case Reject:
		p.st.Refusal = &Refusal{Code: "0A000", Message: "this locking clause is refused by configuration",
			Detail: "DSQL has no FOR SHARE and FOR NO KEY UPDATE, and " + policiesKey + " rejects them for a table of this statement.",
			Hint:   finding.Sentence(finding.Remedy(finding.ForShare))}
	default:
		r.applyLockPolicy(p, weak, policy)
	}
}

// weakLockClauses returns the FOR SHARE and FOR NO KEY UPDATE clauses of a statement, and their kinds and features. It
// also reports findings about SKIP LOCKED and NOWAIT in any locking clause.
func (r *rewriter) weakLockClauses(p *statementPart) (nodes []parse.TreeNode, clauses []string, features []finding.Feature) {
	share, noKeyUpdate, skip, nowait := false, false, false, false
	for _, query := range p.locked {
		for clause := range query.List("locking_clause") {
			switch clause.Integer("strength") {
			case forShare:
				share = true
				nodes = append(nodes, clause)
			case forNoKeyUpdate:
				noKeyUpdate = true
				nodes = append(nodes, clause)
			}
			skip = skip || clause.Integer("wait_policy") == int(parse.LockWaitSkip)
			nowait = nowait || clause.Integer("wait_policy") == int(parse.LockWaitError)
		}
	}
	if share {
		clauses, features = append(clauses, ShareClause), append(features, finding.ForShare)
	}
	if noKeyUpdate {
		clauses, features = append(clauses, NoKeyUpdateClause), append(features, finding.ForNoKeyUpdate)
	}
	const means = "passes; it does not mean there what it says"
	if skip {
		r.addFinding(finding.Handled(finding.SkipLocked, finding.Flagged, finding.Warning, means, p.st.Start))
	}
	if nowait {
		r.addFinding(finding.Handled(finding.NoWait, finding.Flagged, finding.Warning, means, p.st.Start))
	}
	return nodes, clauses, features
}

// lockClauseFinding returns the finding about a locking clause to which Sluice applies the policy.
func lockClauseFinding(f finding.Feature, policy LockClausePolicy, at int) finding.Finding {
	switch policy {
	case Update:
		return finding.Handled(f, finding.Rewritten, finding.Info, "rewritten to FOR UPDATE: the guarantee stays, and readers of a row conflict at COMMIT", at)
	case KeyShare:
		return finding.Handled(f, finding.Rewritten, finding.Warning, "rewritten to FOR KEY SHARE by policy: only DELETE and changes of the key conflict", at)
	case Strip:
		return finding.Handled(f, finding.Rewritten, finding.Warning, "taken out by policy: the column named by fenced_by must be the fence", at)
	case Reject:
		return finding.Handled(f, finding.Rejected, finding.Error, "refused by policy", at)
	}
	return finding.Handled(f, finding.Flagged, finding.Error, "passes unchanged by policy and fails there", at)
}

// applyLockPolicy makes the edits that apply a policy to locking clauses, and records the intended changes of the tree.
func (r *rewriter) applyLockPolicy(p *statementPart, weak []parse.TreeNode, policy LockClausePolicy) {
	ph := r.statementTokens(p)
	for _, c := range lockClauses(&ph) {
		if c.strength == forShare || c.strength == forNoKeyUpdate {
			r.addEdits(c.policyEdits(&ph, policy)...)
		}
	}
	switch policy {
	case Strip:
		for _, query := range p.locked {
			var kept []parse.Value
			i := 0
			all := query.Values("locking_clause")
			for clause := range query.List("locking_clause") {
				if s := clause.Integer("strength"); s != forShare && s != forNoKeyUpdate {
					kept = append(kept, all[i])
				}
				i++
			}
			if len(kept) < i {
				r.meant.Set(query, "locking_clause", kept...)
			}
		}
	default:
		strength := forUpdate
		if policy == KeyShare {
			strength = forKeyShare
		}
		for _, clause := range weak {
			r.meant.Set(clause, "strength", parse.Value{Number: uint64(strength)})
		}
	}
}

// lockClause holds the token indexes of a locking clause. first is the word FOR, and mode is the token after the
// strength (such as SHARE). end is the token after OF, NOWAIT and SKIP LOCKED.
type lockClause struct {
	strength         int
	first, mode, end int
}

// policyEdits returns the edits that apply the policy to the locking clause.
func (c lockClause) policyEdits(ph *parse.TokenList, policy LockClausePolicy) []parse.Edit {
	last := c.mode - 1 // the word SHARE, or UPDATE in NO KEY UPDATE
	switch {
	case policy == Strip:
		var edits []parse.Edit
		for i := c.first; i < c.end; i++ {
			edits = append(edits, ph.Remove(i))
		}
		return edits
	case policy == Update && c.strength == forShare:
		return []parse.Edit{ph.Replace(last, "UPDATE")}
	case policy == Update:
		return []parse.Edit{ph.Remove(last - 2), ph.Remove(last - 1)}
	case c.strength == forShare:
		return []parse.Edit{ph.Replace(last, "KEY SHARE")}
	}
	return []parse.Edit{ph.Remove(last - 2), ph.Replace(last, "SHARE")}
}

// lockClauses returns the locking clauses in a statement. It ignores a FOR after a dot or AS, which is a name. It also
// ignores a FOR in the parentheses of substring and overlay.
func lockClauses(ph *parse.TokenList) []lockClause {
	var all []lockClause
	var theirs []bool // for each open parenthesis, whether it belongs to substring or overlay
	for i := range ph.Tokens {
		switch {
		case ph.IsPunct(i, '('):
			theirs = append(theirs, ph.IsKeyword(i-1, "substring") || ph.IsKeyword(i-1, "overlay"))
		case ph.IsPunct(i, ')') && len(theirs) > 0:
			theirs = theirs[:len(theirs)-1]
		case ph.IsKeyword(i, "for") && !ph.IsPunct(i-1, '.') && !ph.IsKeyword(i-1, "as") && (len(theirs) == 0 || !theirs[len(theirs)-1]):
			if c := lockClauseAt(ph, i); c.strength != 0 {
				all = append(all, c)
			}
		}
	}
	return all
}

// lockClauseAt returns the locking clause that begins with the FOR at token i. Its strength is 0 if no clause begins
// there.
func lockClauseAt(ph *parse.TokenList, i int) lockClause {
	c := lockClause{first: i}
	switch {
	case ph.IsKeyword(i+1, "update"):
		c.strength, c.mode = forUpdate, i+2
	case ph.IsKeyword(i+1, "share"):
		c.strength, c.mode = forShare, i+2
	case ph.AreKeywords(i+1, "key", "share"):
		c.strength, c.mode = forKeyShare, i+3
	case ph.AreKeywords(i+1, "no", "key", "update"):
		c.strength, c.mode = forNoKeyUpdate, i+4
	default:
		return lockClause{}
	}
	c.end = c.mode
	if ph.IsKeyword(c.end, "of") {
		for c.end++; ph.IsName(c.end); {
			c.end++
			if !ph.IsPunct(c.end, '.') && !ph.IsPunct(c.end, ',') {
				break
			}
			c.end++
		}
	}
	switch {
	case ph.IsKeyword(c.end, "nowait"):
		c.end++
	case ph.AreKeywords(c.end, "skip", "locked"):
		c.end += 2
	}
	return c
}
