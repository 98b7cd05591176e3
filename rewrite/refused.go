package rewrite

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/bytea"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// refused maps statement types that DSQL refuses in every form to their features.
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

// refusedForms maps statement types that DSQL refuses in some forms to a feature, and a test for these forms.
var refusedForms = map[string]struct {
	feature Feature
	uses    func(m parse.Message) bool
}{
	"SelectStmt":         {TableAs, func(m parse.Message) bool { return m.Child("into_clause").Shape != nil }},
	"CreateFunctionStmt": {Procedural, func(m parse.Message) bool { return m.Flag("is_procedure") || !inSQL(m) }},
	"VacuumStmt":         {Vacuum, func(m parse.Message) bool { return m.Flag("is_vacuumcmd") }},
	"DropStmt": {UserType, func(m parse.Message) bool {
		return parse.ObjectType(m.Integer("remove_type")) == parse.OBJECT_TYPE
	}},
	"CommentStmt": {Extension, func(m parse.Message) bool {
		return parse.ObjectType(m.Integer("objtype")) == parse.OBJECT_EXTENSION
	}},
}

// dialect reports everything in a statement that DSQL refuses and no rule handles.
func (r *rewriter) dialect(p *part) {
	at, name, temp := p.st.Start, p.node.Name(), temporary(p)
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
		if parse.ObjectType(p.node.Integer("remove_type")) == parse.OBJECT_EXTENSION {
			r.find(found(Extension, at))
		}
	}
}

// refusedCalls reports refused constructs that may occur anywhere in a statement.
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

// hintCopy sets the hint for COPY TO STDOUT, which some clusters may refuse.
func hintCopy(p *part) {
	if p.st.Copy == CopyToClient && p.st.Hint == "" {
		p.st.Hint = hint("read the rows by SELECT: pg_dump does so with --inserts, and psql has \\g for the output")
	}
}

// temporary returns the feature of a statement about temporary objects of the session, or "". The feature
// replaces other findings, which would not exist without the temporary object. A function in an unsupported
// language is refused in any schema.
func temporary(p *part) Feature {
	m := p.node
	switch {
	case p.st.Pin != PinTemp:
		return ""
	case m.Is("CreateFunctionStmt"):
		if refusedForms["CreateFunctionStmt"].uses(m) {
			return ""
		}
		return TempFunction
	case m.Is("DropStmt") && isRoutine(parse.ObjectType(m.Integer("remove_type"))):
		return TempFunction
	}
	return TempTable
}

func isRoutine(kind parse.ObjectType) bool {
	switch kind {
	case parse.OBJECT_FUNCTION, parse.OBJECT_PROCEDURE, parse.OBJECT_ROUTINE, parse.OBJECT_AGGREGATE:
		return true
	}
	return false
}

// isTriggers reports whether a function is a trigger function, which DSQL supports in no language.
func isTriggers(function parse.Message) bool {
	names := function.Child("return_type").Names("names")
	return len(names) > 0 && (names[len(names)-1] == "trigger" || names[len(names)-1] == "event_trigger")
}

