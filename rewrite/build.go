package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// statementTrait holds the properties that all statements of one parser type share. A type that has no entry in
// statementTraits is DDL.
type statementTrait struct {
	kind StatementKind
	does LocalWork
	pin  PinReason
	// inert means that statements of the type store the queries that they contain, and do not run them. Writes and
	// function calls in these queries do not count.
	inert bool
}

var statementTraits = map[string]statementTrait{
	"SelectStmt":         {kind: Read},
	"InsertStmt":         {kind: Write},
	"UpdateStmt":         {kind: Write},
	"DeleteStmt":         {kind: Write},
	"MergeStmt":          {kind: Write},
	"TruncateStmt":       {kind: Write},
	"LockStmt":           {kind: Write},
	"NotifyStmt":         {kind: Write},
	"CheckPointStmt":     {kind: Write},
	"ConstraintsSetStmt": {kind: Write},
	"CopyStmt":           {kind: Read}, // analyze changes COPY FROM, and a COPY to or from a file, to Write
	"ExplainStmt":        {kind: Read}, // analyze gives EXPLAIN ANALYZE the kind of its statement
	"VariableShowStmt":   {kind: Read},
	"VariableSetStmt":    {kind: Setting, does: Sets},
	"DiscardStmt":        {kind: Setting, does: Sets},
	"DeallocateStmt":     {kind: Setting, does: Deallocates},
	"TransactionStmt":    {kind: Control, does: Ends},
	// A cursor has the kind of its query. The server locks rows at FETCH, not at DECLARE.
	"DeclareCursorStmt":  {kind: Read},
	"FetchStmt":          {kind: Write},
	"ClosePortalStmt":    {kind: Write},
	"PrepareStmt":        {kind: Write, pin: PinPrepare, inert: true},
	"ExecuteStmt":        {kind: Write, pin: PinPrepare},
	"ListenStmt":         {kind: Write, pin: PinListen},
	"UnlistenStmt":       {kind: Write},
	"LoadStmt":           {kind: Write, pin: PinLoad},
	"DoStmt":             {kind: DDL, pin: PinProcedural},
	"CallStmt":           {kind: DDL, pin: PinProcedural},
	"CreateStmt":         {kind: DDL, inert: true}, // the server runs DEFAULT expressions at INSERT
	"ViewStmt":           {kind: DDL, inert: true},
	"CreateFunctionStmt": {kind: DDL, inert: true},
	"RuleStmt":           {kind: DDL, inert: true},
}

// draftPlan returns the plan of a parsed text before any rewriting, and a statementPart for each statement.
func (p *Planner) draftPlan(sql string, tree parse.TreeNode) (*Plan, []statementPart) {
	plan, parts := buildPlan(sql, tree)
	for i := range parts {
		parts[i].st.Operation = statementOperation(parts[i].node, parts[i].st)
	}
	if len(parts) > 0 {
		plan.summarize()
	}
	return plan, parts
}

// buildPlan returns the plan of a parsed text, still without operation names, and a statementPart for each statement.
func buildPlan(sql string, tree parse.TreeNode) (*Plan, []statementPart) {
	plan := &Plan{}
	var parts []statementPart
	for raw := range tree.List("stmts") {
		part := statementPart{raw: raw, node: raw.Child("stmt")}
		st := planStatement(&part)
		st.Start = raw.Integer("stmt_location")
		st.End = len(sql)
		if n := raw.Integer("stmt_len"); n > 0 {
			st.End = st.Start + n
		}
		st.Start += leadingBlankLen(sql[st.Start:st.End])
		st.End = st.Start + len(strings.TrimRight(sql[st.Start:st.End], " \t\n\r\f\v"))
		plan.Statements = append(plan.Statements, st)
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return emptyPlan, nil
	}
	for i := range parts {
		parts[i].st = &plan.Statements[i]
	}
	plan.summarize()
	return plan, parts
}

// leadingBlankLen returns the length in bytes of the blanks and comments at the start of sql.
func leadingBlankLen(sql string) int {
	l := parse.Lexer{Text: []byte(sql)}
	l.SkipBlank()
	return l.Pos
}

