package rewrite

import (
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// trait is what the type of a statement alone tells of it. Types without an
// entry are DDL.
type trait struct {
	kind Kind
	pin  Pin
	// inert statements do not run what they hold: it counts neither as written
	// nor as called.
	inert bool
}

var traits = map[string]trait{
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
	"CopyStmt":           {kind: Read}, // from the client or a file: see analyze
	"ExplainStmt":        {kind: Read}, // with ANALYZE: see analyze
	"VariableShowStmt":   {kind: Read},
	"VariableSetStmt":    {kind: Setting},
	"DiscardStmt":        {kind: Setting},
	"DeallocateStmt":     {kind: Setting},
	"TransactionStmt":    {kind: Control},
	// A cursor is as strong as its query; what it locks, it locks at FETCH.
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
	"CreateStmt":         {kind: DDL, inert: true}, // defaults do not run yet
	"ViewStmt":           {kind: DDL, inert: true},
	"CreateFunctionStmt": {kind: DDL, inert: true},
	"RuleStmt":           {kind: DDL, inert: true},
}

// draft makes the plan of a parsed text, before any rule.
func (p *Planner) draft(sql string, tree message) (*Plan, []part) {
	plan, parts := build(sql, tree)
	for i := range parts {
		parts[i].st.Operation = operationOf(parts[i].node, parts[i].st)
	}
	if len(parts) > 0 {
		plan.sum()
	}
	return plan, parts
}

// build makes the plan of a parsed text, without names of operations.
func build(sql string, tree message) (*Plan, []part) {
	plan := &Plan{}
	var parts []part
	for raw := range tree.list("stmts") {
		part := part{raw: raw, node: raw.child("stmt")}
		st := statement(&part)
		st.Start = raw.integer("stmt_location")
		st.End = len(sql)
		if n := raw.integer("stmt_len"); n > 0 {
			st.End = st.Start + n
		}
		st.Start += blankBefore(sql[st.Start:st.End])
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
	plan.sum()
	return plan, parts
}

// blankBefore is the length of the white space and comments that sql begins with.
func blankBefore(sql string) int {
	l := lexer{text: []byte(sql)}
	l.skipBlank()
	return l.pos
}

// statement makes one statement of a plan, without its place, and notes in its
// part what rules need.
func statement(p *part) Statement {
	m := p.node
	t, ok := traits[m.name()]
	if !ok {
		t.kind = DDL
	}
	st := Statement{Kind: t.kind, Pin: t.pin}
	switch m.name() {
	case "VariableSetStmt":
		st.set(m)
	case "TransactionStmt":
		st.Tx = transaction(m)
	case "VariableShowStmt":
		st.Show = strings.ToLower(m.text("name"))
	case "DiscardStmt":
		if m.integer("target") == int(pg_query.DiscardMode_DISCARD_ALL) {
			st.Changes = []Change{{Action: DiscardAll}}
		}
	case "DeallocateStmt":
		st.Deallocate = m.text("name")
		st.DeallocateAll = m.flag("isall")
	default:
		st.analyze(p, t.inert)
	}
	return st
}

// analyze fills in what the tables, calls and clauses of a statement tell.
func (st *Statement) analyze(p *part, inert bool) {
	m, modifies := p.node, false
	switch m.name() {
	case "CopyStmt":
		file := m.text("filename") != "" || m.flag("is_program")
		switch {
		case m.flag("is_from") && !file:
			st.Copy = CopyFromClient
		case !file:
			st.Copy = CopyToClient
		}
		if file || m.flag("is_from") {
			st.Kind = Write
			modifies = m.flag("is_from")
		}
	case "ExplainStmt":
		inert = !explainAnalyze(m)
	case "DeclareCursorStmt":
		if m.integer("options")&cursorHold != 0 {
			st.Pin = PinHoldCursor
		}
	}
	a := analysis{kind: st.Kind, pin: st.Pin, inert: inert, modifies: modifies, prepares: m.is("PrepareStmt")}
	if m.is("DropStmt") {
		a.dropped(m)
	}
	a.visit(m)
	st.Kind, st.Pin, st.Tables, st.Contends, st.Calls = a.kind, a.pin, a.names(), a.contends, a.calls
	st.Leaves = a.leaves
	if a.sets {
		st.Changes = []Change{{Action: SetLocal}}
	}
	st.sequence, st.Executes = a.sequence, a.executes
	st.demand = Demand{DDL: st.Kind == DDL && !m.is("VacuumStmt"), Rows: a.modifies && !inert, Drops: destroys(m), Local: defers(m)}
	st.setsConfig, st.unsure = a.setsConfig, a.kind == Read && a.unsure && !a.inert
	st.Asks = a.settingsAsked(m)
	st.inReadOnly(m, &a)
	p.writes, p.neutral = st.writes, st.neutral
	p.locked, p.samples, p.advisory, p.uuids, p.config = a.locked, a.samples, a.advisory, a.uuids, a.sets
	if m.is("SelectStmt") && len(st.Asks) == 1 {
		st.shows(m)
	}
}

// explainAnalyze reports whether an EXPLAIN runs its statement.
func explainAnalyze(m message) bool {
	for option := range m.list("options") {
		if option.text("defname") != "analyze" {
			continue
		}
		switch arg := option.child("arg"); arg.name() {
		case "String":
			switch strings.ToLower(arg.text("sval")) {
			case "false", "off":
				continue
			}
		case "Integer":
			if arg.integer("ival") == 0 {
				continue
			}
		}
		return true
	}
	return false
}