// refusedAlters reports the commands of an ALTER TABLE that DSQL refuses. VALIDATE CONSTRAINT needs ALTER TABLE ASYNC.
func (r *rewriter) refusedAlters(p *part) {
	if p.st.Constraints != nil || p.st.Commands != nil {
		return
	}
	var ph parse.Phrase
	for cmd := range p.node.List("cmds") {
		f := refusedAlter(cmd)
		if f == Validate && ph.Tokens == nil {
			ph = r.phrase(p)
		}
		if (f == AddColumn || f == AddSerial) && p.st.Alteration != nil || f == AlterType && p.st.Alteration != nil && p.st.Alteration.Retypes {
			continue
		}
		if f != "" && (f != Validate || !ph.Words(0, "alter", "table", "async")) {
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

// refusedTable reports the parts of a CREATE TABLE that DSQL refuses.
func (r *rewriter) refusedTable(p *part) {
	m, at := p.node, p.st.Start
	if m.Child("relation").Text("relpersistence") == "u" {
		r.find(found(UnloggedTable, at))
	}
	if m.Child("partspec").Shape != nil || m.Child("partbound").Shape != nil {
		r.find(found(Partitions, at))
	} else if m.Child("inh_relations").Shape != nil {
		r.find(found(Inheritance, at))
	}
	if m.Text("tablespacename") != "" {
		r.find(found(Tablespace, at))
	}
	types, made := map[string]string{}, &bytea.Table{}
	if r.names != nil {
		made = r.columns().TableMade(m)
	}
	for column := range m.List("table_elts") {
		if !column.Is("ColumnDef") {
			continue
		}
		kind := typeOf(column)
		if name := column.Text("colname"); !made.Maps(name) {
			types[name] = kind
		}
		r.refusedColumn(column, kind)
	}
	for constraint := range m.List("table_elts") {
		if constraint.Is("Constraint") {
			r.refusedKey(constraint, constraint.Names("keys"), types)
		}
	}
	for column := range m.List("table_elts") {
		if column.Is("ColumnDef") {
			name := []string{column.Text("colname")}
			for constraint := range column.List("constraints") {
				r.refusedKey(constraint, name, types)
			}
		}
	}
}

// typeOf returns the name of a column's type, with [] after an array's.
func typeOf(column parse.Message) string {
	kind := column.Child("type_name")
	names := kind.Names("names")
	if len(names) == 0 {
		return ""
	}
	name := names[len(names)-1]
	if kind.Child("array_bounds").Shape != nil {
		name += "[]"
	}
	return name
}

// refusedTypes are the builtin types that DSQL does not support for columns.
var refusedTypes = map[string]bool{"money": true, "xml": true, "inet": true, "cidr": true, "macaddr": true, "macaddr8": true,
	"point": true, "line": true, "lseg": true, "box": true, "path": true, "polygon": true, "circle": true, "tsvector": true,
	"tsquery": true, "int4range": true, "int8range": true, "numrange": true, "tsrange": true, "tstzrange": true,
	"daterange": true, "bit": true, "varbit": true, "pg_lsn": true}

func (r *rewriter) refusedColumn(column parse.Message, kind string) {
	at := column.Integer("location")
	if refusedTypes[kind] || strings.HasSuffix(kind, "[]") {
		r.find(found(ColumnType, at))
	}
	if column.Child("coll_clause").Shape != nil {
		r.find(found(Collation, at))
	}
}

// refusedKey reports an EXCLUDE constraint, or a key over bytea or jsonb columns.
func (r *rewriter) refusedKey(constraint parse.Message, keys []string, types map[string]string) {
	switch parse.ConstrType(constraint.Integer("contype")) {
	case parse.CONSTR_EXCLUSION:
		r.find(found(Exclusion, constraint.Integer("location")))
	case parse.CONSTR_PRIMARY, parse.CONSTR_UNIQUE:
		if slices.ContainsFunc(keys, func(k string) bool { return types[k] == "bytea" || types[k] == "jsonb" }) {
			r.find(found(ByteaKey, constraint.Integer("location")))
		}
	}
}

// inSQL reports whether a function's language is SQL.
func inSQL(function parse.Message) bool {
	for option := range function.List("options") {
		if option.Text("defname") == "language" {
			return strings.ToLower(option.Child("arg").Text("sval")) == "sql"
		}
	}
	return true
}

// refusedAlters maps the ALTER TABLE commands that DSQL refuses in every form to their features.
var refusedAlters = map[parse.AlterTableType]Feature{
	parse.AT_AlterColumnType:    AlterType,
	parse.AT_SetNotNull:         SetNotNullColumn,
	parse.AT_ValidateConstraint: Validate,
	parse.AT_EnableRowSecurity:  RowSecurity,
	parse.AT_ForceRowSecurity:   RowSecurity,
	parse.AT_AddInherit:         Inheritance,
	parse.AT_AttachPartition:    Partitions,
	parse.AT_DetachPartition:    Partitions,
	parse.AT_SetUnLogged:        UnloggedTable,
	parse.AT_SetTableSpace:      Tablespace,
}

// refusedAlter returns the feature of an ALTER TABLE command that DSQL refuses, or "".
func refusedAlter(cmd parse.Message) Feature {
	kind := parse.AlterTableType(cmd.Integer("subtype"))
	def := cmd.Child("def")
	switch kind {
	case parse.AT_AddColumn:
		if _, ok := serialOf(def); ok {
			return AddSerial
		}
		if name := typeOf(def); refusedTypes[name] || strings.HasSuffix(name, "[]") {
			return ColumnType
		}
		if identityOf(def).Shape != nil {
			return AddSerial
		}
		for constraint := range def.List("constraints") {
			if constraint.Integer("contype") != int(parse.CONSTR_NULL) && !onlyNullConstraints(def) {
				return AddColumn
			}
		}
	case parse.AT_AddConstraint:
		switch parse.ConstrType(def.Integer("contype")) {
		case parse.CONSTR_CHECK, parse.CONSTR_FOREIGN:
			if !def.Flag("skip_validation") {
				return AddConstraint
			}
		case parse.CONSTR_UNIQUE:
			if def.Text("indexname") == "" {
				return AddConstraint
			}
		case parse.CONSTR_PRIMARY:
			return AddPrimaryKey
		case parse.CONSTR_EXCLUSION:
			return Exclusion
		default:
			return AddConstraint
		}
	}
	return refusedAlters[kind]
}
