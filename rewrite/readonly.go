package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// PostgreSQL refuses some statements in a READ ONLY transaction. For a client with default_transaction_read_only,
// Sluice adds READ ONLY to each BEGIN, and the server checks the statements. A statement outside of a block has no
// BEGIN, so Sluice checks its text.

// ReadOnlyDefault is the setting that makes transactions READ ONLY by default.
const ReadOnlyDefault = "default_transaction_read_only"

// ReadOnlyViolation returns the command that PostgreSQL refuses in a READ ONLY transaction, as PostgreSQL's error names
// it: for example INSERT or nextval(). command is "" for an allowed statement. known is false if the text alone does
// not decide, for example because of a function or an EXECUTE. For reads of relations, see Plan.IsSureRead, too.
func (st *Statement) ReadOnlyViolation() (command string, known bool) {
	return st.writeCommand, st.writeCommand != "" || st.Kind <= Control || st.readOnlyAllowed
}

// setReadOnlyViolation sets the fields that ReadOnlyViolation returns. m is the statement, and a its analysis.
func (st *Statement) setReadOnlyViolation(m parse.TreeNode, a *analysis) {
	run := m
	switch m.TypeName() {
	case "ExplainStmt", "DeclareCursorStmt", "CopyStmt":
		if a.inert || m.Is("CopyStmt") && m.Child("query").Shape == nil {
			break
		}
		run = m.Child("query")
	}
	switch {
	case m.Is("CopyStmt") && m.Flag("is_from"):
		st.writeCommand = "COPY FROM"
	case readOnlyAllowedStmts[m.TypeName()], m.Is("ExplainStmt") && a.inert:
		st.readOnlyAllowed = true
	case run.Is("SelectStmt"):
		st.writeCommand = selectViolation(run, a)
		st.readOnlyAllowed = st.writeCommand == "" && !a.callsUnknown && len(a.tables) == 0
	default:
		st.writeCommand = commandName(run)
	}
}

// selectViolation returns the command for which PostgreSQL refuses a query in a READ ONLY transaction, or "".
func selectViolation(m parse.TreeNode, a *analysis) string {
	switch {
	case m.Child("into_clause").Shape != nil:
		return "SELECT INTO"
	case len(a.locked) > 0:
		for clause := range a.locked[0].List("locking_clause") {
			return "SELECT " + lockWords[parse.LockClauseStrength(clause.Integer("strength"))]
		}
	case a.modifies:
		return "SELECT"
	case a.advances != "":
		return a.advances + "()"
	}
	return ""
}

var lockWords = map[parse.LockClauseStrength]string{
	parse.LCS_FORKEYSHARE:    "FOR KEY SHARE",
	parse.LCS_FORSHARE:       "FOR SHARE",
	parse.LCS_FORNOKEYUPDATE: "FOR NO KEY UPDATE",
	parse.LCS_FORUPDATE:      "FOR UPDATE",
}

// readOnlyAllowedStmts are statements, besides reads, that PostgreSQL allows in a READ ONLY transaction. PostgreSQL
// checks the statement that a PREPARE stores only when an EXECUTE runs it.
var readOnlyAllowedStmts = map[string]bool{"PrepareStmt": true, "FetchStmt": true, "ClosePortalStmt": true, "ListenStmt": true, "UnlistenStmt": true,
	"NotifyStmt": true, "LoadStmt": true, "LockStmt": true, "ConstraintsSetStmt": true, "CheckPointStmt": true, "VacuumStmt": true}

// isAllowedReadOnly reports whether PostgreSQL allows a builtin function with side effects in a READ ONLY transaction.
func isAllowedReadOnly(name string) bool {
	switch name {
	case "currval", "lastval", "setseed", "set_config", "pg_notify":
		return true
	}
	return strings.HasPrefix(name, "pg_advisory_") || strings.HasPrefix(name, "pg_try_advisory_") || strings.HasPrefix(name, "pg_sleep")
}

