package rewrite

import "github.com/sluice-proxy/sluice/rewrite/finding"

// The script itself, or the migration tool that runs it, begins the transactions of a script.

// ScriptTransaction says in which transaction a tool runs a script. The zero ScriptTransaction is a tool that sends
// each statement alone, as psql does.
type ScriptTransaction struct {
	// Wrapped reports that the tool begins a transaction before the script and commits it after the script.
	Wrapped bool
	// Whole reports that the tool sends the script as one multi-statement query. All statements outside of the script's
	// own BEGIN and COMMIT then form one transaction.
	Whole bool
	// Records reports that the tool, in the script's transaction, writes a row that the script was run.
	Records bool
	// Remedy is advice for the tool's user: how to run each statement in a transaction of its own.
	Remedy string
}

// scriptState has the transaction, and the features reported in it, at a statement of a script.
type scriptState struct {
	ScriptTransaction
	own      bool                     // the script has a BEGIN in the current transaction
	reported map[finding.Feature]bool // the features already reported for the tool's transaction
}

// beginScript sets the Linter's state to that at the start of a script.
func (l *Linter) beginScript() {
	l.inBlock = l.run.Wrapped || l.run.Whole
	l.block = txContents{dml: l.run.Wrapped && l.run.Records}
	l.run.own, l.run.reported = false, map[finding.Feature]bool{}
}

// observeStatement adds a statement to the script's transaction. It returns findings about what DSQL does not accept in
// that transaction. verb is the statement's verb before rewriting. alone reports that the text has one statement. For a
// text of several statements, the text's plan already has these findings.
func (l *Linter) observeStatement(verb TxVerb, p *statementPart, alone bool) []finding.Finding {
	switch verb {
	case Begin:
		if !l.inBlock {
			l.block = txContents{}
		}
		l.inBlock, l.run.own = true, true
		return nil
	case Commit, Rollback, PrepareTransaction:
		// After COMMIT or ROLLBACK, the tool's transaction has ended. Only a multi-statement query then begins another
		// one.
		l.inBlock, l.block, l.run.own = l.run.Whole, txContents{}, false
		l.run.Wrapped, l.run.reported = false, map[finding.Feature]bool{}
		return nil
	}
	f := l.block.addStatement(p.st)
	if f == "" || !l.inBlock || !alone {
		return nil
	}
	found := l.block.featureFinding(f, p.st, l.planner.config.Rules.InTransactions)
	if found.Outcome == finding.Flagged && (l.run.Wrapped || l.run.Whole) {
		if l.run.reported[f] {
			return nil
		}
		l.run.reported[f] = true
		found.Remedy = l.run.RemedyInBlock(l.run.own)
	}
	return []finding.Finding{found}
}

// RemedyInBlock returns r.Remedy. If own is set, because the script itself has a BEGIN, it adds the advice to remove
// BEGIN.
func (r ScriptTransaction) RemedyInBlock(own bool) string {
	if own {
		return r.Remedy + "; and leave BEGIN and COMMIT out"
	}
	return r.Remedy
}
