package finding

import (
	"maps"
	"slices"
	"strings"
)

// Feature names something that a statement uses and DSQL does not have. There is a fixed set of features, because a
// feature is a label of a metric.
type Feature string

const (
	ForShare         Feature = "for_share"
	ForNoKeyUpdate   Feature = "for_no_key_update"
	SkipLocked       Feature = "skip_locked"
	NoWait           Feature = "nowait"
	JoinForUpdate    Feature = "join_for_update"
	CreateIndex      Feature = "create_index"
	IndexMethod      Feature = "index_method"
	IndexOrder       Feature = "index_order"
	IndexOpClass     Feature = "index_opclass"
	DropConcurrently Feature = "drop_index_concurrently"
	Serial           Feature = "serial"
	AddSerial        Feature = "add_serial"
	CreateDatabase   Feature = "create_database"
	DropDatabase     Feature = "drop_database"
	IsolationLevel   Feature = "isolation_level"
	SerializableTx   Feature = "serializable"
	TransactionMode  Feature = "transaction_mode"
	ChunkedDelete    Feature = "chunked_delete"
	Discard          Feature = "discard"
	SetConfig        Feature = "set_config"
	SetRole          Feature = "set_role"

	Truncate         Feature = "truncate"
	Vacuum           Feature = "vacuum"
	Reindex          Feature = "reindex"
	Extension        Feature = "extension"
	GenerateUUID     Feature = "uuid_generate_v4"
	Trigger          Feature = "trigger"
	TableAs          Feature = "create_table_as"
	Procedural       Feature = "procedural"
	UserType         Feature = "user_type"
	RowSecurity      Feature = "row_security"
	Tablespace       Feature = "tablespace"
	ForeignTable     Feature = "foreign_table"
	LockTable        Feature = "lock_table"
	AdvisoryLock     Feature = "advisory_lock"
	ListenNotify     Feature = "listen_notify"
	CursorUse        Feature = "cursor"
	SavepointUse     Feature = "savepoint"
	TwoPhase         Feature = "two_phase_commit"
	Merge            Feature = "merge"
	TableSample      Feature = "tablesample"
	AlterSystem      Feature = "alter_system"
	TempTable        Feature = "temp_table"
	TempFunction     Feature = "temp_function"
	UnloggedTable    Feature = "unlogged_table"
	Partitions       Feature = "partitioning"
	Inheritance      Feature = "inheritance"
	Collation        Feature = "collate"
	Exclusion        Feature = "exclude"
	ColumnType       Feature = "column_type"
	ByteaKey         Feature = "bytea_key"
	ByteaFollowed    Feature = "bytea_followed"
	IdentityCache    Feature = "identity_cache"
	IdentityType     Feature = "identity_type"
	SequenceCache    Feature = "sequence_cache"
	SequenceType     Feature = "sequence_type"
	BareNumeric      Feature = "bare_numeric"
	AddColumn        Feature = "alter_add_column"
	AddNull          Feature = "alter_add_null"
	AlterType        Feature = "alter_column_type"
	SetNotNullColumn Feature = "alter_set_not_null"
	AddConstraint    Feature = "alter_add_constraint"
	AddPrimaryKey    Feature = "alter_add_primary_key"
	Validate         Feature = "alter_validate_constraint"
	CopyFrom         Feature = "copy_from"
	SeveralDDL       Feature = "several_ddl"
	DDLAndDML        Feature = "ddl_and_dml"
	Unread           Feature = "unread"
	Syntax           Feature = "syntax"
)

// Features returns the names of all features in catalogue, sorted.
func Features() []Feature { return slices.Sorted(maps.Keys(catalogue)) }

// featureFact describes a feature: the rule for it, the reason why DSQL does not accept it, and a remedy for the user.
type featureFact struct {
	rule           Rule
	reason, remedy string
}

