package rewrite

// The transactions of a script: those that it begins itself, and those in which the tool
// that runs it does.

// Running is the transaction in which a tool runs a script. The zero value is that of a tool that sends each
// statement alone, as psql does.
type Running struct {
	// Wrapped: the tool begins a transaction, and commits it behind the script.
	Wrapped bool
	// Whole: the script is sent as one string, so that what is in no block of its own is
	// one transaction too.
	Whole bool
	// Records: the tool notes in its transaction that the script has run.
	Records bool
	// Remedy is what a person can do so that each statement is a transaction.
	Remedy string
}

// run is a session's way through a script.
type run struct {
	Running
	own  bool             // the script has a BEGIN of its own in this transaction
	told map[Feature]bool // what was said of the tool's transaction: once is enough
}

// begin begins the transaction that a script is in from its first statement on.
func (l *Linter) begin() {
	l.inBlock = l.run.Wrapped || l.run.Whole
	l.block = block{dml: l.run.Wrapped && l.run.Records}
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
		l.inBlock, l.block, l.run.own = l.run.Whole, block{}, false
		l.run.Wrapped, l.run.told = false, map[Feature]bool{}
		return nil
	}
	f := l.block.observe(p.st)
	if f == "" || !l.inBlock || !alone {
		return nil
	}
	finding := l.block.finding(f, p.st, l.planner.config.Rules.InTransactions)
	if finding.Outcome == Flagged && (l.run.Wrapped || l.run.Whole) {
		if l.run.told[f] {
			return nil
		}
		l.run.told[f] = true
		finding.Remedy = l.run.RemedyBeside(l.run.own)
	}
	return []Finding{finding}
}

// RemedyBeside is the Remedy of a script; own says that it has a BEGIN of its own in the transaction.
func (r Running) RemedyBeside(own bool) string {
	if own {
		return r.Remedy + "; and leave BEGIN and COMMIT out"
	}
	return r.Remedy
}
