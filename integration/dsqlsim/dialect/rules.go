package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// These are SQLSTATEs of refusals.
const (
	notSupported = "0A000" // feature_not_supported
	undefined    = "42704" // undefined_object
	mismatch     = "42804" // datatype_mismatch
	tooMuch      = "54000" // program_limit_exceeded
	noFunction   = "42883" // undefined_function
)

// checkedStatement is one statement with everything that the rules of the dialect need for their checks.
type checkedStatement struct {
	node  *pg.Node
	text  string  // the statement's own text
	async bool    // ASYNC stood in it
	clues clueSet // of the whole text
	// byteaKeys means that bytea is allowed in a key.
	byteaKeys bool
	// oldLocking is the value of Options.OldLocking. locked has the tables whose keys the catalog must check.
	oldLocking bool
	locked     []LockedTable
	// withoutEncode and domainChanges are copies of the fields WithoutEncode and DomainChanges of Options.
	withoutEncode, domainChanges   bool
	withoutDefaults, withoutOwners bool // of sequences
	jobs                           bool // they look at rows
}

// dialectRule checks one kind of node. check returns nil if the rule does not refuse the statement.
type dialectRule struct {
	evidence string
	check    func(*checkedStatement) *Refusal
}

// findRefusal applies the rules for the kind of the statement's node, and then the rules for every statement. It
// returns the first refusal.
func (q *checkedStatement) findRefusal() *Refusal {
	if e := q.node.GetExplainStmt(); e != nil {
		// EXPLAIN refuses a statement that DSQL would also refuse to run (presumed).
		inner := *q
		inner.node = e.Query
		refused := inner.findRefusal()
		q.locked = inner.locked
		return refused
	}
	name := nodeName(q.node)
	for _, r := range rules[name] {
		if refused := r.check(q); refused != nil {
			return refused
		}
	}
	if _, ok := supported[name]; !ok {
		return notSupportedRefusal("unsupported statement: " + strings.TrimSuffix(name, "Stmt"))
	}
	for _, r := range universalRules {
		if refused := r.check(q); refused != nil {
			return refused
		}
	}
	return nil
}

func notSupportedRefusal(message string) *Refusal { return &Refusal{notSupported, message} }

// alwaysRefused returns the rules of a node that is refused in any form.
func alwaysRefused(evidence, message string) []dialectRule {
	refused := notSupportedRefusal(message)
	return []dialectRule{{evidence, func(*checkedStatement) *Refusal { return refused }}}
}

// supported maps the nodes that DSQL runs, unless a rule refuses them, to their Kind. Evidence: the groups supported,
// queries, index, alters and environment (recorded); roles, grants, schemas and statistics (documented, "Supported
// SQL"). PREPARE, EXECUTE, DEALLOCATE and RESET ALL are presumed, because drivers that are documented to work send
// them.
var supported = map[string]Kind{
	"SelectStmt": Other, "ExplainStmt": Other, "VariableSetStmt": Other, "VariableShowStmt": Other,
	"PrepareStmt": Other, "ExecuteStmt": Other, "DeallocateStmt": Other, "CallStmt": Other,
	"ConstraintsSetStmt": Other, "VacuumStmt": Other, "TransactionStmt": Other,

	"InsertStmt": DML, "UpdateStmt": DML, "DeleteStmt": DML,

	"CreateStmt": DDL, "AlterTableStmt": DDL, "RenameStmt": DDL, "DropStmt": DDL, "IndexStmt": DDL,
	"ViewStmt": DDL, "CreateSeqStmt": DDL, "AlterSeqStmt": DDL, "CreateSchemaStmt": DDL,
	"CreateFunctionStmt": DDL, "AlterFunctionStmt": DDL, "CreateDomainStmt": DDL, "AlterDomainStmt": DDL,
	"CreateRoleStmt": DDL, "AlterRoleStmt": DDL, "AlterRoleSetStmt": DDL, "DropRoleStmt": DDL,
	"GrantStmt": DDL, "GrantRoleStmt": DDL, "AlterDefaultPrivilegesStmt": DDL,
	"AlterOwnerStmt": DDL, "AlterObjectSchemaStmt": DDL, "CommentStmt": DDL,
	"CreateStatsStmt": DDL, "AlterStatsStmt": DDL,
}