// commandNames maps parser types of statements that change rows or the catalog to PostgreSQL's command names.
// commandName handles types whose command name depends on the object.
var commandNames = map[string]string{
	"InsertStmt": "INSERT", "UpdateStmt": "UPDATE", "DeleteStmt": "DELETE", "MergeStmt": "MERGE", "TruncateStmt": "TRUNCATE TABLE",
	"CreateStmt": "CREATE TABLE", "ViewStmt": "CREATE VIEW", "IndexStmt": "CREATE INDEX", "CreateSeqStmt": "CREATE SEQUENCE",
	"AlterSeqStmt": "ALTER SEQUENCE", "CreateSchemaStmt": "CREATE SCHEMA", "CreateTrigStmt": "CREATE TRIGGER", "RuleStmt": "CREATE RULE",
	"CreateRoleStmt": "CREATE ROLE", "AlterRoleStmt": "ALTER ROLE", "AlterRoleSetStmt": "ALTER ROLE", "DropRoleStmt": "DROP ROLE",
	"CreatedbStmt": "CREATE DATABASE", "DropdbStmt": "DROP DATABASE", "AlterDatabaseStmt": "ALTER DATABASE", "AlterDatabaseSetStmt": "ALTER DATABASE",
	"CommentStmt": "COMMENT", "CreateExtensionStmt": "CREATE EXTENSION", "AlterExtensionStmt": "ALTER EXTENSION", "AlterExtensionContentsStmt": "ALTER EXTENSION", "CreateDomainStmt": "CREATE DOMAIN",
	"AlterDomainStmt": "ALTER DOMAIN", "CreateEnumStmt": "CREATE TYPE", "CompositeTypeStmt": "CREATE TYPE", "CreateRangeStmt": "CREATE TYPE",
	"AlterEnumStmt": "ALTER TYPE", "RefreshMatViewStmt": "REFRESH MATERIALIZED VIEW", "CreatePolicyStmt": "CREATE POLICY", "AlterPolicyStmt": "ALTER POLICY",
	"AlterDefaultPrivilegesStmt": "ALTER DEFAULT PRIVILEGES", "SecLabelStmt": "SECURITY LABEL", "CreateStatsStmt": "CREATE STATISTICS",
	"DropOwnedStmt": "DROP OWNED", "ReassignOwnedStmt": "REASSIGN OWNED",
	"CreatePublicationStmt": "CREATE PUBLICATION", "AlterPublicationStmt": "ALTER PUBLICATION", "CreateSubscriptionStmt": "CREATE SUBSCRIPTION",
	"AlterSubscriptionStmt": "ALTER SUBSCRIPTION", "DropSubscriptionStmt": "DROP SUBSCRIPTION", "CreateTableSpaceStmt": "CREATE TABLESPACE",
	"DropTableSpaceStmt": "DROP TABLESPACE", "AlterTableSpaceOptionsStmt": "ALTER TABLESPACE", "CreateFdwStmt": "CREATE FOREIGN DATA WRAPPER",
	"AlterFdwStmt": "ALTER FOREIGN DATA WRAPPER", "CreateForeignServerStmt": "CREATE SERVER", "AlterForeignServerStmt": "ALTER SERVER",
	"CreateUserMappingStmt": "CREATE USER MAPPING", "AlterUserMappingStmt": "ALTER USER MAPPING", "DropUserMappingStmt": "DROP USER MAPPING",
	"CreateForeignTableStmt": "CREATE FOREIGN TABLE", "ImportForeignSchemaStmt": "IMPORT FOREIGN SCHEMA", "CreateEventTrigStmt": "CREATE EVENT TRIGGER",
	"AlterEventTrigStmt": "ALTER EVENT TRIGGER", "CreateCastStmt": "CREATE CAST", "CreateConversionStmt": "CREATE CONVERSION",
	"CreateOpClassStmt": "CREATE OPERATOR CLASS", "CreateOpFamilyStmt": "CREATE OPERATOR FAMILY", "AlterOpFamilyStmt": "ALTER OPERATOR FAMILY",
	"CreateTransformStmt": "CREATE TRANSFORM", "CreateAmStmt": "CREATE ACCESS METHOD", "CreatePLangStmt": "CREATE LANGUAGE",
	"AlterOperatorStmt": "ALTER OPERATOR", "AlterTypeStmt": "ALTER TYPE", "AlterCollationStmt": "ALTER COLLATION", "AlterStatsStmt": "ALTER STATISTICS",
	"AlterTSDictionaryStmt": "ALTER TEXT SEARCH DICTIONARY", "AlterTSConfigurationStmt": "ALTER TEXT SEARCH CONFIGURATION",
}

