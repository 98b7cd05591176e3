package rewrite

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/bytea"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// refusedStatements maps statement types that DSQL refuses in every form to their features.
var refusedStatements = map[string]Feature{
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
	uses    func(m parse.TreeNode) bool
}{
	"SelectStmt":         {TableAs, func(m parse.TreeNode) bool { return m.Child("into_clause").Shape != nil }},
	"CreateFunctionStmt": {Procedural, func(m parse.TreeNode) bool { return m.Flag("is_procedure") || !isSQLFunction(m) }},
	"VacuumStmt":         {Vacuum, func(m parse.TreeNode) bool { return m.Flag("is_vacuumcmd") }},
	"DropStmt": {UserType, func(m parse.TreeNode) bool {
		return parse.ObjectType(m.Integer("remove_type")) == parse.OBJECT_TYPE
	}},
	"CommentStmt": {Extension, func(m parse.TreeNode) bool {
		return parse.ObjectType(m.Integer("objtype")) == parse.OBJECT_EXTENSION
	}},
}

// reportUnsupported reports everything in a statement that DSQL refuses and no rule handles.
func (r *rewriter) reportUnsupported(p *statementPart) {
	at, name, temp := p.st.Start, p.node.TypeName(), temporaryFeature(p)
	if f, ok := refusedStatements[name]; ok && (temp == "" || f != TableAs) {
		r.addFinding(refusedFinding(f, at))
		if name == "CreateEnumStmt" {
			p.st.Hint = r.enumHint(p.node)
		} else if name == "AlterEnumStmt" {
			p.st.Hint = r.alterEnumHint(p)
		}
	}
	r.reportRefusedCalls(p)
	r.rewriteSetRole(p)
	if temp != "" {
		r.addFinding(refusedFinding(temp, at))
	} else if form, ok := refusedForms[name]; ok && form.uses(p.node) {
		f := form.feature
		if name == "CreateFunctionStmt" && isTriggerFunction(p.node) {
			f = Trigger
		}
		r.addFinding(refusedFinding(f, at))
	}
	switch name {
	case "CopyStmt":
		setCopyHint(p)
	case "TransactionStmt":
		r.reportRefusedControl(p)
	case "CreateStmt":
		if temp == "" {
			r.reportRefusedTable(p)
		}
	case "CreateSchemaStmt":
		for within := range p.schemaMembers() {
			r.reportUnsupported(within)
		}
	case "AlterTableStmt":
		r.reportRefusedAlters(p)
	case "DropStmt":
		if parse.ObjectType(p.node.Integer("remove_type")) == parse.OBJECT_EXTENSION {
			r.addFinding(refusedFinding(Extension, at))
		}
	}
}

// reportRefusedCalls reports refused constructs that may occur anywhere in a statement.
func (r *rewriter) reportRefusedCalls(p *statementPart) {
	for _, used := range []struct {
		feature Feature
		is      bool
	}{{TableSample, p.samples}, {AdvisoryLock, p.advisory}, {SetConfig, p.config && p.st.SetConfigColumns == nil}} {
		if used.is {
			r.addFinding(refusedFinding(used.feature, p.st.Start))
		}
	}
}

// setCopyHint sets the hint for a COPY TO STDOUT, which some clusters may refuse.
func setCopyHint(p *statementPart) {
	if p.st.Copy == CopyToClient && p.st.Hint == "" {
		p.st.Hint = remedySentence("read the rows by SELECT: pg_dump does so with --inserts, and psql has \\g for the output")
	}
}

