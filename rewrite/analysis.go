package rewrite

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
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

	calls, sets       bool      // of a function that may change settings; of set_config for the transaction
	locked            []message // queries with locking clauses
	samples, advisory bool      // TABLESAMPLE; an advisory lock
	uuids             bool      // uuid_generate_v4, of some schema
	setsConfig        bool      // set_config, or an EXECUTE that may
	unsure            bool      // see Plan.SureRead
	prepares          bool      // PREPARE: what it holds runs later
	sequence          string    // see Plan.Sequence
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

const onConflictUpdate = int(pg_query.OnConflictAction_ONCONFLICT_UPDATE)

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
func (a *analysis) visit(m message) {
	a.doubt(m)
	switch m.name() {
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
		if name := m.text("name"); strings.HasPrefix(name, RelayName) {
			a.executes = name
		}
		a.setsConfig = true
	case "FuncCall":
		a.call(m)
	case "A_Indirection":
		// (x).f calls f(x) where x has no such field.
		for _, name := range m.names("indirection") {
			a.function("", name, message{})
		}
	case "String":
		if isTemp(m.text("sval")) {
			a.pinned(PinTemp) // pg_temp.name, wherever names are lists
		}
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		a.query(m)
		return
	}
	for child := range m.nodes() {
		a.visit(child)
	}
}

// query walks a statement that may have WITH queries, which hide tables of the
// same name from each other and from the rest, but not from its target.
func (a *analysis) query(m message) {
	outer := len(a.ctes)
	target := message{}
	if !m.is("SelectStmt") {
		a.raise(Write)
		a.modifies = true
		if !m.is("InsertStmt") || m.child("on_conflict_clause").integer("action") == onConflictUpdate {
			a.contend()
		}
		target = m.child("relation")
		a.table(target, true)
		if m.is("UpdateStmt") && target.text("relname") == "pg_settings" && !a.inert {
			a.pinned(PinSetConfig) // by a rule of the view
			a.setsConfig = true
		}
	}
	if m.is("SelectStmt") && m.child("locking_clause").shape != nil {
		a.locked = append(a.locked, m)
	}
	with := m.child("with_clause")
	recursive := with.flag("recursive")
	for cte := range with.list("ctes") {
		if recursive {
			a.hide(cte.text("ctename"))
		}
	}
	for cte := range with.list("ctes") {
		a.visit(cte)
		if !recursive {
			a.hide(cte.text("ctename"))
		}
	}
	for child := range m.nodes() {
		if !child.is("WithClause") && !child.same(target) {
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
func (a *analysis) table(m message, target bool) {
	schema, name := m.text("schemaname"), m.text("relname")
	if m.text("relpersistence") == "t" || isTemp(schema) {
		a.pinned(PinTemp)
	}
	switch catalog := m.text("catalogname"); {
	case catalog != "":
		name = catalog + "." + schema + "." + name
	case schema != "":
		name = schema + "." + name
	case !target && a.hidden[name] > 0:
		return
	}
	a.tables = append(a.tables, tableRef{name, m.integer("location")})
}

// isTemp reports whether a schema is the session's own.
func isTemp(schema string) bool {
	return schema == "pg_temp" || strings.HasPrefix(schema, "pg_temp_")
}

// dropped notes the tables of a DROP, which stand in lists of names.
func (a *analysis) dropped(m message) {
	switch pg_query.ObjectType(m.integer("remove_type")) {
	case pg_query.ObjectType_OBJECT_TABLE, pg_query.ObjectType_OBJECT_VIEW, pg_query.ObjectType_OBJECT_MATVIEW,
		pg_query.ObjectType_OBJECT_FOREIGN_TABLE, pg_query.ObjectType_OBJECT_SEQUENCE:
		for object := range m.list("objects") {
			a.tables = append(a.tables, tableRef{name: strings.Join(object.names("items"), ".")})
		}
	}
}

// call judges a function call.
func (a *analysis) call(m message) {
	schema, name := "", ""
	switch names := m.names("funcname"); len(names) {
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
func (a *analysis) function(schema, name string, call message) {
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
	if roles[name]&harmless == 0 {
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
	if name == "current_setting" && call.shape != nil {
		a.asksFor(constant(call.child("args")))
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
func isLocal(call message) bool {
	if call.shape == nil {
		return false
	}
	n := 0
	for arg := range call.list("args") {
		if n++; n == 3 {
			return arg.is("A_Const") && arg.child("boolval").flag("boolval")
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
