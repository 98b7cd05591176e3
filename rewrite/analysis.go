package rewrite

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// analysis collects the effects of one statement from its tree.
type analysis struct {
	kind  StatementKind
	pin   PinReason
	inert bool
	// contends reports that the statement locks or changes existing rows.
	contends bool
	modifies bool // the statement changes rows
	tables   []tableRef
	// ctes are the names of the WITH queries in scope at the visited node. hidden counts the WITH queries of each name.
	ctes   []string
	hidden map[string]int

	calls, sets       bool             // calls a function that may change settings; calls a set_config that is local
	locked            []parse.TreeNode // queries with locking clauses
	samples, advisory bool             // uses TABLESAMPLE; takes an advisory lock
	uuids             bool             // calls uuid_generate_v4 of any schema
	setsConfig        bool             // calls set_config, or executes a prepared statement that may
	unsure            bool             // the statement may run a function of a user (Plan.IsSureRead)
	prepares          bool             // the statement is a PREPARE, whose query runs later
	sequence          string           // the sequence state that the statement reads, such as currval (Plan.Sequence)
	questions         []sequenceStateCall
	callsUnknown      bool     // calls a function that is not builtin, or that may write
	leaves            bool     // for Statement.Leaves: calls a function that may leave state at the backend
	advances          string   // the first function in the statement that advances a sequence
	executes          string   // for Statement.Executes: the name of a statement that Sluice may have prepared
	parameters        []string // settings that current_setting reads
}

// tableRef is a table that the text of a statement names.
type tableRef struct {
	name string
	at   int // offset in the text
}

// functionPins maps functions that leave state in the session to the PinReason for which the session must keep its
// backend. recordFunction handles set_config separately. Unlock functions need no entry, because an advisory lock
// already pins the session.
var functionPins = map[string]PinReason{
	"setseed":                     PinSeed,
	"pg_advisory_lock":            PinAdvisory,
	"pg_advisory_lock_shared":     PinAdvisory,
	"pg_try_advisory_lock":        PinAdvisory,
	"pg_try_advisory_lock_shared": PinAdvisory,
	// Functions with PinProcedural leave state that no view of the server shows.
	"pg_backup_start":                     PinProcedural,
	"pg_start_backup":                     PinProcedural,
	"pg_replication_origin_session_setup": PinProcedural,
}

// statelessFuncs are builtin functions with side effects that leave no hidden state at the backend. Some leave locks,
// sequence numbers or settings, which the statement's text shows.
var statelessFuncs = map[string]bool{
	"nextval": true, "setval": true, "currval": true, "lastval": true, "setseed": true, "set_config": true,
	"pg_notify": true, "pg_sleep": true, "pg_sleep_for": true, "pg_sleep_until": true,
	"pg_advisory_lock": true, "pg_advisory_lock_shared": true, "pg_try_advisory_lock": true, "pg_try_advisory_lock_shared": true,
	"pg_advisory_xact_lock": true, "pg_advisory_xact_lock_shared": true, "pg_try_advisory_xact_lock": true,
	"pg_try_advisory_xact_lock_shared": true, "pg_advisory_unlock": true, "pg_advisory_unlock_shared": true, "pg_advisory_unlock_all": true,
	"pg_cancel_backend": true, "pg_terminate_backend": true, "txid_current": true, "pg_current_xact_id": true,
}

const onConflictUpdate = int(parse.ONCONFLICT_UPDATE)

func (a *analysis) raiseKind(kind StatementKind) {
	if !a.inert {
		a.kind = max(a.kind, kind)
	}
}

func (a *analysis) markContending() { a.contends = a.contends || !a.inert }

func (a *analysis) setPin(why PinReason) {
	if a.pin == NoPin {
		a.pin = why
	}
}

// visit walks the node m and all its descendants. parse.CheckLimits limits the nesting, and so the recursion.
func (a *analysis) visit(m parse.TreeNode) {
	a.markIfUnsure(m)
	switch m.TypeName() {
	case "RangeVar":
		a.recordTable(m, false)
		return
	case "A_Const":
		return
	case "LockingClause":
		a.raiseKind(Write)
		a.markContending()
		return // FOR UPDATE OF names items of FROM, which may be aliases and no tables
	case "RangeTableSample":
		a.samples = true
	case "IntoClause":
		a.raiseKind(DDL)
	case "ExecuteStmt":
		a.raiseKind(Write)
		a.setPin(PinPrepare) // also in EXPLAIN EXECUTE
		if name := m.Text("name"); strings.HasPrefix(name, RelayName) {
			a.executes = name
		}
		a.setsConfig = true
	case "FuncCall":
		a.recordCall(m)
	case "A_Indirection":
		// In (x).f, f is a function if x has no field f.
		for _, name := range m.Names("indirection") {
			a.recordFunction("", name, parse.TreeNode{})
		}
	case "String":
		if isTemp(m.Text("sval")) {
			a.setPin(PinTemp) // a name in the schema pg_temp, which may occur in any list of names
		}
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		a.visitQuery(m)
		return
	}
	for child := range m.Children() {
		a.visit(child)
	}
}

