package rewrite

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// refused are the statements that DSQL refuses by their type alone.
var refused = map[string]Feature{
	"TruncateStmt": Truncate, "CreateExtensionStmt": Extension, "AlterExtensionStmt": Extension,
	"ReindexStmt": Reindex, "CreateTrigStmt": Trigger, "CreateEventTrigStmt": Trigger, "CreateTableAsStmt": TableAs, "RefreshMatViewStmt": TableAs,
	"DoStmt": Procedural, "CreatePLangStmt": Procedural,
	"CreateEnumStmt": UserType, "CompositeTypeStmt": UserType, "CreateRangeStmt": UserType, "AlterEnumStmt": UserType,
	"CreatePolicyStmt": RowSecurity, "AlterPolicyStmt": RowSecurity, "CreateTableSpaceStmt": Tablespace,
	"CreateForeignTableStmt": ForeignTable, "CreateFdwStmt": ForeignTable, "CreateForeignServerStmt": ForeignTable,
	"LockStmt": LockTable, "ListenStmt": ListenNotify, "NotifyStmt": ListenNotify, "UnlistenStmt": ListenNotify,
	"DeclareCursorStmt": CursorUse, "FetchStmt": CursorUse, "ClosePortalStmt": CursorUse,
	"MergeStmt": Merge, "AlterSystemStmt": AlterSystem,
}

// refusedForms are the statements that DSQL refuses in some forms only.
var refusedForms = map[string]struct {
	feature Feature
	uses    func(m message) bool
}{
	"SelectStmt":         {TableAs, func(m message) bool { return m.child("into_clause").shape != nil }},
	"CreateFunctionStmt": {Procedural, func(m message) bool { return m.flag("is_procedure") || !inSQL(m) }},
	"VacuumStmt":         {Vacuum, func(m message) bool { return m.flag("is_vacuumcmd") }},
	"DropStmt": {UserType, func(m message) bool {
		return pg_query.ObjectType(m.integer("remove_type")) == pg_query.ObjectType_OBJECT_TYPE
	}},
	"CommentStmt": {Extension, func(m message) bool {
		return pg_query.ObjectType(m.integer("objtype")) == pg_query.ObjectType_OBJECT_EXTENSION
	}},
}

// dialect finds what DSQL refuses of a statement and no rule handles.
func (r *rewriter) dialect(p *part) {
	at, name, temp := p.st.Start, p.node.name(), temporary(p)
	if f, ok := refused[name]; ok && (temp == "" || f != TableAs) {
		r.find(found(f, at))
		if name == "CreateEnumStmt" {
			p.st.Hint = r.enumHint(p.node)
		} else if name == "AlterEnumStmt" {
			p.st.Hint = r.alterEnumHint(p)
		}
	}
	r.refusedCalls(p)
	r.role(p)
	if temp != "" {
		r.find(found(temp, at))
	} else if form, ok := refusedForms[name]; ok && form.uses(p.node) {
		f := form.feature
		if name == "CreateFunctionStmt" && isTriggers(p.node) {
			f = Trigger
		}
		r.find(found(f, at))
	}
	switch name {
	case "CopyStmt":
		hintCopy(p)
	case "TransactionStmt":
		r.refusedControl(p)
	case "CreateStmt":
		if temp == "" {
			r.refusedTable(p)
		}
	case "CreateSchemaStmt":
		for within := range p.members() {
			r.dialect(within)
		}
	case "AlterTableStmt":
		r.refusedAlters(p)
	case "DropStmt":
		if pg_query.ObjectType(p.node.integer("remove_type")) == pg_query.ObjectType_OBJECT_EXTENSION {
			r.find(found(Extension, at))
		}
	}
}

// refusedCalls looks at what stands anywhere in a statement.
func (r *rewriter) refusedCalls(p *part) {
	for _, used := range []struct {
		feature Feature
		is      bool
	}{{TableSample, p.samples}, {AdvisoryLock, p.advisory}, {SetConfig, p.config && p.st.Told == nil}} {
		if used.is {
			r.find(found(used.feature, p.st.Start))
		}
	}
}

// hintCopy says what there is in the place of COPY TO STDOUT, for a cluster that refuses it: whether
// any does is not known.
func hintCopy(p *part) {
	if p.st.Copy == CopyToClient && p.st.Hint == "" {
		p.st.Hint = hint("read the rows by SELECT: pg_dump does so with --inserts, and psql has \\g for the output")
	}
}

