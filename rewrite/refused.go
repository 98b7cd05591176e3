package rewrite

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/alter"
	"github.com/sluice-proxy/sluice/rewrite/bytea"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// refusedStatements maps the statement types that DSQL refuses in every form to the features that they use.
var refusedStatements = map[string]finding.Feature{
	"TruncateStmt": finding.Truncate, "CreateExtensionStmt": finding.Extension, "AlterExtensionStmt": finding.Extension,
	"ReindexStmt": finding.Reindex, "CreateTrigStmt": finding.Trigger, "CreateEventTrigStmt": finding.Trigger, "CreateTableAsStmt": finding.TableAs, "RefreshMatViewStmt": finding.TableAs,
	"DoStmt": finding.Procedural, "CreatePLangStmt": finding.Procedural,
	"CreateEnumStmt": finding.UserType, "CompositeTypeStmt": finding.UserType, "CreateRangeStmt": finding.UserType, "AlterEnumStmt": finding.UserType,
	"CreatePolicyStmt": finding.RowSecurity, "AlterPolicyStmt": finding.RowSecurity, "CreateTableSpaceStmt": finding.Tablespace,
	"CreateForeignTableStmt": finding.ForeignTable, "CreateFdwStmt": finding.ForeignTable, "CreateForeignServerStmt": finding.ForeignTable,
	"LockStmt": finding.LockTable, "ListenStmt": finding.ListenNotify, "NotifyStmt": finding.ListenNotify, "UnlistenStmt": finding.ListenNotify,
	"DeclareCursorStmt": finding.CursorUse, "FetchStmt": finding.CursorUse, "ClosePortalStmt": finding.CursorUse,
	"MergeStmt": finding.Merge, "AlterSystemStmt": finding.AlterSystem,
}

// refusedForms maps statement types that DSQL refuses in some forms to a feature. uses reports whether a statement has
// one of these forms.
var refusedForms = map[string]struct {
	feature finding.Feature
	uses    func(m parse.TreeNode) bool
}{
	"SelectStmt":         {finding.TableAs, func(m parse.TreeNode) bool { return m.Child("into_clause").Shape != nil }},
	"CreateFunctionStmt": {finding.Procedural, func(m parse.TreeNode) bool { return m.Flag("is_procedure") || !isSQLFunction(m) }},
	"VacuumStmt":         {finding.Vacuum, func(m parse.TreeNode) bool { return m.Flag("is_vacuumcmd") }},
	"DropStmt": {finding.UserType, func(m parse.TreeNode) bool {
		return parse.ObjectType(m.Integer("remove_type")) == parse.OBJECT_TYPE
	}},
	"CommentStmt": {finding.Extension, func(m parse.TreeNode) bool {
		return parse.ObjectType(m.Integer("objtype")) == parse.OBJECT_EXTENSION
	}},
}

// reportUnsupported reports findings about everything in a statement that DSQL refuses and no rule handles.
func (r *rewriter) reportUnsupported(p *statementPart) {
	at, name, temp := p.st.Start, p.node.TypeName(), temporaryFeature(p)
	if f, ok := refusedStatements[name]; ok && (temp == "" || f != finding.TableAs) {
		r.addFinding(finding.Refused(f, at))
		if name == "CreateEnumStmt" {
			p.st.Hint = r.newDraft(p).CreateEnumHint()
		} else if name == "AlterEnumStmt" {
			p.st.Hint = r.newDraft(p).AlterEnumHint()
		}
	}
	r.reportRefusedCalls(p)
	r.rewriteSetRole(p)
	if temp != "" {
		r.addFinding(finding.Refused(temp, at))
	} else if form, ok := refusedForms[name]; ok && form.uses(p.node) {
		f := form.feature
		if name == "CreateFunctionStmt" && isTriggerFunction(p.node) {
			f = finding.Trigger
		}
		r.addFinding(finding.Refused(f, at))
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
		r.applyDraft(p, (*alter.Draft).ReportRefused)
	case "DropStmt":
		if parse.ObjectType(p.node.Integer("remove_type")) == parse.OBJECT_EXTENSION {
			r.addFinding(finding.Refused(finding.Extension, at))
		}
	}
}

