package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// createDatabase handles CREATE DATABASE. If the name is mapped to a schema, Sluice creates the schema. For any other
// name Sluice answers "already exists", which tools accept as success.
func (r *rewriter) createDatabase(p *statementPart) {
	schema, ok := r.mappedSchema(p)
	switch {
	case ok:
		p.st.Does, p.st.Database = ChangesDatabase, &DatabaseChange{Name: p.node.Text("dbname"), Schema: schema}
		if option := unsupportedSchemaOption(p.node); option != "" {
			p.st.Does, p.st.Database = ServerOnly, nil
			p.st.Refusal = &Refusal{Code: "0A000", Message: "CREATE DATABASE cannot have the option \"" + option + "\" here",
				Detail: "The name stands for a schema (listen.databases), which has no such option.", Hint: "Leave the option out."}
		}
		r.addFinding(finding.Handled(finding.CreateDatabase, finding.Answered, finding.Info, "answered: the schema that the name stands for is made", p.st.Start))
	case r.rules.Databases:
		p.st.Refusal = &Refusal{Code: "42P04", Message: "database \"" + p.node.Text("dbname") + "\" already exists",
			Detail: "Every database name means the cluster's one database."}
		r.addFinding(finding.Handled(finding.CreateDatabase, finding.Answered, finding.Info, "answered: the database exists already (42P04)", p.st.Start))
	case r.rules.Dialect:
		r.addFinding(finding.Disabled(finding.CreateDatabase, p.st.Start))
	}
}

// unsupportedSchemaOption returns the first option of a CREATE DATABASE that a schema cannot have, or "". The encoding
// UTF8 and the empty templates are allowed, because they fit every schema.
func unsupportedSchemaOption(m parse.TreeNode) string {
	for option := range m.List("options") {
		name, value := option.Text("defname"), ""
		arg := option.Child("arg")
		if arg.Is("String") {
			value = strings.ToLower(arg.Text("sval"))
		}
		switch {
		case arg.Shape == nil: // the option is DEFAULT
		case name == "encoding" && (value == "utf8" || value == "utf-8" || value == "unicode"):
		case name == "template" && (value == "template0" || value == "template1"):
		default:
			return name
		}
	}
	return ""
}

// mappedSchema returns the schema that Rules.SchemaOf gives for the database name in a CREATE or DROP DATABASE.
func (r *rewriter) mappedSchema(p *statementPart) (schema string, ok bool) {
	if r.rules.SchemaOf == nil {
		return "", false
	}
	return r.rules.SchemaOf(p.node.Text("dbname"))
}

// dropDatabase handles DROP DATABASE. If the name is mapped to a schema, Sluice drops the schema. For any other name
// Sluice answers with success and drops nothing.
func (r *rewriter) dropDatabase(p *statementPart) {
	schema, ok := r.mappedSchema(p)
	switch {
	case ok:
		d := &DatabaseChange{Name: p.node.Text("dbname"), Schema: schema, Drop: true, IfExists: p.node.Flag("missing_ok")}
		for option := range p.node.List("options") {
			d.Force = d.Force || option.Text("defname") == "force"
		}
		p.st.Does, p.st.Database = ChangesDatabase, d
		r.addFinding(finding.Handled(finding.DropDatabase, finding.Answered, finding.Info, "answered: the schema that the name stands for is dropped", p.st.Start))
	case r.rules.Databases:
		r.answerLocally(p, Answers, "DROP DATABASE")
		r.addFinding(finding.Handled(finding.DropDatabase, finding.Answered, finding.Warning, "answered as done; nothing is dropped", p.st.Start))
	case r.rules.Dialect:
		r.addFinding(finding.Disabled(finding.DropDatabase, p.st.Start))
	}
}

// discards has Sluice's answers to those DISCARDs whose state DSQL sessions do not have. DISCARD ALL is not among them,
// because it changes settings (Statement.Changes).
var discards = map[parse.DiscardMode]struct {
	does LocalWork
	tag  string
}{
	parse.DISCARD_PLANS:     {Answers, "DISCARD PLANS"},
	parse.DISCARD_SEQUENCES: {DiscardsSequences, "DISCARD SEQUENCES"},
	parse.DISCARD_TEMP:      {Answers, "DISCARD TEMP"},
}

func (r *rewriter) answerDiscard(p *statementPart) {
	of, ok := discards[parse.DiscardMode(p.node.Integer("target"))]
	if !ok || !r.rules.Session {
		return
	}
	r.answerLocally(p, of.does, of.tag)
	r.addFinding(finding.Handled(finding.Discard, finding.Answered, finding.Info, "answered: there is nothing to discard", p.st.Start))
}

// weakerLevels are the isolation levels that are weaker than DSQL's REPEATABLE READ, which satisfies them.
var weakerLevels = map[Isolation]bool{ReadUncommitted: true, ReadCommitted: true}

// sampleBegin is the tree of a BEGIN with REPEATABLE READ. setRepeatableRead copies this option.
var sampleBegin = parse.LazyTree("BEGIN ISOLATION LEVEL REPEATABLE READ")

// rewriteBegin rewrites the isolation level of a BEGIN or START TRANSACTION to REPEATABLE READ, or reports the level in
// a finding.
func (r *rewriter) rewriteBegin(p *statementPart) {
	st := p.st
	if st.Tx.Verb != Begin {
		return
	}
	switch {
	case st.Tx.Isolation == Serializable && r.rules.Weaken:
		r.setRepeatableRead(p)
		st.Weakened = true
		r.addFinding(finding.Handled(finding.SerializableTx, finding.Rewritten, finding.Warning, weakened, st.Start))
	case st.Tx.Isolation == Serializable && r.rules.Dialect:
		r.addFinding(finding.Refused(finding.SerializableTx, st.Start))
	case weakerLevels[st.Tx.Isolation] && r.rules.Isolation:
		r.setRepeatableRead(p)
		r.addFinding(finding.Handled(finding.IsolationLevel, finding.Rewritten, finding.Info, "rewritten to REPEATABLE READ, which is stricter", st.Start))
	case weakerLevels[st.Tx.Isolation] && r.rules.Dialect:
		r.addFinding(finding.Disabled(finding.IsolationLevel, st.Start))
	}
}