// commandName returns PostgreSQL's command name of a statement that changes rows or the catalog. It returns "" for
// others.
func commandName(m parse.TreeNode) string {
	object := func(field string) string { return objectTypeWords(parse.ObjectType(m.Integer(field))) }
	switch m.TypeName() {
	case "CreateTableAsStmt":
		if object("objtype") != "TABLE" {
			return "CREATE MATERIALIZED VIEW"
		}
		return "CREATE TABLE AS"
	case "CreateFunctionStmt":
		if m.Flag("is_procedure") {
			return "CREATE PROCEDURE"
		}
		return "CREATE FUNCTION"
	case "DefineStmt":
		return "CREATE " + object("kind")
	case "AlterObjectDependsStmt":
		return "ALTER " + object("object_type")
	case "AlterFunctionStmt":
		return "ALTER " + object("objtype")
	case "DropStmt":
		return "DROP " + object("remove_type")
	case "AlterTableStmt":
		return "ALTER " + object("objtype")
	case "RenameStmt":
		if m.Integer("rename_type") == int(parse.OBJECT_COLUMN) {
			return "ALTER " + object("relation_type")
		}
		return "ALTER " + object("rename_type")
	case "AlterObjectSchemaStmt", "AlterOwnerStmt":
		return "ALTER " + object("object_type")
	case "GrantStmt":
		return grantOrRevoke(m, "GRANT", "REVOKE")
	case "GrantRoleStmt":
		return grantOrRevoke(m, "GRANT ROLE", "REVOKE ROLE")
	}
	return commandNames[m.TypeName()]
}

func grantOrRevoke(m parse.TreeNode, grants, revokes string) string {
	if m.Flag("is_grant") {
		return grants
	}
	return revokes
}

// objectTypeWords returns the words for a kind of object, such as TABLE, as command tags spell them.
func objectTypeWords(kind parse.ObjectType) string {
	switch kind {
	case parse.OBJECT_MATVIEW:
		return "MATERIALIZED VIEW"
	case parse.OBJECT_COLUMN, parse.OBJECT_TABCONSTRAINT:
		return "TABLE"
	case parse.OBJECT_DOMCONSTRAINT:
		return "DOMAIN"
	case parse.OBJECT_ATTRIBUTE:
		return "TYPE"
	case parse.OBJECT_FOREIGN_SERVER:
		return "SERVER"
	}
	if words := abbreviated[kind]; words != "" {
		return words
	}
	return strings.ReplaceAll(strings.TrimPrefix(kind.String(), "OBJECT_"), "_", " ")
}

// abbreviated are the kinds of objects that the parser names by abbreviations, and their words in command tags.
var abbreviated = map[parse.ObjectType]string{
	parse.OBJECT_FDW: "FOREIGN DATA WRAPPER", parse.OBJECT_OPCLASS: "OPERATOR CLASS", parse.OBJECT_OPFAMILY: "OPERATOR FAMILY",
	parse.OBJECT_TSCONFIGURATION: "TEXT SEARCH CONFIGURATION", parse.OBJECT_TSDICTIONARY: "TEXT SEARCH DICTIONARY",
	parse.OBJECT_TSPARSER: "TEXT SEARCH PARSER", parse.OBJECT_TSTEMPLATE: "TEXT SEARCH TEMPLATE", parse.OBJECT_LARGEOBJECT: "LARGE OBJECT",
}

// handleReadOnlyDefault handles a change of default_transaction_read_only, and reports whether it did. Sluice stores
// the setting, because DSQL refuses it. SET SESSION CHARACTERISTICS may also name an isolation level that DSQL
// satisfies. It may name DEFERRABLE for transactions that write, where DEFERRABLE has no effect.
func (r *rewriter) handleReadOnlyDefault(p *statementPart) (done bool) {
	st := p.st
	if !r.rules.Session {
		return false
	}
	if st.Tx.Verb == SetSessionCharacteristics {
		if !(st.Tx.ReadOnly || st.Tx.ReadWrite) || st.Tx.ReadOnly && st.Tx.Deferrable || st.Tx.Isolation == Serializable || st.Tx.Isolation != DefaultIsolation && !r.rules.Isolation {
			return false
		}
		kept := st.Changes[:0]
		for _, c := range st.Changes {
			if c.Name == ReadOnlyDefault {
				kept = append(kept, c)
			}
		}
		st.Changes = kept
	} else if len(st.Changes) != 1 || st.Changes[0].Name != ReadOnlyDefault {
		return false
	}
	r.addFinding(finding.Handled(finding.TransactionMode, finding.Answered, finding.Info, "answered: transactions of the client are begun so, and outside of one it is told what would write", st.Start))
	return true
}