// planStatement returns the plan of one statement without its offsets, and stores in p facts for the rewriting rules.
func planStatement(p *statementPart) Statement {
	m := p.node
	t, ok := statementTraits[m.TypeName()]
	if !ok {
		t.kind = DDL
	}
	st := Statement{Kind: t.kind, Does: t.does, Pin: t.pin}
	switch m.TypeName() {
	case "VariableSetStmt":
		st.recordSet(m)
	case "TransactionStmt":
		switch st.Tx = parseTransaction(m); st.Tx.Verb {
		case Begin:
			st.Does = Begins
		case Savepoint, ReleaseSavepoint, RollbackTo:
			st.Does = Saves
		}
	case "VariableShowStmt":
		st.Does, st.Show = Shows, strings.ToLower(m.Text("name"))
	case "DiscardStmt":
		if m.Integer("target") == int(parse.DISCARD_ALL) {
			st.Does, st.Changes = DiscardsAll, []SettingChange{{Action: DiscardAll}}
		}
	case "DeallocateStmt":
		if st.Deallocate = m.Text("name"); m.Flag("isall") {
			st.Does = DeallocatesAll
		}
	default:
		st.analyze(p, t.inert)
	}
	return st
}

// analyze sets those fields of st that depend on tables, function calls and clauses of the statement.
func (st *Statement) analyze(p *statementPart, inert bool) {
	m, modifies := p.node, false
	switch m.TypeName() {
	case "CopyStmt":
		file := m.Text("filename") != "" || m.Flag("is_program")
		switch {
		case m.Flag("is_from") && !file:
			st.Copy = CopyFromClient
		case !file:
			st.Copy = CopyToClient
		}
		if file || m.Flag("is_from") {
			st.Kind = Write
			modifies = m.Flag("is_from")
		}
	case "ExplainStmt":
		inert = !isExplainAnalyze(m)
	case "DeclareCursorStmt":
		if m.Integer("options")&cursorHold != 0 {
			st.Pin = PinHoldCursor
		}
	}
	a := analysis{kind: st.Kind, pin: st.Pin, inert: inert, modifies: modifies, prepares: m.Is("PrepareStmt")}
	a.recordObjects(m)
	a.visit(m)
	st.Kind, st.Pin, st.Tables, st.Contends, st.Calls = a.kind, a.pin, a.tableNames(), a.contends, a.calls
	st.Leaves = a.leaves
	if a.sets {
		st.Changes = []SettingChange{{Action: SetLocal}}
	}
	if st.sequence, st.Executes = a.sequence, a.executes; a.executes != "" {
		st.Does = Executes
	}
	st.demand = TxDemand{DDL: st.Kind == DDL && !m.Is("VacuumStmt"), Rows: a.modifies && !inert, Drops: dropsRows(m), Local: defersConstraints(m)}
	st.setsConfig, st.unsure = a.setsConfig, a.kind == Read && a.unsure && !a.inert
	st.Asks = a.settingsRead(m)
	st.setReadOnlyViolation(m, &a)
	p.writeCommand, p.readOnlyAllowed = st.writeCommand, st.readOnlyAllowed
	p.locked, p.samples, p.advisory, p.uuids, p.config = a.locked, a.samples, a.advisory, a.uuids, a.sets
	if m.Is("SelectStmt") && len(st.Asks) == 1 {
		st.markCurrentSetting(m)
	}
}

// isExplainAnalyze reports whether an EXPLAIN has ANALYZE, so that the server also runs the explained statement.
func isExplainAnalyze(m parse.TreeNode) bool {
	for option := range m.List("options") {
		if option.Text("defname") != "analyze" {
			continue
		}
		switch arg := option.Child("arg"); arg.TypeName() {
		case "String":
			switch strings.ToLower(arg.Text("sval")) {
			case "false", "off":
				continue
			}
		case "Integer":
			if arg.Integer("ival") == 0 {
				continue
			}
		}
		return true
	}
	return false
}