// catalogue describes all features. Its sources are the user guide of Aurora DSQL, and answers of real clusters that
// github.com/Dreamescaper/dsql-emulator recorded in 2026.
var catalogue = map[Feature]featureFact{
	ForShare:       {LockingRule, "DSQL refuses FOR SHARE", "lock FOR UPDATE, or give the table a policy under rewrite.locking_policies"},
	ForNoKeyUpdate: {LockingRule, "DSQL refuses FOR NO KEY UPDATE", "lock FOR UPDATE, or give the table a policy under rewrite.locking_policies"},
	SkipLocked: {LockingRule, "DSQL locks nothing, so SKIP LOCKED skips nothing: consumers of a queue all take the same rows and all but one fail at COMMIT",
		"partition the queue among its consumers, or claim rows by an UPDATE with a random choice"},
	NoWait:        {LockingRule, "DSQL locks nothing, so NOWAIT never fails: a conflict shows at COMMIT (40001)", "handle 40001 where 55P03 was handled"},
	JoinForUpdate: {SplitRule, "this cluster takes FOR UPDATE only on one table with equality on its key", "lock the row by its key in a statement of its own and read the join without the clause"},

	CreateIndex:      {IndexRule, "DSQL builds indexes only by CREATE INDEX ASYNC", "write CREATE INDEX ASYNC and wait for the job"},
	IndexMethod:      {IndexRule, "DSQL has B-tree indexes only, and takes no USING", "leave the index out, or index columns or expressions without USING"},
	IndexOrder:       {IndexRule, "DSQL takes no sort order for index keys", "leave DESC out: an index is read in both directions, so that only an ORDER BY which mixes them is sorted after all; expressions such as COALESCE(...) may stay"},
	DropConcurrently: {IndexRule, "DSQL takes no CONCURRENTLY for DROP INDEX", "leave CONCURRENTLY out"},
	IndexOpClass:     {IndexRule, "DSQL takes no operator class for index keys", "leave the operator class out: the collation is C"},

	Serial:    {SerialRule, "DSQL has no serial types", "the column becomes a bigint: declare it so"},
	AddSerial: {SerialRule, "DSQL has no serial types and adds no column with an identity", "create the table anew with bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1)"},

	CreateDatabase: {DatabaseRule, "a DSQL cluster has one database, and every database name of a client means it", "leave CREATE DATABASE out"},
	DropDatabase:   {DatabaseRule, "a DSQL cluster has one database, and every database name of a client means it", "drop the tables instead: nothing was dropped"},

	IsolationLevel:  {IsolationRule, "DSQL has one isolation level, repeatable read", "name REPEATABLE READ or none"},
	SerializableTx:  {IsolationRule, "DSQL has no SERIALIZABLE", "use REPEATABLE READ, and lock FOR UPDATE what a decision rests on; or set rewrite.serializable to repeatable_read, if write skew does no harm"},
	TransactionMode: {IsolationRule, "DSQL refuses SET TRANSACTION and SET SESSION CHARACTERISTICS", "write the mode behind BEGIN: BEGIN READ ONLY"},
	Discard:         {SessionRule, "DSQL is not known to take DISCARD", ""},
	SetConfig:       {SessionRule, "DSQL refuses set_config()", "write SET or SET LOCAL; or SELECT set_config('name', 'value', false) of constants, one call in a statement of its own, which Sluice sends as that"},

	SetRole: {DialectRule, "DSQL does not change the role of a session, and one Sluice has one role at its cluster",
		"connect through a Sluice of that role (backend.user): one process has one role, for all of its clients; or give the role its rights by GRANT; inside a block there is SET LOCAL ROLE, where the cluster takes it"},

	ChunkedDelete: {DialectRule, "DSQL changes at most 3,000 rows in a transaction", "list the table under rewrite.chunked_delete, or delete at most 3,000 rows at a time"},

	Truncate:     {DialectRule, "DSQL refuses TRUNCATE", "set rewrite.truncate to delete or batches, DELETE in batches of at most 3,000 rows, or DROP and CREATE the table"},
	Vacuum:       {DialectRule, "DSQL refuses VACUUM and needs none", "leave VACUUM out"},
	Reindex:      {DialectRule, "DSQL is not known to take REINDEX", "leave REINDEX out; where an index must be made anew, CREATE INDEX ASYNC another one, wait for its job, and DROP INDEX the old one"},
	Extension:    {ExtensionRule, "DSQL has no extensions", "leave CREATE EXTENSION out; gen_random_uuid() is built in"},
	GenerateUUID: {ExtensionRule, "DSQL has no extensions, and so no uuid_generate_v4()", "write gen_random_uuid()"},
	Trigger:      {DialectRule, "DSQL has no triggers", "do it in the application, or by a DEFAULT or a generated column"},
	TableAs:      {DialectRule, "DSQL refuses CREATE TABLE AS, SELECT INTO and materialized views", "CREATE TABLE, then INSERT ... SELECT in transactions of at most 3,000 rows; or a view"},
	Procedural:   {DialectRule, "DSQL runs functions in LANGUAGE sql only: no PL/pgSQL, procedures or DO", "write the function in SQL, or do it in the application"},
	UserType:     {DialectRule, "DSQL has no enum, composite or range types", "use text with a CHECK, or a domain"},
	RowSecurity:  {DialectRule, "DSQL has no row security", "use views and grants"},
	Tablespace:   {DialectRule, "DSQL has no tablespaces", "leave the tablespace out"},
	ForeignTable: {DialectRule, "DSQL has no foreign data", "leave it out"},
	LockTable:    {DialectRule, "DSQL refuses LOCK", "lock rows FOR UPDATE, or leave it to the check at COMMIT"},
	AdvisoryLock: {DialectRule, "DSQL does not support advisory locks", "set rewrite.advisory_locks to table: Sluice then keeps exclusive locks of sessions; or lock a row FOR UPDATE that stands for the thing"},
	ListenNotify: {DialectRule, "DSQL has no LISTEN and NOTIFY", "poll a table, or use a message service"},
	CursorUse:    {CursorRule, "DSQL has no cursors in SQL", "page by key: WHERE key > last ORDER BY key LIMIT n"},
	SavepointUse: {DialectRule, "DSQL has no savepoints", "set retry.savepoints to true, or run the part in a transaction of its own"},
	TwoPhase:     {DialectRule, "DSQL has no two-phase commit and no AND CHAIN", "commit in one phase"},
	Merge:        {DialectRule, "DSQL refuses MERGE", "INSERT ... ON CONFLICT DO UPDATE"},
	TableSample:  {DialectRule, "DSQL refuses TABLESAMPLE", "sample by a condition on the key"},
	AlterSystem:  {DialectRule, "DSQL refuses ALTER SYSTEM", "leave it out"},

	TempTable:     {DialectRule, "DSQL has no temporary tables", "use a WITH query, or a table with a session key"},
	TempFunction:  {DialectRule, "DSQL has no objects of a session alone: no schema pg_temp", "create the function in another schema, and drop it behind its use"},
	UnloggedTable: {DialectRule, "DSQL has no unlogged tables", "leave UNLOGGED out"},
	Partitions:    {DialectRule, "DSQL does not partition tables: it spreads them by key itself", "leave PARTITION BY out"},
	Inheritance:   {DialectRule, "DSQL has no inheritance", "write the columns out"},
	Collation:     {DialectRule, "DSQL has the collation C only", "leave COLLATE out and sort in the application"},
	Exclusion:     {DialectRule, "DSQL has no EXCLUDE constraints", "check it in the application under a lock FOR UPDATE"},
	ColumnType:    {DialectRule, "DSQL has no columns of this type", "store it as text, jsonb or numbers"},
	ByteaKey:      {ByteaRule, "DSQL takes neither bytea nor jsonb in a key", "for bytea set rewrite.bytea to hex; or use uuid or text for the columns of the key"},
	ByteaFollowed: {ByteaRule, "the bytea column of a key is text on DSQL, and what this statement does with it has no form that an index serves", "name the columns, qualified by their table: no whole rows, NATURAL JOIN, or JOIN USING of the column"},
	IdentityCache: {SerialRule, "DSQL wants CACHE 1, or 65536 or more, for identity columns", "add (CACHE 1)"},
	IdentityType:  {SerialRule, "DSQL's identity columns are bigint", "declare the column bigint, with (CACHE 1) behind IDENTITY"},
	SequenceCache: {SerialRule, "DSQL wants CACHE 1, or 65536 or more, for sequences", "add CACHE 1"},
	SequenceType:  {SerialRule, "DSQL's sequences are of bigint, and keep their type", "leave AS out, and give MAXVALUE where the numbers must not go beyond a smaller type"},
	BareNumeric:   {NumericRule, "DSQL stores a numeric column without a precision as numeric(18,6), and rounds", "declare a precision and a scale that hold your values, such as numeric(38,10)"},

	AddColumn:        {DialectRule, "DSQL adds columns without DEFAULT, NOT NULL or other constraints only", "ADD COLUMN name type, then ALTER COLUMN name SET DEFAULT value, then UPDATE ... SET name = value WHERE name IS NULL in batches of at most 3,000 rows, each in a transaction of its own; NOT NULL cannot be added"},
	AddNull:          {AlterRule, "DSQL takes the word NULL behind an added column for a constraint", "leave NULL out: it is so without"},
	AlterType:        {DialectRule, "DSQL does not change a column's type", "ADD COLUMN of the type, UPDATE in batches, DROP COLUMN of the old one and RENAME COLUMN, each in a transaction of its own; or create the table anew; ddl.alter_column_type does the former between strings and between numbers"},
	SetNotNullColumn: {DialectRule, "DSQL does not SET NOT NULL", "add a CHECK (column IS NOT NULL) NOT VALID and VALIDATE it by ALTER TABLE ASYNC, or set ddl.set_not_null to check: Sluice then does so"},
	AddConstraint:    {DialectRule, "DSQL adds only CHECK and FOREIGN KEY ... NOT VALID, and UNIQUE USING INDEX", "add NOT VALID, then VALIDATE by ALTER TABLE ASYNC; for UNIQUE create a unique index ASYNC first"},
	AddPrimaryKey:    {DialectRule, "DSQL makes a primary key in CREATE TABLE only", "name the key in CREATE TABLE; for a table that is there, create it anew with the key, INSERT ... SELECT at most 3,000 rows at a time, DROP TABLE and RENAME. UNIQUE can be added instead"},
	Validate:         {DialectRule, "DSQL validates constraints only by ALTER TABLE ASYNC", "write ALTER TABLE ASYNC ... VALIDATE CONSTRAINT and wait for the job"},
	CopyFrom:         {CopyRule, "DSQL is not known to take COPY FROM STDIN", "set copy.from to insert: Sluice then sends INSERTs; or write INSERTs of at most 3,000 rows in a transaction"},
	SeveralDDL:       {DialectRule, "DSQL takes one DDL statement in a transaction", inTransactionsRemedy},
	DDLAndDML:        {DialectRule, "DSQL takes no DDL together with data changes in a transaction", inTransactionsRemedy},

	Unread: {DialectRule, "the text is too long, too deep or no text: Sluice does not read it", "split the statement; the limits are rewrite.max_bytes and rewrite.max_nesting"},
	Syntax: {DialectRule, "the text is not PostgreSQL's grammar", "mend the syntax"},
}

