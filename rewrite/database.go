package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// createDatabase handles CREATE DATABASE. A name that is mapped to a schema creates the schema. Any other name
// is answered with "already exists", which tools accept as success.
func (r *rewriter) createDatabase(p *part) {
	schema, ok := r.schemaOf(p)
	switch {
	case ok:
		p.st.Does, p.st.Database = ChangesDatabase, &Database{Name: p.node.Text("dbname"), Schema: schema}
		if option := schemaLacks(p.node); option != "" {
			p.st.Does, p.st.Database = ServerOnly, nil
			p.st.Refusal = &Refusal{Code: "0A000", Message: "CREATE DATABASE cannot have the option \"" + option + "\" here",
				Detail: "The name stands for a schema (listen.databases), which has no such option.", Hint: "Leave the option out."}
		}
		r.find(handled(CreateDatabase, Answered, Info, "answered: the schema that the name stands for is made", p.st.Start))
	case r.rules.Databases:
		p.st.Refusal = &Refusal{Code: "42P04", Message: "database \"" + p.node.Text("dbname") + "\" already exists",
			Detail: "Every database name means the cluster's one database."}
		r.find(handled(CreateDatabase, Answered, Info, "answered: the database exists already (42P04)", p.st.Start))
	case r.rules.Dialect:
		r.find(off(CreateDatabase, p.st.Start))
	}
}

// schemaLacks returns the first option of a CREATE DATABASE that a schema cannot have, or "". The encoding UTF8
// and the empty templates are no options of this kind, because every schema has them.
func schemaLacks(m parse.Message) string {
	for option := range m.List("options") {
		name, value := option.Text("defname"), ""
		arg := option.Child("arg")
		if arg.Is("String") {
			value = strings.ToLower(arg.Text("sval"))
		}
		switch {
		case arg.Shape == nil: // DEFAULT
		case name == "encoding" && (value == "utf8" || value == "utf-8" || value == "unicode"):
		case name == "template" && (value == "template0" || value == "template1"):
		default:
			return name
		}
	}
	return ""
}

// schemaOf returns the schema to which the statement's database name is mapped.
func (r *rewriter) schemaOf(p *part) (schema string, ok bool) {
	if r.rules.SchemaOf == nil {
		return "", false
	}
	return r.rules.SchemaOf(p.node.Text("dbname"))
}

// dropDatabase handles DROP DATABASE. A name that is mapped to a schema drops the schema. For any other name
// nothing is dropped, and the client gets a success.
func (r *rewriter) dropDatabase(p *part) {
	schema, ok := r.schemaOf(p)
	switch {
	case ok:
		d := &Database{Name: p.node.Text("dbname"), Schema: schema, Drop: true, IfExists: p.node.Flag("missing_ok")}
		for option := range p.node.List("options") {
			d.Force = d.Force || option.Text("defname") == "force"
		}
		p.st.Does, p.st.Database = ChangesDatabase, d
		r.find(handled(DropDatabase, Answered, Info, "answered: the schema that the name stands for is dropped", p.st.Start))
	case r.rules.Databases:
		r.answer(p, Answers, "DROP DATABASE")
		r.find(handled(DropDatabase, Answered, Warning, "answered as done; nothing is dropped", p.st.Start))
	case r.rules.Dialect:
		r.find(off(DropDatabase, p.st.Start))
	}
}

// discards maps DISCARD of state that DSQL sessions do not have to the answer. DISCARD ALL is a change of
// settings (Statement.Changes).
var discards = map[parse.DiscardMode]struct {
	does Does
	tag  string
}{
	parse.DISCARD_PLANS:     {Answers, "DISCARD PLANS"},
	parse.DISCARD_SEQUENCES: {DiscardsSequences, "DISCARD SEQUENCES"},
	parse.DISCARD_TEMP:      {Answers, "DISCARD TEMP"},
}

func (r *rewriter) discard(p *part) {
	of, ok := discards[parse.DiscardMode(p.node.Integer("target"))]
	if !ok || !r.rules.Session {
		return
	}
	r.answer(p, of.does, of.tag)
	r.find(handled(Discard, Answered, Info, "answered: there is nothing to discard", p.st.Start))
}

// weaker are the isolation levels that DSQL's REPEATABLE READ satisfies.
var weaker = map[Isolation]bool{ReadUncommitted: true, ReadCommitted: true}

// sampleBegin is the tree of a BEGIN with REPEATABLE READ, from which that option is copied.
var sampleBegin = parse.Sample("BEGIN ISOLATION LEVEL REPEATABLE READ")

// begin rewrites the isolation level of a BEGIN or START TRANSACTION to REPEATABLE READ, or reports it as a finding.
func (r *rewriter) begin(p *part) {
	st := p.st
	if st.Tx.Verb != Begin {
		return
	}
	switch {
	case st.Tx.Isolation == Serializable && r.rules.Weaken:
		r.atRepeatableRead(p)
		st.Weakened = true
		r.find(handled(SerializableTx, Rewritten, Warning, weakened, st.Start))
	case st.Tx.Isolation == Serializable && r.rules.Dialect:
		r.find(found(SerializableTx, st.Start))
	case weaker[st.Tx.Isolation] && r.rules.Isolation:
		r.atRepeatableRead(p)
		r.find(handled(IsolationLevel, Rewritten, Info, "rewritten to REPEATABLE READ, which is stricter", st.Start))
	case weaker[st.Tx.Isolation] && r.rules.Dialect:
		r.find(off(IsolationLevel, st.Start))
	}
}