// rules maps the name of a parse node to its rules. A node that is neither in rules nor in supported is refused by
// the general pattern. That refusal is recorded for Truncate, CreateExtension, CreateTableSpace, CreateForeignTable,
// Notify, Unlisten, Listen, AlterSystem, CreateTableAs, CreatePolicy and Createdb. The refusal is documented for
// DeclareCursor and Lock, and presumed for the rest (Copy, Do, Discard, Fetch, ...).
var rules = map[string][]dialectRule{
	"TransactionStmt": {
		{"recorded: savepoint, rollback_to_savepoint; the others presumed", checkSavepoints},
		{"recorded: begin_serializable", checkBeginIsolation},
		{"documented: only AND NO CHAIN; text presumed", checkChain},
	},
	"VariableSetStmt": {
		{"presumed: as BEGIN says it (recorded: begin_serializable)", checkSetIsolation},
		{"recorded: aborted_txn_recovers_after_rollback, set_default_isolation; list documented", checkSettable},
	},
	"VariableShowStmt": {
		{"recorded: env_lc_collate", checkUnknownSetting},
	},
	"SelectStmt": {
		{"presumed: as CREATE TABLE AS, which it is", checkSelectInto},
	},
	"VacuumStmt": {
		{"recorded: vacuum (and q_analyze, which runs)", checkVacuum},
	},
	"CreateStmt": {
		{"recorded: the kinds of table", checkTableKind},
		{"recorded: serial_column, type_unsupported_*, identity_*", checkTableColumns},
		{"recorded: jsonb_index; bytea measured by several projects, 2026", checkKeyTypes},
		{"presumed, of a cluster that refuses what documents let it take; text presumed", checkSequenceDefaults},
	},
	"AlterTableStmt": {
		{"recorded: groups alters and backlog; documented: which sub-commands there are; wording of others presumed", checkAlterTable},
		{"presumed, as of CREATE TABLE", checkSequenceDefaults},
	},
	"IndexStmt": {
		{"recorded: create_index_sync; the clauses measured 2026-08; WITH, TABLESPACE presumed", checkCreateIndex},
	},
	"CreateSeqStmt": {
		{"recorded: create_sequence without CACHE; documented: bigint only, text presumed", checkCreateSequence},
	},
	"AlterSeqStmt": {
		{"documented: no AS, and CACHE as of CREATE SEQUENCE; texts presumed", checkAlterSequence},
	},
	"ViewStmt": {
		{"presumed, by CREATE TABLE", checkTemporaryView},
	},
	"DropStmt": {
		{"recorded: enum_drop_if_exists; documented: which objects can be made", checkDrop},
		{"measured, of GRANT: grant_usage_public", checkDropSystemSchema},
		{"measured: by others, 2026-10", checkDomainCascade},
	},
	"RenameStmt": {
		{"recorded: enum_alter_rename", checkRename},
	},
	"AlterOwnerStmt": {
		{"measured, of ALTER TYPE", checkAlterOwner},
	},
	"CreateFunctionStmt": {
		{"recorded: create_function_plpgsql; measured: PROCEDURE", checkCreateFunction},
	},
	"GrantStmt": {
		{"measured: grant_usage_public", checkSystemGrant},
	},

	"AlterDomainStmt": {
		{"measured: by others, 2026-10; presumed: the words", checkAlterDomain},
	},

	"MergeStmt":          alwaysRefused("recorded: q_merge", "unsupported statement type: MERGE"),
	"CreateTrigStmt":     alwaysRefused("recorded: create_trigger", "CREATE TRIGGER not supported"),
	"CreateEnumStmt":     alwaysRefused("recorded: enum_create_type", "CREATE TYPE not supported"),
	"AlterEnumStmt":      alwaysRefused("measured", "ALTER TYPE not supported"),
	"AlterTypeStmt":      alwaysRefused("measured", "ALTER TYPE not supported"),
	"RefreshMatViewStmt": alwaysRefused("presumed, by CREATE MATERIALIZED VIEW", "unsupported statement: RefreshMatView"),
}

// universalRules lists the rules that apply to every statement, at any depth.
var universalRules = []dialectRule{
	{"recorded: occ_for_share, occ_for_no_key_update", checkLockingClauses},
	{"documented, for clusters of early 2026 and before", checkOldLocking},
	{"documented: refused even for listed parameters; text measured", checkSetConfig},
	{"measured: refused with 0A000; text presumed", checkTablesample},
	{"measured: users' reports of pg_advisory_lock (golang-migrate 1289, atlas 3539); SQLSTATE presumed", checkAdvisoryLocks},
	{"recorded: q_geom_line, q_geom_circle", checkGeometry},
	{"recorded: q_fulltext_*", checkTextSearch},
	{"presumed, of a cluster that lacks them; text PostgreSQL's", checkEncoding},
	{"recorded: q_lateral_left_*", checkLateralOuter},
}

// kindOf returns the Kind of a statement, by its node.
func kindOf(node *pg.Node) Kind {
	if node.GetCopyStmt() != nil {
		return Copy
	}
	switch node.GetTransactionStmt().GetKind() {
	case pg.TransactionStmtKind_TRANS_STMT_BEGIN, pg.TransactionStmtKind_TRANS_STMT_START:
		return Begin
	case pg.TransactionStmtKind_TRANS_STMT_COMMIT:
		return Commit
	case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK:
		return Rollback
	}
	return supported[nodeName(node)]
}
