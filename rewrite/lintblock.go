package rewrite

// The transactions of a script: those that it begins itself, and those in which the tool
// that runs it does.

// running is how a script is run.
type running struct {
	// tool runs it; nil for one that sends each statement alone, as psql does.
	tool *tool
	down bool // it undoes a migration
	// wrapped: the tool begins a transaction, and commits it behind the script.
	wrapped bool
	// whole: the script is sent as one string, so that what is in no block of its own is
	// one transaction too.
	whole bool
}

// run is a session's way through a script.
type run struct {
	running
	own  bool             // the script has a BEGIN of its own in this transaction
	told map[Feature]bool // what was said of the tool's transaction: once is enough
}

// begin begins the transaction that a script is in from its first statement on.
func (l *Linter) begin() {
	l.inBlock = l.run.wrapped || l.run.whole
	l.block = block{dml: l.run.wrapped && l.run.tool.records}
	l.run.own, l.run.told = false, map[Feature]bool{}
}

// follow takes the next statement, which had that verb, and says what it is too much for
// its transaction. alone: the text has no other, whose findings say so already.
func (l *Linter) follow(verb Verb, p *part, alone bool) []Finding {
	switch verb {
	case Begin:
		if !l.inBlock {
			l.block = block{}
		}
		l.inBlock, l.run.own = true, true
		return nil
	case Commit, Rollback, PrepareTransaction:
		// Only a string goes on in a transaction: a tool's own has ended here.
		l.inBlock, l.block, l.run.own = l.run.whole, block{}, false
		l.run.wrapped, l.run.told = false, map[Feature]bool{}
		return nil
	}
	f := l.block.observe(p.st)
	if f == "" || !l.inBlock || !alone {
		return nil
	}
	finding := l.block.finding(f, p.st, l.planner.config.Rules.InTransactions)
	if finding.Outcome == Flagged && (l.run.wrapped || l.run.whole) {
		if l.run.told[f] {
			return nil
		}
		l.run.told[f] = true
		finding.Remedy = l.run.remedy()
	}
	return []Finding{finding}
}

// remedy is what a person can do about the transaction in which a tool runs a script.
func (r *run) remedy() string {
	remedy := r.tool.remedy(r.down)
	if r.own {
		remedy += "; and leave BEGIN and COMMIT out"
	}
	return remedy
}