// temporaryFeature returns the feature of a statement about temporary objects of the session, or "". This feature
// replaces other findings, which would not exist without the temporary object. An exception is a function in an
// unsupported language, which is refused in any schema.
func temporaryFeature(p *statementPart) Feature {
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

// isTriggerFunction reports whether a function is a trigger function, which DSQL supports in no language.
func isTriggerFunction(function parse.TreeNode) bool {
	names := function.Child("return_type").Names("names")
	return len(names) > 0 && (names[len(names)-1] == "trigger" || names[len(names)-1] == "event_trigger")
}

// reportRefusedAlters reports the commands of an ALTER TABLE that DSQL refuses. VALIDATE CONSTRAINT needs ALTER TABLE
// ASYNC.
func (r *rewriter) reportRefusedAlters(p *statementPart) {
	if p.st.Constraints != nil || p.st.Commands != nil {
		return
	}
	var ph parse.TokenList
	for cmd := range p.node.List("cmds") {
		f := refusedAlterFeature(cmd)
		if f == Validate && ph.Tokens == nil {
			ph = r.statementTokens(p)
		}
		if (f == AddColumn || f == AddSerial) && p.st.Alteration != nil || f == AlterType && p.st.Alteration != nil && p.st.Alteration.Retypes {
			continue
		}
		if f != "" && (f != Validate || !ph.AreKeywords(0, "alter", "table", "async")) {
			r.addFinding(refusedFinding(f, p.st.Start))
		}
	}
}

func (r *rewriter) reportRefusedControl(p *statementPart) {
	switch p.st.Tx.Verb {
	case Savepoint, ReleaseSavepoint, RollbackTo:
		if !r.rules.Savepoints {
			r.addFinding(refusedFinding(SavepointUse, p.st.Start))
		}
	case PrepareTransaction, CommitPrepared, RollbackPrepared:
		r.addFinding(refusedFinding(TwoPhase, p.st.Start))
	case Commit, Rollback:
		if p.st.Tx.Chain {
			r.addFinding(refusedFinding(TwoPhase, p.st.Start))
		}
	}
}

// reportRefusedTable reports the parts of a CREATE TABLE that DSQL refuses.
func (r *rewriter) reportRefusedTable(p *statementPart) {
	m, at := p.node, p.st.Start
	if m.Child("relation").Text("relpersistence") == "u" {
		r.addFinding(refusedFinding(UnloggedTable, at))
	}
	if m.Child("partspec").Shape != nil || m.Child("partbound").Shape != nil {
		r.addFinding(refusedFinding(Partitions, at))
	} else if m.Child("inh_relations").Shape != nil {
		r.addFinding(refusedFinding(Inheritance, at))
	}
	if m.Text("tablespacename") != "" {
		r.addFinding(refusedFinding(Tablespace, at))
	}
	types, made := map[string]string{}, &bytea.MappedTable{}
	if r.names != nil {
		made = r.byteaMapping().TableFromCreate(m)
	}
	for column := range m.List("table_elts") {
		if !column.Is("ColumnDef") {
			continue
		}
		kind := columnTypeName(column)
		if name := column.Text("colname"); !made.IsMapped(name) {
			types[name] = kind
		}
		r.reportRefusedColumn(column, kind)
	}
	for constraint := range m.List("table_elts") {
		if constraint.Is("Constraint") {
			r.reportRefusedKey(constraint, constraint.Names("keys"), types)
		}
	}
	for column := range m.List("table_elts") {
		if column.Is("ColumnDef") {
			name := []string{column.Text("colname")}
			for constraint := range column.List("constraints") {
				r.reportRefusedKey(constraint, name, types)
			}
		}
	}
}

// columnTypeName returns the name of a column's type, with [] after an array's.
func columnTypeName(column parse.TreeNode) string {
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

func (r *rewriter) reportRefusedColumn(column parse.TreeNode, kind string) {
	at := column.Integer("location")
	if refusedTypes[kind] || strings.HasSuffix(kind, "[]") {
		r.addFinding(refusedFinding(ColumnType, at))
	}
	if column.Child("coll_clause").Shape != nil {
		r.addFinding(refusedFinding(Collation, at))
	}
}

// reportRefusedKey reports an EXCLUDE constraint, or a key over bytea or jsonb columns.
func (r *rewriter) reportRefusedKey(constraint parse.TreeNode, keys []string, types map[string]string) {
	switch parse.ConstrType(constraint.Integer("contype")) {
	case parse.CONSTR_EXCLUSION:
		r.addFinding(refusedFinding(Exclusion, constraint.Integer("location")))
	case parse.CONSTR_PRIMARY, parse.CONSTR_UNIQUE:
		if slices.ContainsFunc(keys, func(k string) bool { return types[k] == "bytea" || types[k] == "jsonb" }) {
			r.addFinding(refusedFinding(ByteaKey, constraint.Integer("location")))
		}
	}
}

// isSQLFunction reports whether a CREATE FUNCTION has the language SQL.
func isSQLFunction(function parse.TreeNode) bool {
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

// refusedAlterFeature returns the feature of an ALTER TABLE command that DSQL refuses, or "" for other commands.
func refusedAlterFeature(cmd parse.TreeNode) Feature {
	kind := parse.AlterTableType(cmd.Integer("subtype"))
	def := cmd.Child("def")
	switch kind {
	case parse.AT_AddColumn:
		if _, ok := serialType(def); ok {
			return AddSerial
		}
		if name := columnTypeName(def); refusedTypes[name] || strings.HasSuffix(name, "[]") {
			return ColumnType
		}
		if identityConstraint(def).Shape != nil {
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