// temporary is what a statement uses that is about the session's own objects; "" for nothing.
// It is told in the place of what the statement lacks besides: without the object there is
// none of that either. A function in a language that DSQL lacks is refused in any schema.
func temporary(p *part) Feature {
	m := p.node
	switch {
	case p.st.Pin != PinTemp:
		return ""
	case m.is("CreateFunctionStmt"):
		if refusedForms["CreateFunctionStmt"].uses(m) {
			return ""
		}
		return TempFunction
	case m.is("DropStmt") && isRoutine(pg_query.ObjectType(m.integer("remove_type"))):
		return TempFunction
	}
	return TempTable
}

func isRoutine(kind pg_query.ObjectType) bool {
	switch kind {
	case pg_query.ObjectType_OBJECT_FUNCTION, pg_query.ObjectType_OBJECT_PROCEDURE, pg_query.ObjectType_OBJECT_ROUTINE, pg_query.ObjectType_OBJECT_AGGREGATE:
		return true
	}
	return false
}

// isTriggers reports whether a function is one for triggers, which no language helps.
func isTriggers(function message) bool {
	names := function.child("return_type").names("names")
	return len(names) > 0 && (names[len(names)-1] == "trigger" || names[len(names)-1] == "event_trigger")
}

// refusedAlters looks at ALTER TABLE. VALIDATE CONSTRAINT is what DSQL has ALTER
// TABLE ASYNC for.
func (r *rewriter) refusedAlters(p *part) {
	if p.st.Constraints != nil || p.st.Commands != nil {
		return
	}
	var ph phrase
	for cmd := range p.node.list("cmds") {
		f := refusedAlter(cmd)
		if f == Validate && ph.tokens == nil {
			ph = r.phrase(p)
		}
		if (f == AddColumn || f == AddSerial) && p.st.Alteration != nil || f == AlterType && p.st.Alteration != nil && p.st.Alteration.Retypes {
			continue
		}
		if f != "" && (f != Validate || !ph.words(0, "alter", "table", "async")) {
			r.find(found(f, p.st.Start))
		}
	}
}

func (r *rewriter) refusedControl(p *part) {
	switch p.st.Tx.Verb {
	case Savepoint, ReleaseSavepoint, RollbackTo:
		if !r.rules.Savepoints {
			r.find(found(SavepointUse, p.st.Start))
		}
	case PrepareTransaction, CommitPrepared, RollbackPrepared:
		r.find(found(TwoPhase, p.st.Start))
	case Commit, Rollback:
		if p.st.Tx.Chain {
			r.find(found(TwoPhase, p.st.Start))
		}
	}
}

// refusedTable looks at CREATE TABLE.
func (r *rewriter) refusedTable(p *part) {
	m, at := p.node, p.st.Start
	if m.child("relation").text("relpersistence") == "u" {
		r.find(found(UnloggedTable, at))
	}
	if m.child("partspec").shape != nil || m.child("partbound").shape != nil {
		r.find(found(Partitions, at))
	} else if m.child("inh_relations").shape != nil {
		r.find(found(Inheritance, at))
	}
	if m.text("tablespacename") != "" {
		r.find(found(Tablespace, at))
	}
	types, made := map[string]string{}, &table{}
	if r.names != nil {
		made = r.tableMade(m)
	}
	for column := range m.list("table_elts") {
		if !column.is("ColumnDef") {
			continue
		}
		kind := typeOf(column)
		if name := column.text("colname"); !made.maps(name) {
			types[name] = kind
		}
		r.refusedColumn(column, kind)
	}
	for constraint := range m.list("table_elts") {
		if constraint.is("Constraint") {
			r.refusedKey(constraint, constraint.names("keys"), types)
		}
	}
	for column := range m.list("table_elts") {
		if column.is("ColumnDef") {
			name := []string{column.text("colname")}
			for constraint := range column.list("constraints") {
				r.refusedKey(constraint, name, types)
			}
		}
	}
}

// typeOf is the name of a column's type, with [] behind it for an array.
func typeOf(column message) string {
	kind := column.child("type_name")
	names := kind.names("names")
	if len(names) == 0 {
		return ""
	}
	name := names[len(names)-1]
	if kind.child("array_bounds").shape != nil {
		name += "[]"
	}
	return name
}