// reportRefusedCalls reports findings about function calls and clauses that DSQL refuses wherever they occur.
func (r *rewriter) reportRefusedCalls(p *statementPart) {
	for _, used := range []struct {
		feature finding.Feature
		is      bool
	}{{finding.TableSample, p.samples}, {finding.AdvisoryLock, p.advisory}, {finding.SetConfig, p.config && p.st.SetConfigColumns == nil}} {
		if used.is {
			r.addFinding(finding.Refused(used.feature, p.st.Start))
		}
	}
}

// setCopyHint sets the hint for a COPY TO STDOUT, because some clusters may refuse it.
func setCopyHint(p *statementPart) {
	if p.st.Copy == CopyToClient && p.st.Hint == "" {
		p.st.Hint = finding.Sentence("read the rows by SELECT: pg_dump does so with --inserts, and psql has \\g for the output")
	}
}

// temporaryFeature returns the feature of a statement about temporary objects of the session, or "". The caller reports
// it in place of other findings, which are only due to the temporary object. For a function in an unsupported language
// the result is "", because DSQL refuses the function in any schema.
func temporaryFeature(p *statementPart) finding.Feature {
	m := p.node
	switch {
	case p.st.Pin != PinTemp:
		return ""
	case m.Is("CreateFunctionStmt"):
		if refusedForms["CreateFunctionStmt"].uses(m) {
			return ""
		}
		return finding.TempFunction
	case m.Is("DropStmt") && isRoutine(parse.ObjectType(m.Integer("remove_type"))):
		return finding.TempFunction
	}
	return finding.TempTable
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

func (r *rewriter) reportRefusedControl(p *statementPart) {
	switch p.st.Tx.Verb {
	case Savepoint, ReleaseSavepoint, RollbackTo:
		if !r.rules.Savepoints {
			r.addFinding(finding.Refused(finding.SavepointUse, p.st.Start))
		}
	case PrepareTransaction, CommitPrepared, RollbackPrepared:
		r.addFinding(finding.Refused(finding.TwoPhase, p.st.Start))
	case Commit, Rollback:
		if p.st.Tx.Chain {
			r.addFinding(finding.Refused(finding.TwoPhase, p.st.Start))
		}
	}
}

// reportRefusedTable reports findings about the parts of a CREATE TABLE that DSQL refuses.
func (r *rewriter) reportRefusedTable(p *statementPart) {
	m, at := p.node, p.st.Start
	if m.Child("relation").Text("relpersistence") == "u" {
		r.addFinding(finding.Refused(finding.UnloggedTable, at))
	}
	if m.Child("partspec").Shape != nil || m.Child("partbound").Shape != nil {
		r.addFinding(finding.Refused(finding.Partitions, at))
	} else if m.Child("inh_relations").Shape != nil {
		r.addFinding(finding.Refused(finding.Inheritance, at))
	}
	if m.Text("tablespacename") != "" {
		r.addFinding(finding.Refused(finding.Tablespace, at))
	}
	types, made := map[string]string{}, &bytea.MappedTable{}
	if r.names != nil {
		made = r.byteaMapping().TableFromCreate(m)
	}
	for column := range m.List("table_elts") {
		if !column.Is("ColumnDef") {
			continue
		}
		kind := parse.ColumnTypeName(column)
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

func (r *rewriter) reportRefusedColumn(column parse.TreeNode, kind string) {
	at := column.Integer("location")
	if finding.IsRefusedType(kind) {
		r.addFinding(finding.Refused(finding.ColumnType, at))
	}
	if column.Child("coll_clause").Shape != nil {
		r.addFinding(finding.Refused(finding.Collation, at))
	}
}

// reportRefusedKey reports a finding about an EXCLUDE constraint, or about a key over bytea or jsonb columns.
func (r *rewriter) reportRefusedKey(constraint parse.TreeNode, keys []string, types map[string]string) {
	switch parse.ConstrType(constraint.Integer("contype")) {
	case parse.CONSTR_EXCLUSION:
		r.addFinding(finding.Refused(finding.Exclusion, constraint.Integer("location")))
	case parse.CONSTR_PRIMARY, parse.CONSTR_UNIQUE:
		if slices.ContainsFunc(keys, func(k string) bool { return types[k] == "bytea" || types[k] == "jsonb" }) {
			r.addFinding(finding.Refused(finding.ByteaKey, constraint.Integer("location")))
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