// weakened is Finding.Action for a SERIALIZABLE that runs as REPEATABLE READ.
const weakened = "taken for REPEATABLE READ, with a warning each time: write skew is possible"

// atRepeatableRead replaces the level of a BEGIN by REPEATABLE READ.
func (r *rewriter) atRepeatableRead(p *part) {
	ph := r.phrase(p)
	for i := range ph.Tokens {
		switch {
		case !ph.Word(i, "level"):
		case ph.Word(i+1, "serializable"):
			r.edit(ph.Replace(i+1, "REPEATABLE READ"))
		default:
			r.edit(ph.Replace(i+1, "REPEATABLE"), ph.Replace(i+2, "READ"))
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

// setIsolation answers or reports statements that set an isolation level: SET TRANSACTION, SET SESSION
// CHARACTERISTICS and the settings of a level.
func (r *rewriter) setIsolation(p *part) {
	st := p.st
	level, modes, ok := levelAsked(st)
	if r.readsByDefault(p) || !ok {
		return
	}
	weak := level == Serializable && r.rules.Weaken && r.rules.Isolation
	if weak && st.Tx.Verb != NoVerb {
		st.Tx.Isolation = RepeatableRead
	}
	switch {
	case level == Serializable && !weak:
		if r.rules.Dialect {
			r.find(found(SerializableTx, st.Start))
		}
	case modes:
		st.Weakened = weak
		if r.rules.Dialect {
			finding := found(TransactionMode, st.Start)
			if st.Tx.Verb == SetTransaction && st.Tx.Snapshot == "" {
				finding.Action = "goes into a BEGIN in front of it, and fails behind another statement"
			}
			r.find(finding)
		}
	case r.rules.Isolation:
		r.answerLevel(p, level, weak)
	case r.rules.Dialect:
		r.find(off(TransactionMode, st.Start))
	}
}

// levelAsked returns the isolation level that a statement sets. modes reports that the statement sets other
// transaction modes, too. ok is false for a statement that sets no level or mode.
func levelAsked(st *Statement) (level Isolation, modes, ok bool) {
	// READ WRITE has an effect only in a READ ONLY transaction.
	modes = st.Tx.ReadOnly || st.Tx.Snapshot != "" || st.Tx.ReadWrite && st.Tx.Verb == SetTransaction
	switch {
	case st.Tx.Verb == SetTransaction || st.Tx.Verb == SetSessionCharacteristics:
		return st.Tx.Isolation, modes, true
	case len(st.Changes) == 1 && levelSettings[st.Changes[0].Name] && st.Changes[0].SQL != "":
		level = isolations[strings.ToLower(st.Changes[0].Text)]
		return level, level == DefaultIsolation, true
	case len(st.Changes) == 1 && readOnlySettings[st.Changes[0].Name] && st.Changes[0].SQL != "" && !isOff(st.Changes[0].Text):
		return level, true, true
	case len(st.Changes) == 1 && st.Changes[0].Name == "default_transaction_isolation": // back to the default
		return RepeatableRead, false, true
	}
	return level, modes, false
}

// answerLevel answers a statement that sets an isolation level. weak reports that DSQL's level is weaker.
func (r *rewriter) answerLevel(p *part, level Isolation, weak bool) {
	ofBlock, tag := p.st.Tx.Verb == SetTransaction, "SET"
	if c := p.st.Changes; len(c) == 1 && c[0].Action == Reset && !c[0].Default {
		tag = "RESET"
	}
	r.answer(p, Answers, tag)
	p.st.OfBlock, p.st.Weakened = ofBlock, weak
	switch {
	case weak:
		r.find(handled(SerializableTx, Answered, Warning, weakened, p.st.Start))
	case level == DefaultIsolation:
		r.find(handled(TransactionMode, Answered, Info, atLeast, p.st.Start))
	default:
		r.find(handled(IsolationLevel, Answered, Info, atLeast, p.st.Start))
	}
}

// atLeast is Finding.Action for an isolation level that DSQL's level satisfies.
const atLeast = "answered: transactions on DSQL are at least so already"

// readOnlySettings are the settings that make transactions READ ONLY.
var readOnlySettings = map[string]bool{"default_transaction_read_only": true, "transaction_read_only": true}

// isOff reports whether text is a usual spelling of the boolean value off.
func isOff(text string) bool {
	switch strings.ToLower(text) {
	case "off", "false", "no", "0":
		return true
	}
	return false
}

// levelSettings are the settings that hold an isolation level.
var levelSettings = map[string]bool{"default_transaction_isolation": true, "transaction_isolation": true}
