package rewrite

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// analysis collects the effects of one statement from its tree.
type analysis struct {
	kind  Kind
	pin   Pin
	inert bool
	// contends reports that the statement locks or changes existing rows.
	contends bool
	modifies bool // rows are changed
	tables   []tableRef
	// ctes are the names of the WITH queries in scope. hidden counts each name's occurrences in ctes.
	ctes   []string
	hidden map[string]int

	calls, sets       bool            // calls a function that may change settings; calls set_config with is_local true
	locked            []parse.Message // queries with locking clauses
	samples, advisory bool            // uses TABLESAMPLE; takes an advisory lock
	uuids             bool            // calls uuid_generate_v4 of any schema
	setsConfig        bool            // calls set_config, or executes a prepared statement that may
	unsure            bool            // the statement may run a user's function (Plan.SureRead)
	prepares          bool            // the statement is a PREPARE, whose query runs later
	sequence          string          // the sequence state that the statement reads, for Plan.Sequence
	questions         []question
	callsUnknown      bool     // calls a function that is no builtin or may write
	leaves            bool     // for Statement.Leaves: calls a function that may leave state at the backend
	advances          string   // the first called function that advances a sequence
	executes          string   // for Statement.Executes: the name of a statement that Sluice may have prepared
	parameters        []string // parameters that current_setting reads
}

// tableRef is a table that the text of a statement names.
type tableRef struct {
	name string
	at   int // offset in the text
}

// functionPins maps the names of functions that leave state in the session to their pins. set_config is handled
// apart. Unlock functions are missing because a session that holds an advisory lock is pinned already.
var functionPins = map[string]Pin{
	"setseed":                     PinSeed,
	"pg_advisory_lock":            PinAdvisory,
	"pg_advisory_lock_shared":     PinAdvisory,
	"pg_try_advisory_lock":        PinAdvisory,
	"pg_try_advisory_lock_shared": PinAdvisory,
	// No view of the server shows the state that these functions leave.
	"pg_backup_start":                     PinProcedural,
	"pg_start_backup":                     PinProcedural,
	"pg_replication_origin_session_setup": PinProcedural,
}

// traceless are builtin functions with side effects that leave no hidden state at the backend. The locks,
// sequence numbers and settings that some of them leave show in the text.
var traceless = map[string]bool{
	"nextval": true, "setval": true, "currval": true, "lastval": true, "setseed": true, "set_config": true,
	"pg_notify": true, "pg_sleep": true, "pg_sleep_for": true, "pg_sleep_until": true,
	"pg_advisory_lock": true, "pg_advisory_lock_shared": true, "pg_try_advisory_lock": true, "pg_try_advisory_lock_shared": true,
	"pg_advisory_xact_lock": true, "pg_advisory_xact_lock_shared": true, "pg_try_advisory_xact_lock": true,
	"pg_try_advisory_xact_lock_shared": true, "pg_advisory_unlock": true, "pg_advisory_unlock_shared": true, "pg_advisory_unlock_all": true,
	"pg_cancel_backend": true, "pg_terminate_backend": true, "txid_current": true, "pg_current_xact_id": true,
}

const onConflictUpdate = int(parse.ONCONFLICT_UPDATE)

func (a *analysis) raise(kind Kind) {
	if !a.inert {
		a.kind = max(a.kind, kind)
	}
}

func (a *analysis) contend() { a.contends = a.contends || !a.inert }

func (a *analysis) pinned(why Pin) {
	if a.pin == NoPin {
		a.pin = why
	}
}

// visit walks m and all its descendants. Its recursion is bounded by the guard's limit of nesting.
func (a *analysis) visit(m parse.Message) {
	a.doubt(m)
	switch m.Name() {
	case "RangeVar":
		a.table(m, false)
		return
	case "A_Const":
		return
	case "LockingClause":
		a.raise(Write)
		a.contend()
		return // FOR UPDATE OF names items of FROM, not tables
	case "RangeTableSample":
		a.samples = true
	case "IntoClause":
		a.raise(DDL)
	case "ExecuteStmt":
		a.raise(Write)
		a.pinned(PinPrepare) // also in EXPLAIN EXECUTE
		if name := m.Text("name"); strings.HasPrefix(name, RelayName) {
			a.executes = name
		}
		a.setsConfig = true
	case "FuncCall":
		a.call(m)
	case "A_Indirection":
		// The expression (x).f calls function f if x has no field f.
		for _, name := range m.Names("indirection") {
			a.function("", name, parse.Message{})
		}
	case "String":
		if isTemp(m.Text("sval")) {
			a.pinned(PinTemp) // a name in pg_temp, which may occur in any list of names
		}
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		a.query(m)
		return
	}
	for child := range m.Nodes() {
		a.visit(child)
	}
}

