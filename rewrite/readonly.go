package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// What PostgreSQL says to a statement in a transaction that is READ ONLY. A client that has set
// default_transaction_read_only has all its transactions so. Those that begin with a BEGIN are
// begun so by the relay, and their server judges. A statement outside of a block has no BEGIN, and
// is judged by its text.

// ReadOnlyDefault is the setting that has transactions begin READ ONLY.
const ReadOnlyDefault = "default_transaction_read_only"

// InReadOnly is the command that PostgreSQL refuses to execute in such a transaction, as its error
// names it: "INSERT", "SELECT FOR UPDATE", "nextval()"; "" for a statement that it takes. known is
// false where the text does not tell: a function may do anything, and so may what was prepared in
// SQL. Of a read it takes the schema to tell, as ever (Plan.SureRead).
func (st *Statement) InReadOnly() (command string, known bool) {
	return st.writes, st.writes != "" || st.Kind <= Control || st.neutral
}

// inReadOnly fills in what InReadOnly tells; a is what was gathered of the statement.
func (st *Statement) inReadOnly(m parse.Message, a *analysis) {
	run := m
	switch m.Name() {
	case "ExplainStmt", "DeclareCursorStmt", "CopyStmt":
		if a.inert || m.Is("CopyStmt") && m.Child("query").Shape == nil {
			break
		}
		run = m.Child("query")
	}
	switch {
	case m.Is("CopyStmt") && m.Flag("is_from"):
		st.writes = "COPY FROM"
	case neutrals[m.Name()], m.Is("ExplainStmt") && a.inert:
		st.neutral = true
	case run.Is("SelectStmt"):
		st.writes = selected(run, a)
		st.neutral = st.writes == "" && !a.foreign && len(a.tables) == 0
	default:
		st.writes = commandOf(run)
	}
}

// selected is the command of a query that PostgreSQL refuses; "" for any other.
func selected(m parse.Message, a *analysis) string {
	switch {
	case m.Child("into_clause").Shape != nil:
		return "SELECT INTO"
	case len(a.locked) > 0:
		for clause := range a.locked[0].List("locking_clause") {
			return "SELECT " + lockWords[parse.LockClauseStrength(clause.Integer("strength"))]
		}
	case a.modifies:
		return "SELECT"
	case a.draws != "":
		return a.draws + "()"
	}
	return ""
}

var lockWords = map[parse.LockClauseStrength]string{
	parse.LCS_FORKEYSHARE:    "FOR KEY SHARE",
	parse.LCS_FORSHARE:       "FOR SHARE",
	parse.LCS_FORNOKEYUPDATE: "FOR NO KEY UPDATE",
	parse.LCS_FORUPDATE:      "FOR UPDATE",
}

// neutrals are statements that may do something, and that PostgreSQL takes in such a transaction.
// What they make run later is judged then.
var neutrals = map[string]bool{"PrepareStmt": true, "FetchStmt": true, "ClosePortalStmt": true, "ListenStmt": true, "UnlistenStmt": true,
	"NotifyStmt": true, "LoadStmt": true, "LockStmt": true, "ConstraintsSetStmt": true, "CheckPointStmt": true, "VacuumStmt": true}

// innocuous reports whether a builtin function with effects has none that such a transaction is kept from.
func innocuous(name string) bool {
	switch name {
	case "currval", "lastval", "setseed", "set_config", "pg_notify":
		return true
	}
	return strings.HasPrefix(name, "pg_advisory_") || strings.HasPrefix(name, "pg_try_advisory_") || strings.HasPrefix(name, "pg_sleep")
}

// commandNames are commands that change rows or the catalog, by their nodes. Of a node that is not
// here, or below, nothing is known.
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

// commandOf is the command of a statement that changes rows or the catalog; "" for any other.
func commandOf(m parse.Message) string {
	object := func(field string) string { return objectWords(parse.ObjectType(m.Integer(field))) }
	switch m.Name() {
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
		return granting(m, "GRANT", "REVOKE")
	case "GrantRoleStmt":
		return granting(m, "GRANT ROLE", "REVOKE ROLE")
	}
	return commandNames[m.Name()]
}

func granting(m parse.Message, grants, revokes string) string {
	if m.Flag("is_grant") {
		return grants
	}
	return revokes
}

// objectWords is a kind of object as tags of commands have it.
func objectWords(kind parse.ObjectType) string {
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

// abbreviated are the words of kinds of objects that the parser abbreviates.
var abbreviated = map[parse.ObjectType]string{
	parse.OBJECT_FDW: "FOREIGN DATA WRAPPER", parse.OBJECT_OPCLASS: "OPERATOR CLASS", parse.OBJECT_OPFAMILY: "OPERATOR FAMILY",
	parse.OBJECT_TSCONFIGURATION: "TEXT SEARCH CONFIGURATION", parse.OBJECT_TSDICTIONARY: "TEXT SEARCH DICTIONARY",
	parse.OBJECT_TSPARSER: "TEXT SEARCH PARSER", parse.OBJECT_TSTEMPLATE: "TEXT SEARCH TEMPLATE", parse.OBJECT_LARGEOBJECT: "LARGE OBJECT",
}

// readsByDefault is the rule of what has transactions begin READ ONLY: the relay keeps the setting,
// and DSQL refuses it. SET SESSION CHARACTERISTICS may name a level beside, which is none too many,
// and DEFERRABLE, which says nothing of transactions that write.
func (r *rewriter) readsByDefault(p *part) (done bool) {
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
	r.find(handled(TransactionMode, Answered, Info, "answered: transactions of the client are begun so, and outside of one it is told what would write", st.Start))
	return true
}
