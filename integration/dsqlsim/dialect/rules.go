package dialect

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// SQLSTATEs of refusals.
const (
	notSupported = "0A000" // feature_not_supported
	undefined    = "42704" // undefined_object
	mismatch     = "42804" // datatype_mismatch
	tooMuch      = "54000" // program_limit_exceeded
	noFunction   = "42883" // undefined_function
)

// question is one statement as the rules see it.
type question struct {
	node  *pg.Node
	text  string // the statement's own text
	async bool   // ASYNC stood in it
	clues clue   // of the whole text
	// byteaKeys allows bytea in a key.
	byteaKeys bool
	// oldLocking is Options.OldLocking. locked are the tables whose keys the catalog must check.
	oldLocking bool
	locked     []Locked
	// withoutEncode and domainChanges are the Options of these names.
	withoutEncode, domainChanges   bool
	withoutDefaults, withoutOwners bool // of sequences
	jobs                           bool // they look at rows
}

// rule checks one kind of node. check returns nil if the rule does not refuse the statement.
type rule struct {
	evidence string
	check    func(*question) *Refusal
}

// refusal applies the rules of the statement's node, then the rules for every statement, and returns the first refusal.
func (q *question) refusal() *Refusal {
	if e := q.node.GetExplainStmt(); e != nil {
		// Presumed: EXPLAIN refuses the same statements.
		inner := *q
		inner.node = e.Query
		refused := inner.refusal()
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
		return refuse("unsupported statement: " + strings.TrimSuffix(name, "Stmt"))
	}
	for _, r := range everywhere {
		if refused := r.check(q); refused != nil {
			return refused
		}
	}
	return nil
}

func refuse(message string) *Refusal { return &Refusal{notSupported, message} }

// always returns the rules of a node that is refused in any form.
func always(evidence, message string) []rule {
	refused := refuse(message)
	return []rule{{evidence, func(*question) *Refusal { return refused }}}
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

// rules maps the name of a parse node to its rules. A node that is neither here nor in supported is refused by the
// general pattern. That refusal is recorded for Truncate, CreateExtension, CreateTableSpace, CreateForeignTable,
// Notify, Unlisten, Listen, AlterSystem, CreateTableAs, CreatePolicy and Createdb. The refusal is documented for
// DeclareCursor and Lock, and presumed for the rest (Copy, Do, Discard, Fetch, ...).
var rules = map[string][]rule{
	"TransactionStmt": {
		{"recorded: savepoint, rollback_to_savepoint; the others presumed", savepoints},
		{"recorded: begin_serializable", isolation},
		{"documented: only AND NO CHAIN; text presumed", chain},
	},
	"VariableSetStmt": {
		{"presumed: as BEGIN says it (recorded: begin_serializable)", setIsolation},
		{"recorded: aborted_txn_recovers_after_rollback, set_default_isolation; list documented", settings},
	},
	"VariableShowStmt": {
		{"recorded: env_lc_collate", unknownSetting},
	},
	"SelectStmt": {
		{"presumed: as CREATE TABLE AS, which it is", selectInto},
	},
	"VacuumStmt": {
		{"recorded: vacuum (and q_analyze, which runs)", vacuum},
	},
	"CreateStmt": {
		{"recorded: the kinds of table", tableKind},
		{"recorded: serial_column, type_unsupported_*, identity_*", tableColumns},
		{"recorded: jsonb_index; bytea measured by several projects, 2026", keyTypes},
		{"presumed, of a cluster that refuses what documents let it take; text presumed", sequenceDefaults},
	},
	"AlterTableStmt": {
		{"recorded: groups alters and backlog; documented: which sub-commands there are; wording of others presumed", alterTable},
		{"presumed, as of CREATE TABLE", sequenceDefaults},
	},
	"IndexStmt": {
		{"recorded: create_index_sync; the clauses measured 2026-08; WITH, TABLESPACE presumed", indexForm},
	},
	"CreateSeqStmt": {
		{"recorded: create_sequence without CACHE; documented: bigint only, text presumed", sequence},
	},
	"AlterSeqStmt": {
		{"documented: no AS, and CACHE as of CREATE SEQUENCE; texts presumed", alterSequence},
	},
	"ViewStmt": {
		{"presumed, by CREATE TABLE", temporaryView},
	},
	"DropStmt": {
		{"recorded: enum_drop_if_exists; documented: which objects can be made", droppable},
		{"measured, of GRANT: grant_usage_public", systemSchema},
		{"measured: by others, 2026-10", domainCascade},
	},
	"RenameStmt": {
		{"recorded: enum_alter_rename", renamable},
	},
	"AlterOwnerStmt": {
		{"measured, of ALTER TYPE", ownedType},
	},
	"CreateFunctionStmt": {
		{"recorded: create_function_plpgsql; measured: PROCEDURE", function},
	},
	"GrantStmt": {
		{"measured: grant_usage_public", systemGrant},
	},

	"AlterDomainStmt": {
		{"measured: by others, 2026-10; presumed: the words", alterDomain},
	},

	"MergeStmt":          always("recorded: q_merge", "unsupported statement type: MERGE"),
	"CreateTrigStmt":     always("recorded: create_trigger", "CREATE TRIGGER not supported"),
	"CreateEnumStmt":     always("recorded: enum_create_type", "CREATE TYPE not supported"),
	"AlterEnumStmt":      always("measured", "ALTER TYPE not supported"),
	"AlterTypeStmt":      always("measured", "ALTER TYPE not supported"),
	"RefreshMatViewStmt": always("presumed, by CREATE MATERIALIZED VIEW", "unsupported statement: RefreshMatView"),
}

// everywhere lists the rules that apply to every statement, at any depth.
var everywhere = []rule{
	{"recorded: occ_for_share, occ_for_no_key_update", lockingClauses},
	{"documented, for clusters of early 2026 and before", oldLocking},
	{"documented: refused even for listed parameters; text measured", setConfigCalls},
	{"measured: refused with 0A000; text presumed", samples},
	{"measured: users' reports of pg_advisory_lock (golang-migrate 1289, atlas 3539); SQLSTATE presumed", advisory},
	{"recorded: q_geom_line, q_geom_circle", geometry},
	{"recorded: q_fulltext_*", textSearch},
	{"presumed, of a cluster that lacks them; text PostgreSQL's", encoding},
	{"recorded: q_lateral_left_*", lateralOuter},
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