// query walks a statement that may have WITH queries. A WITH query hides the table of its name in the statement
// and in other WITH queries. The target of an INSERT, UPDATE or DELETE is never hidden.
func (a *analysis) query(m parse.Message) {
	outer := len(a.ctes)
	target := parse.Message{}
	if !m.Is("SelectStmt") {
		a.raise(Write)
		a.modifies = true
		if !m.Is("InsertStmt") || m.Child("on_conflict_clause").Integer("action") == onConflictUpdate {
			a.contend()
		}
		target = m.Child("relation")
		a.table(target, true)
		if m.Is("UpdateStmt") && target.Text("relname") == "pg_settings" && !a.inert {
			a.pinned(PinSetConfig) // the view's rule calls set_config
			a.setsConfig = true
		}
	}
	if m.Is("SelectStmt") && m.Child("locking_clause").Shape != nil {
		a.locked = append(a.locked, m)
	}
	with := m.Child("with_clause")
	recursive := with.Flag("recursive")
	for cte := range with.List("ctes") {
		if recursive {
			a.hide(cte.Text("ctename"))
		}
	}
	for cte := range with.List("ctes") {
		a.visit(cte)
		if !recursive {
			a.hide(cte.Text("ctename"))
		}
	}
	for child := range m.Nodes() {
		if !child.Is("WithClause") && !child.Same(target) {
			a.visit(child)
		}
	}
	for _, name := range a.ctes[outer:] {
		a.hidden[name]--
	}
	a.ctes = a.ctes[:outer]
}

// hide adds a WITH query to the scope, where it hides the table of its name.
func (a *analysis) hide(name string) {
	if a.hidden == nil {
		a.hidden = map[string]int{}
	}
	a.hidden[name]++
	a.ctes = append(a.ctes, name)
}

// table records a table of the statement. With target, the name is never that of a WITH query.
func (a *analysis) table(m parse.Message, target bool) {
	schema, name := m.Text("schemaname"), m.Text("relname")
	if m.Text("relpersistence") == "t" || isTemp(schema) {
		a.pinned(PinTemp)
	}
	switch catalog := m.Text("catalogname"); {
	case catalog != "":
		name = catalog + "." + schema + "." + name
	case schema != "":
		name = schema + "." + name
	case !target && a.hidden[name] > 0:
		return
	}
	a.tables = append(a.tables, tableRef{name, m.Integer("location")})
}

// isTemp reports whether a schema holds the temporary objects of a session.
func isTemp(schema string) bool {
	return schema == "pg_temp" || strings.HasPrefix(schema, "pg_temp_")
}

// dropped records the relations that a DROP names.
func (a *analysis) dropped(m parse.Message) {
	switch parse.ObjectType(m.Integer("remove_type")) {
	case parse.OBJECT_TABLE, parse.OBJECT_VIEW, parse.OBJECT_MATVIEW,
		parse.OBJECT_FOREIGN_TABLE, parse.OBJECT_SEQUENCE:
		for object := range m.List("objects") {
			a.tables = append(a.tables, tableRef{name: strings.Join(object.Names("items"), ".")})
		}
	}
}

// call records the effects of a function call.
func (a *analysis) call(m parse.Message) {
	schema, name := "", ""
	switch names := m.Names("funcname"); len(names) {
	case 1:
		name = names[0]
	case 2:
		schema, name = names[0], names[1]
	default:
		schema = "?" // a call with a database name is an error in PostgreSQL
	}
	a.uuids = a.uuids || name == generateV4
	a.function(schema, name, m)
}

// function records the effects of calling a function. call is absent for the notation (x).f.
func (a *analysis) function(schema, name string, call parse.Message) {
	if a.inert {
		if a.prepares && (schema == "" || schema == "pg_catalog") {
			a.recordSequenceCall(name, call)
		}
		return
	}
	if schema != "" && schema != "pg_catalog" {
		a.raise(Write)
		a.calls, a.callsUnknown, a.leaves = true, true, true
		return
	}
	if parse.RoleNamed(name)&parse.Harmless == 0 {
		a.raise(Write)
		a.calls = a.calls || !settingless(name)
		a.callsUnknown = a.callsUnknown || !innocuous(name)
		a.leaves = a.leaves || !traceless[name]
	}
	if (name == "nextval" || name == "setval") && a.advances == "" {
		a.advances = name
	}
	a.recordSequenceCall(name, call)
	a.pinned(functionPins[name])
	if strings.HasPrefix(name, "pg_advisory_") || strings.HasPrefix(name, "pg_try_advisory_") {
		a.advisory = true
	}
	if name == "current_setting" && call.Shape != nil {
		a.recordParameter(constant(call.Child("args")))
	}
	if name == "set_config" {
		a.setsConfig = true
		if a.sets = true; !isLocal(call) {
			a.pinned(PinSetConfig)
		}
	}
}

// settingless reports whether a function with side effects is known to change no setting.
func settingless(name string) bool {
	switch name {
	case "nextval", "setval", "currval", "lastval", "setseed":
		return true
	}
	return strings.HasPrefix(name, "pg_") || strings.HasPrefix(name, "lo_") || strings.HasPrefix(name, "txid_")
}

// isLocal reports whether a call of set_config ends with its transaction: its third argument is the constant TRUE.
func isLocal(call parse.Message) bool {
	if call.Shape == nil {
		return false
	}
	n := 0
	for arg := range call.List("args") {
		if n++; n == 3 {
			return arg.Is("A_Const") && arg.Child("boolval").Flag("boolval")
		}
	}
	return false
}

// names returns the recorded tables in text order and without duplicates.
func (a *analysis) names() []string {
	slices.SortStableFunc(a.tables, func(x, y tableRef) int { return x.at - y.at })
	var names []string
	seen := make(map[string]bool, len(a.tables))
	for _, t := range a.tables {
		if !seen[t.name] {
			seen[t.name] = true
			names = append(names, t.name)
		}
	}
	return names
}