// visitQuery walks a statement that may have WITH queries. A WITH query hides the table of the same name in the
// statement and in other WITH queries. It never hides the target of an INSERT, UPDATE or DELETE.
func (a *analysis) visitQuery(m parse.TreeNode) {
	outer := len(a.ctes)
	target := parse.TreeNode{}
	if !m.Is("SelectStmt") {
		a.raiseKind(Write)
		a.modifies = true
		if !m.Is("InsertStmt") || m.Child("on_conflict_clause").Integer("action") == onConflictUpdate {
			a.markContending()
		}
		target = m.Child("relation")
		a.recordTable(target, true)
		if m.Is("UpdateStmt") && target.Text("relname") == "pg_settings" && !a.inert {
			a.setPin(PinSetConfig) // an UPDATE of the view pg_settings calls set_config
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
			a.hideTable(cte.Text("ctename"))
		}
	}
	for cte := range with.List("ctes") {
		a.visit(cte)
		if !recursive {
			a.hideTable(cte.Text("ctename"))
		}
	}
	for child := range m.Children() {
		if !child.Is("WithClause") && !child.IsSameNode(target) {
			a.visit(child)
		}
	}
	for _, name := range a.ctes[outer:] {
		a.hidden[name]--
	}
	a.ctes = a.ctes[:outer]
}

// hideTable records that a WITH query of this name is in scope. It hides the table of the same name.
func (a *analysis) hideTable(name string) {
	if a.hidden == nil {
		a.hidden = map[string]int{}
	}
	a.hidden[name]++
	a.ctes = append(a.ctes, name)
}

// recordTable records a table of the statement. target means that the statement writes the table, so that no WITH query
// hides it.
func (a *analysis) recordTable(m parse.TreeNode, target bool) {
	schema, name := m.Text("schemaname"), m.Text("relname")
	if m.Text("relpersistence") == "t" || isTemp(schema) {
		a.setPin(PinTemp)
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

// isTemp reports whether the schema contains the temporary objects of a session.
func isTemp(schema string) bool {
	return schema == "pg_temp" || strings.HasPrefix(schema, "pg_temp_")
}

// recordObjects records the relations that a DROP names, or the relation of the column that a COMMENT ON COLUMN names.
func (a *analysis) recordObjects(m parse.TreeNode) {
	switch m.TypeName() {
	case "DropStmt":
		switch parse.ObjectType(m.Integer("remove_type")) {
		case parse.OBJECT_TABLE, parse.OBJECT_VIEW, parse.OBJECT_MATVIEW, parse.OBJECT_FOREIGN_TABLE, parse.OBJECT_SEQUENCE:
			for object := range m.List("objects") {
				a.tables = append(a.tables, tableRef{name: strings.Join(object.Names("items"), ".")})
			}
		}
	case "CommentStmt":
		if parse.ObjectType(m.Integer("objtype")) != parse.OBJECT_COLUMN {
			return
		}
		if names := m.Child("object").Names("items"); len(names) > 1 {
			a.tables = append(a.tables, tableRef{name: strings.Join(names[:len(names)-1], ".")})
		}
	}
}

// recordCall records the effects that a function call has on the session and on rows.
func (a *analysis) recordCall(m parse.TreeNode) {
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
	a.recordFunction(schema, name, m)
}

// recordFunction records the effects of a function. call is the node of the call, and is absent for the notation (x).f.
func (a *analysis) recordFunction(schema, name string, call parse.TreeNode) {
	if a.inert {
		if a.prepares && (schema == "" || schema == "pg_catalog") {
			a.recordSequenceCall(name, call)
		}
		return
	}
	if schema != "" && schema != "pg_catalog" {
		a.raiseKind(Write)
		a.calls, a.callsUnknown, a.leaves = true, true, true
		return
	}
	if parse.RoleOfLowerWord(name)&parse.Harmless == 0 {
		a.raiseKind(Write)
		a.calls = a.calls || !changesNoSetting(name)
		a.callsUnknown = a.callsUnknown || !isAllowedReadOnly(name)
		a.leaves = a.leaves || !statelessFuncs[name]
	}
	if (name == "nextval" || name == "setval") && a.advances == "" {
		a.advances = name
	}
	a.recordSequenceCall(name, call)
	a.setPin(functionPins[name])
	if strings.HasPrefix(name, "pg_advisory_") || strings.HasPrefix(name, "pg_try_advisory_") {
		a.advisory = true
	}
	if name == "current_setting" && call.Shape != nil {
		a.recordParameter(settingNameConstant(call.Child("args")))
	}
	if name == "set_config" {
		a.setsConfig = true
		if a.sets = true; !isLocalSetConfig(call) {
			a.setPin(PinSetConfig)
		}
	}
}

// changesNoSetting reports whether the function, which has side effects, certainly changes no setting.
func changesNoSetting(name string) bool {
	switch name {
	case "nextval", "setval", "currval", "lastval", "setseed":
		return true
	}
	return strings.HasPrefix(name, "pg_") || strings.HasPrefix(name, "lo_") || strings.HasPrefix(name, "txid_")
}

// isLocalSetConfig reports whether a set_config call changes the setting only for its transaction. The call does if its
// third argument is the constant TRUE.
func isLocalSetConfig(call parse.TreeNode) bool {
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

// tableNames returns the recorded tables in text order and without duplicates.
func (a *analysis) tableNames() []string {
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