// refusedTypes are the builtin types that DSQL has no columns of.
var refusedTypes = map[string]bool{"money": true, "xml": true, "inet": true, "cidr": true, "macaddr": true, "macaddr8": true,
	"point": true, "line": true, "lseg": true, "box": true, "path": true, "polygon": true, "circle": true, "tsvector": true,
	"tsquery": true, "int4range": true, "int8range": true, "numrange": true, "tsrange": true, "tstzrange": true,
	"daterange": true, "bit": true, "varbit": true, "pg_lsn": true}

func (r *rewriter) refusedColumn(column message, kind string) {
	at := column.integer("location")
	if refusedTypes[kind] || strings.HasSuffix(kind, "[]") {
		r.find(found(ColumnType, at))
	}
	if column.child("coll_clause").shape != nil {
		r.find(found(Collation, at))
	}
}

// refusedKey looks at a constraint over columns.
func (r *rewriter) refusedKey(constraint message, keys []string, types map[string]string) {
	switch pg_query.ConstrType(constraint.integer("contype")) {
	case pg_query.ConstrType_CONSTR_EXCLUSION:
		r.find(found(Exclusion, constraint.integer("location")))
	case pg_query.ConstrType_CONSTR_PRIMARY, pg_query.ConstrType_CONSTR_UNIQUE:
		if slices.ContainsFunc(keys, func(k string) bool { return types[k] == "bytea" || types[k] == "jsonb" }) {
			r.find(found(ByteaKey, constraint.integer("location")))
		}
	}
}

// inSQL reports whether a function is written in SQL.
func inSQL(function message) bool {
	for option := range function.list("options") {
		if option.text("defname") == "language" {
			return strings.ToLower(option.child("arg").text("sval")) == "sql"
		}
	}
	return true
}

// refusedAlters are the commands of ALTER TABLE that DSQL refuses whatever they say.
var refusedAlters = map[pg_query.AlterTableType]Feature{
	pg_query.AlterTableType_AT_AlterColumnType:    AlterType,
	pg_query.AlterTableType_AT_SetNotNull:         SetNotNullColumn,
	pg_query.AlterTableType_AT_ValidateConstraint: Validate,
	pg_query.AlterTableType_AT_EnableRowSecurity:  RowSecurity,
	pg_query.AlterTableType_AT_ForceRowSecurity:   RowSecurity,
	pg_query.AlterTableType_AT_AddInherit:         Inheritance,
	pg_query.AlterTableType_AT_AttachPartition:    Partitions,
	pg_query.AlterTableType_AT_DetachPartition:    Partitions,
	pg_query.AlterTableType_AT_SetUnLogged:        UnloggedTable,
	pg_query.AlterTableType_AT_SetTableSpace:      Tablespace,
}

// refusedAlter is what DSQL refuses of one command of ALTER TABLE; "" for nothing.
func refusedAlter(cmd message) Feature {
	kind := pg_query.AlterTableType(cmd.integer("subtype"))
	def := cmd.child("def")
	switch kind {
	case pg_query.AlterTableType_AT_AddColumn:
		if _, ok := serialOf(def); ok {
			return AddSerial
		}
		if name := typeOf(def); refusedTypes[name] || strings.HasSuffix(name, "[]") {
			return ColumnType
		}
		if identityOf(def).shape != nil {
			return AddSerial
		}
		for constraint := range def.list("constraints") {
			if constraint.integer("contype") != int(pg_query.ConstrType_CONSTR_NULL) && !saysNothing(def) {
				return AddColumn
			}
		}
	case pg_query.AlterTableType_AT_AddConstraint:
		switch pg_query.ConstrType(def.integer("contype")) {
		case pg_query.ConstrType_CONSTR_CHECK, pg_query.ConstrType_CONSTR_FOREIGN:
			if !def.flag("skip_validation") {
				return AddConstraint
			}
		case pg_query.ConstrType_CONSTR_UNIQUE:
			if def.text("indexname") == "" {
				return AddConstraint
			}
		case pg_query.ConstrType_CONSTR_PRIMARY:
			return AddPrimaryKey
		case pg_query.ConstrType_CONSTR_EXCLUSION:
			return Exclusion
		default:
			return AddConstraint
		}
	}
	return refusedAlters[kind]
}
