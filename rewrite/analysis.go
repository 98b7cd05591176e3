package rewrite

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// analysis walks the tree of one statement and gathers what it may do.
type analysis struct {
	kind  Kind
	pin   Pin
	inert bool
	// contends: rows that exist are locked or changed.
	contends bool
	modifies bool // rows are changed
	tables   []tableRef
	// ctes are the names of WITH queries in sight; hidden counts them by name.
	ctes   []string
	hidden map[string]int

	calls, sets       bool            // of a function that may change settings; of set_config for the transaction
	locked            []parse.Message // queries with locking clauses
	samples, advisory bool            // TABLESAMPLE; an advisory lock
	uuids             bool            // uuid_generate_v4, of some schema
	setsConfig        bool            // set_config, or an EXECUTE that may
	unsure            bool            // see Plan.SureRead
	prepares          bool            // PREPARE: what it holds runs later
	sequence          string          // see Plan.Sequence
	questions         []question
	foreign           bool     // a function is called that is no builtin, or may write
	leaves            bool     // see Statement.Leaves
	draws             string   // a function that changes a sequence
	executes          string   // see Statement.Executes
	asked             []string // parameters, by current_setting
}

// tableRef is a table named in the text.
type tableRef struct {
	name string
	at   int // offset in the text
}

// functionPins are the functions that leave something in the session, by their
// plain names. set_config is a case of its own. Those that release an advisory
// lock are not here: whoever holds one is pinned.
var functionPins = map[string]Pin{
	"setseed":                     PinSeed,
	"pg_advisory_lock":            PinAdvisory,
	"pg_advisory_lock_shared":     PinAdvisory,
	"pg_try_advisory_lock":        PinAdvisory,
	"pg_try_advisory_lock_shared": PinAdvisory,
	// No view tells of these.
	"pg_backup_start":                     PinProcedural,
	"pg_start_backup":                     PinProcedural,
	"pg_replication_origin_session_setup": PinProcedural,
}

// traceless are builtins with effects that leave nothing at the backend, or only what the text
// tells: a lock that functionPins knows, a number of a sequence, a setting.
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

// visit walks m and everything under it. It recurses as deep as the guard let
// the text nest.
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
		return // its tables are names of FROM items
	case "RangeTableSample":
		a.samples = true
	case "IntoClause":
		a.raise(DDL)
	case "ExecuteStmt":
		a.raise(Write)
		a.pinned(PinPrepare) // also behind EXPLAIN
		if name := m.Text("name"); strings.HasPrefix(name, RelayName) {
			a.executes = name
		}
		a.setsConfig = true
	case "FuncCall":
		a.call(m)
	case "A_Indirection":
		// (x).f calls f(x) where x has no such field.
		for _, name := range m.Names("indirection") {
			a.function("", name, parse.Message{})
		}
	case "String":
		if isTemp(m.Text("sval")) {
			a.pinned(PinTemp) // pg_temp.name, wherever names are lists
		}
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		a.query(m)
		return
	}
	for child := range m.Nodes() {
		a.visit(child)
	}
}

// query walks a statement that may have WITH queries, which hide tables of the
// same name from each other and from the rest, but not from its target.
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
			a.pinned(PinSetConfig) // by a rule of the view
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

// hide puts a WITH query in front of the table of its name.
func (a *analysis) hide(name string) {
	if a.hidden == nil {
		a.hidden = map[string]int{}
	}
	a.hidden[name]++
	a.ctes = append(a.ctes, name)
}

// table notes a table. The target of a statement is never a WITH query.
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

// isTemp reports whether a schema is the session's own.
func isTemp(schema string) bool {
	return schema == "pg_temp" || strings.HasPrefix(schema, "pg_temp_")
}

// dropped notes the tables of a DROP, which stand in lists of names.
func (a *analysis) dropped(m parse.Message) {
	switch parse.ObjectType(m.Integer("remove_type")) {
	case parse.OBJECT_TABLE, parse.OBJECT_VIEW, parse.OBJECT_MATVIEW,
		parse.OBJECT_FOREIGN_TABLE, parse.OBJECT_SEQUENCE:
		for object := range m.List("objects") {
			a.tables = append(a.tables, tableRef{name: strings.Join(object.Names("items"), ".")})
		}
	}
}

// call judges a function call.
func (a *analysis) call(m parse.Message) {
	schema, name := "", ""
	switch names := m.Names("funcname"); len(names) {
	case 1:
		name = names[0]
	case 2:
		schema, name = names[0], names[1]
	default:
		schema = "?" // of another database: an error in PostgreSQL
	}
	a.uuids = a.uuids || name == generateV4
	a.function(schema, name, m)
}

// function judges a call of a function by its name; call may be absent.
func (a *analysis) function(schema, name string, call parse.Message) {
	if a.inert {
		if a.prepares && (schema == "" || schema == "pg_catalog") {
			a.asks(name, call)
		}
		return
	}
	if schema != "" && schema != "pg_catalog" {
		a.raise(Write)
		a.calls, a.foreign, a.leaves = true, true, true
		return
	}
	if parse.RoleNamed(name)&parse.Harmless == 0 {
		a.raise(Write)
		a.calls = a.calls || !settingless(name)
		a.foreign = a.foreign || !innocuous(name)
		a.leaves = a.leaves || !traceless[name]
	}
	if (name == "nextval" || name == "setval") && a.draws == "" {
		a.draws = name
	}
	a.asks(name, call)
	a.pinned(functionPins[name])
	if strings.HasPrefix(name, "pg_advisory_") || strings.HasPrefix(name, "pg_try_advisory_") {
		a.advisory = true
	}
	if name == "current_setting" && call.Shape != nil {
		a.asksFor(constant(call.Child("args")))
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

// isLocal reports whether a call of set_config surely ends with its transaction:
// its third argument is the constant true.
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

// names are the tables in order of appearance, each once.
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