// ToolsRemedy names the settings by which migration tools run each DDL statement in a transaction of its own.
const ToolsRemedy = "run each statement of DDL in a transaction of its own: Rails disable_ddl_transaction!, Django atomic = False, " +
	"Alembic autocommit_block() with transaction_per_migration, Knex config = { transaction: false }, TypeORM transaction = false, goose -- +goose NO TRANSACTION"

// inTransactionsRemedy is ToolsRemedy, and the advice to set Sluice's configuration key ddl.in_transactions.
const inTransactionsRemedy = ToolsRemedy + ". Or set ddl.in_transactions to autocommit: Sluice then commits in front of DDL and behind it"

// Remedy returns the advice for users of a feature, or "" if there is no advice.
func Remedy(f Feature) string { return catalogue[f].remedy }

// refusedTypes are PostgreSQL's types that DSQL does not accept for columns.
var refusedTypes = map[string]bool{"money": true, "xml": true, "inet": true, "cidr": true, "macaddr": true, "macaddr8": true,
	"point": true, "line": true, "lseg": true, "box": true, "path": true, "polygon": true, "circle": true, "tsvector": true,
	"tsquery": true, "int4range": true, "int8range": true, "numrange": true, "tsrange": true, "tstzrange": true,
	"daterange": true, "bit": true, "varbit": true, "pg_lsn": true}

// IsRefusedType reports whether DSQL does not accept columns of the type. The name of an array type ends with [].
func IsRefusedType(name string) bool { return refusedTypes[name] || strings.HasSuffix(name, "[]") }