// weakened is the Finding.Action for a SERIALIZABLE that Sluice runs as REPEATABLE READ.
const weakened = "taken for REPEATABLE READ, with a warning each time: write skew is possible"

// setRepeatableRead replaces the isolation level in a BEGIN by REPEATABLE READ.
func (r *rewriter) setRepeatableRead(p *statementPart) {
	ph := r.statementTokens(p)
	for i := range ph.Tokens {
		switch {
		case !ph.IsKeyword(i, "level"):
		case ph.IsKeyword(i+1, "serializable"):
			r.addEdits(ph.Replace(i+1, "REPEATABLE READ"))
		default:
			r.addEdits(ph.Replace(i+1, "REPEATABLE"), ph.Replace(i+2, "READ"))
		}
	}
	level := sampleBegin().Child("stmts").Child("stmt").Child("options")
	for option := range p.node.List("options") {
		if option.Text("defname") == "transaction_isolation" {
			r.meant.Set(option, "arg", level.Values("arg")...)
		}
	}
	p.st.Tx.Isolation = RepeatableRead
}

// setIsolation answers or reports a statement that sets an isolation level: SET TRANSACTION, SET SESSION
// CHARACTERISTICS, or a SET of a level's setting.
func (r *rewriter) setIsolation(p *statementPart) {
	st := p.st
	level, modes, ok := requestedIsolation(st)
	if r.handleReadOnlyDefault(p) || !ok {
		return
	}
	weak := level == Serializable && r.rules.Weaken && r.rules.Isolation
	if weak && st.Tx.Verb != NoVerb {
		st.Tx.Isolation = RepeatableRead
	}
	switch {
	case level == Serializable && !weak:
		if r.rules.Dialect {
			r.addFinding(finding.Refused(finding.SerializableTx, st.Start))
		}
	case modes:
		st.Weakened = weak
		if r.rules.Dialect {
			late := finding.Refused(finding.TransactionMode, st.Start)
			if st.Tx.Verb == SetTransaction && st.Tx.Snapshot == "" {
				late.Action = "goes into a BEGIN in front of it, and fails behind another statement"
			}
			r.addFinding(late)
		}
	case r.rules.Isolation:
		r.answerIsolation(p, level, weak)
	case r.rules.Dialect:
		r.addFinding(finding.Disabled(finding.TransactionMode, st.Start))
	}
}

// requestedIsolation returns the isolation level that a statement sets. modes reports that the statement also sets
// other modes of a transaction, such as READ ONLY. ok is false for a statement that sets no level or mode.
func requestedIsolation(st *Statement) (level Isolation, modes, ok bool) {
	// READ WRITE has an effect only if the transaction is READ ONLY.
	modes = st.Tx.ReadOnly || st.Tx.Snapshot != "" || st.Tx.ReadWrite && st.Tx.Verb == SetTransaction
	switch {
	case st.Tx.Verb == SetTransaction || st.Tx.Verb == SetSessionCharacteristics:
		return st.Tx.Isolation, modes, true
	case len(st.Changes) == 1 && levelSettings[st.Changes[0].Name] && st.Changes[0].SQL != "":
		level = isolations[strings.ToLower(st.Changes[0].Text)]
		return level, level == DefaultIsolation, true
	case len(st.Changes) == 1 && readOnlySettings[st.Changes[0].Name] && st.Changes[0].SQL != "" && !isOffValue(st.Changes[0].Text):
		return level, true, true
	case len(st.Changes) == 1 && st.Changes[0].Name == "default_transaction_isolation": // back to the default
		return RepeatableRead, false, true
	}
	return level, modes, false
}

// answerIsolation makes Sluice answer a statement that sets level. weak reports that DSQL's isolation is weaker than
// level.
func (r *rewriter) answerIsolation(p *statementPart, level Isolation, weak bool) {
	ofBlock, tag := p.st.Tx.Verb == SetTransaction, "SET"
	if c := p.st.Changes; len(c) == 1 && c[0].Action == Reset && !c[0].Default {
		tag = "RESET"
	}
	r.answerLocally(p, Answers, tag)
	p.st.OfBlock, p.st.Weakened = ofBlock, weak
	switch {
	case weak:
		r.addFinding(finding.Handled(finding.SerializableTx, finding.Answered, finding.Warning, weakened, p.st.Start))
	case level == DefaultIsolation:
		r.addFinding(finding.Handled(finding.TransactionMode, finding.Answered, finding.Info, atLeast, p.st.Start))
	default:
		r.addFinding(finding.Handled(finding.IsolationLevel, finding.Answered, finding.Info, atLeast, p.st.Start))
	}
}

// atLeast is the Finding.Action for an isolation level that DSQL's own level satisfies.
const atLeast = "answered: transactions on DSQL are at least so already"

// readOnlySettings are the settings that make transactions READ ONLY.
var readOnlySettings = map[string]bool{"default_transaction_read_only": true, "transaction_read_only": true}

// isOffValue reports whether text is a usual spelling of the boolean value off.
func isOffValue(text string) bool {
	switch strings.ToLower(text) {
	case "off", "false", "no", "0":
		return true
	}
	return false
}

// levelSettings are the settings whose value is an isolation level.
var levelSettings = map[string]bool{"default_transaction_isolation": true, "transaction_isolation": true}
