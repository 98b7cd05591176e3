package rewrite

import "github.com/sluice-proxy/sluice/rewrite/finding"

// A script runs in transactions that the script itself begins, or that the migration tool begins.

// ScriptTransaction describes the transaction in which a tool runs a script. The zero ScriptTransaction is a tool that
// sends each statement alone, as psql does.
type ScriptTransaction struct {
	// Wrapped reports that the tool begins a transaction before the script and commits it afterwards.
	Wrapped bool
	// Whole reports that the tool sends the script as one multi-statement query. Statements outside of the script's own
	// transactions then form one transaction.
	Whole bool
	// Records reports that the tool writes a row about the script in the script's transaction.
	Records bool
	// Remedy is advice for the tool's user on running each statement in a separate transaction.
	Remedy string
}

// scriptState is the state of the linted session within a script.
type scriptState struct {
	ScriptTransaction
	own      bool                     // the script has a BEGIN in the current transaction
	reported map[finding.Feature]bool // the features already reported for the tool's transaction, each once
}

// beginScript resets the Linter's state to the start of a script.
func (l *Linter) beginScript() {
	l.inBlock = l.run.Wrapped || l.run.Whole
	l.block = txContents{dml: l.run.Wrapped && l.run.Records}
	l.run.own, l.run.reported = false, map[finding.Feature]bool{}
}

// observeStatement adds the next statement to the script's transaction, and returns findings about what the transaction
// cannot take. verb is the statement's verb before rewriting. alone reports that the text has one statement. In a text
// of several statements, the text's plan already has these findings.
func (l *Linter) observeStatement(verb TxVerb, p *statementPart, alone bool) []finding.Finding {
	switch verb {
	case Begin:
		if !l.inBlock {
			l.block = txContents{}
		}
		l.inBlock, l.run.own = true, true
		return nil
	case Commit, Rollback, PrepareTransaction:
		// After COMMIT or ROLLBACK only a multi-statement query continues in a transaction. A tool's transaction ends.
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

// RemedyInBlock returns Remedy, with the advice to remove BEGIN if the script has a BEGIN in the transaction (own).
func (r ScriptTransaction) RemedyInBlock(own bool) string {
	if own {
		return r.Remedy + "; and leave BEGIN and COMMIT out"
	}
	return r.Remedy
}
