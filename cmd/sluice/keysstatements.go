package main

import (
	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// statementKeys say what becomes of statements that DSQL refuses.
var statementKeys = []key{
	{name: "rewrite.max_bytes", def: rewrite.DefaultMaxBytes, field: func(c *Config) any { return &c.Rewrite.MaxBytes },
		help: "Longer statements are passed on unread, and pin their session unless their words and tags show that they have left nothing on the backend; a longer Parse is refused."},
	{name: "rewrite.max_nesting", def: rewrite.DefaultMaxNesting, field: func(c *Config) any { return &c.Rewrite.MaxNesting },
		help: "Statements nested or chained deeper are passed on unread and pin their session (the parser's stack is finite)."},
	{name: "rewrite.cache_entries", def: rewrite.DefaultCacheEntries, field: func(c *Config) any { return &c.Rewrite.CacheEntries },
		help: "Statement texts whose plan is remembered."},
	{name: "rewrite.cache_bytes", def: rewrite.DefaultCacheBytes, field: func(c *Config) any { return &c.Rewrite.CacheBytes },
		help: "Memory for remembered plans."},
	{name: "rewrite.enabled", def: "auto", field: func(c *Config) any { return &c.RewriteEnabled },
		choices: []string{"auto", "true", "false"},
		help:    "Rewrite what DSQL spells differently. auto: for kind dsql only."},
	{name: "rewrite.locking", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.Locking },
		help: "Rewrite FOR SHARE and FOR NO KEY UPDATE, to FOR UPDATE where rewrite.locking_policies say nothing else."},
	{name: "rewrite.locking_policies", def: []rewrite.LockPolicy{}, field: func(c *Config) any { return &c.Rewrite.Rules.Policies },
		help: "What becomes of locking clauses, by table; the first that matches counts. Each has tables (patterns), policy (update, key-share, strip, flag, reject), " +
			"and may have clauses (share, no key update), fenced_by (the column that fences instead; strip needs it) and name (the operation in metrics). As JSON outside of the file."},
	{name: "rewrite.chunked_delete", def: []string{}, field: func(c *Config) any { return &c.Rewrite.Rules.Chunked },
		help: "Tables (patterns: * stands for any text, ? for one character) whose DELETEs are carried out in batches where one is over the 3,000 rows of a transaction, which fails on DSQL. Each batch is a transaction of its own: one that fails leaves those before it deleted. Only for a DELETE that is sent alone, outside a transaction, by comparisons of columns with constants or parameters. Kind dsql only."},
	{name: "rewrite.split_for_update", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.Split },
		help: "Split FOR UPDATE over several tables on clusters that refuse it."},
	{name: "rewrite.create_index", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.Index },
		help: "Rewrite CREATE INDEX to CREATE INDEX ASYNC."},
	{name: rewrite.CreateIndexWaitKey, def: true, field: func(c *Config) any { return &c.Rewrite.Rules.AwaitIndex },
		help: "Answer a rewritten CREATE INDEX when its job is done; inside a transaction block nobody waits."},
	{name: "rewrite.serial", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.Serial },
		help: "Rewrite serial and identity columns to bigint identity columns, and give them and sequences the cache of rewrite.sequence_cache where they have none that DSQL takes."},
	{name: rewrite.SequenceCacheKey, def: 1, field: func(c *Config) any { return &c.Rewrite.Rules.SequenceCache },
		help: "The CACHE that rewrite.serial writes: 1, or 65536 and more. 1 keeps the order of numbers close to that of commits, and each number is asked of the cluster; a larger one gives each session a range of its own."},
	{name: rewrite.NumericKey, def: "auto", field: func(c *Config) any { return &c.RewriteNumeric },
		help: "What becomes of a new column or domain of type numeric without a precision, which DSQL stores as numeric(18,6) and rounds without a word. wide: numeric(" + rewrite.WideNumeric + "). " +
			"A precision and a scale, such as 38,10: numeric of these. as-is: nothing. Values are shown with all digits of the scale, and rounded beyond. auto: wide for kind dsql, else as-is."},
	{name: "rewrite.add_column", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.AddColumn },
		help: "Take NULL out of ALTER TABLE ... ADD COLUMN, which DSQL refuses as a constraint."},
	{name: "rewrite.databases", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.Databases },
		help: "Answer CREATE DATABASE (42P04) and DROP DATABASE (success): there is one database. Names that stand for schemas (listen.databases) do not ask this key."},
	{name: "rewrite.isolation", def: "auto", field: func(c *Config) any { return &c.RewriteIsolation },
		choices: []string{"auto", "true", "false"},
		help:    "Take isolation levels up to REPEATABLE READ for DSQL's own. auto: for kind dsql only."},
	{name: rewrite.SerializableKey, def: "refuse", field: func(c *Config) any { return &c.RewriteSerializable },
		choices: []string{"refuse", "repeatable_read"},
		help: "What becomes of a transaction that asks for SERIALIZABLE, which DSQL has not. refuse: the statement fails, with a hint. repeatable_read: it is taken for REPEATABLE READ, with a WARNING each time: " +
			"two transactions of which each reads what the other writes may then both commit (write skew). Kind dsql only, with rewrite.isolation."},
	{name: "rewrite.session", def: "auto", field: func(c *Config) any { return &c.RewriteSession },
		choices: []string{"auto", "true", "false"},
		help:    "Answer DISCARD PLANS, SEQUENCES and TEMP, take SELECT set_config() of constants and parameters for a SET, and LOCK TABLE IN ACCESS SHARE MODE for a look at the tables. auto: for kind dsql only."},
	{name: rewrite.ExtensionsKey, def: "auto", field: func(c *Config) any { return &c.RewriteExtensions },
		choices: []string{"auto", "true", "false"},
		help:    "Answer CREATE, DROP and COMMENT ON EXTENSION of uuid-ossp, pgcrypto and plpgsql, with a notice that names which of their functions there are, and rewrite uuid_generate_v4() to gen_random_uuid(). auto: for kind dsql only."},
	{name: "rewrite.cursors", def: "auto", field: func(c *Config) any { return &c.RewriteCursors },
		choices: []string{"auto", "true", "false"},
		help:    "Carry DECLARE, FETCH, MOVE and CLOSE out over portals of the protocol, forward and inside a transaction, and cursors WITH HOLD in memory (cursor.stored_bytes). auto: for kind dsql only."},
	{name: rewrite.TruncateKey, def: "auto", field: func(c *Config) any { return &c.Truncate },
		choices: []string{"auto", string(rewrite.TruncateRefuse), string(rewrite.TruncateDelete), string(rewrite.TruncateBatches)},
		help: "What becomes of TRUNCATE, which DSQL refuses. refuse: its error gets a hint. delete: a DELETE of all rows in the transaction at hand, which fails (54000) beyond 3,000 rows. " +
			"batches: likewise, but where that fails and the statement was sent alone outside of a transaction the rows are deleted in batches, each a transaction of its own, with a warning. " +
			"A table that another one refers to is refused as PostgreSQL does; so are CASCADE where it would have an effect, and RESTART IDENTITY of a table with a sequence. auto: batches where ddl.carry_out is all, else refuse. Kind dsql only."},
	{name: rewrite.AdvisoryKey, def: "auto", field: func(c *Config) any { return &c.AdvisoryLocks },
		choices: []string{"auto", "refuse", "table"},
		help: "What becomes of advisory locks, which DSQL has not. refuse: the cluster refuses the functions. table: exclusive locks of sessions (pg_advisory_lock, pg_try_advisory_lock, pg_advisory_unlock, pg_advisory_unlock_all), each in a SELECT of its own, are rows of the table sluice.advisory_locks, " +
			"which is made at the first use; whoever holds one renews it, and loses it where its Sluice is silent for longer than rewrite.advisory_locks_lease. Locks of a transaction and shared ones are refused. auto: table where ddl.carry_out is all, else refuse. Kind dsql only."},
	{name: rewrite.AdvisoryKey + "_lease", def: proxy.DefaultLockLease, field: func(c *Config) any { return &c.Proxy.Locks.Lease },
		help: "For how long an advisory lock is left alone whose holder's Sluice is silent. It is renewed three times as often. A transaction of a holder that was overtaken fails at COMMIT (40001)."},
	{name: rewrite.AdvisoryKey + "_longest", def: proxy.DefaultLockLongest, field: func(c *Config) any { return &c.Proxy.Locks.Longest },
		help: "For how long more, where its holder may have DDL under way, with which no takeover conflicts: the longest that a statement takes from when it is sent to its end. DSQL ends transactions after 5 minutes."},
	{name: "rewrite.bytea", def: "auto", field: func(c *Config) any { return &c.RewriteBytea },
		choices: []string{"auto", "off", "hex", "hex-cast"},
		help:    "How columns of type bytea that are in keys, which DSQL refuses, are stored. hex: as text of hexadecimal digits under the name with __byteahex behind it, and statements over them are rewritten, so that clients see bytea; for kind dsql only. hex-cast: the same columns, by casts, for a cluster without encode() and decode() (sluice doctor tells). off: not at all. auto: hex where statements are rewritten for kind dsql, else off."},
	{name: "rewrite.bytea_check", def: true, field: func(c *Config) any { return &c.Rewrite.Rules.ByteaCheck },
		help: "Give each such column of a new table a CHECK that takes lower-case hexadecimal digits only, and take a column for one of them only where it has the CHECK."},
	{name: "rewrite.bytea_columns", def: []string{}, field: func(c *Config) any { return &c.Rewrite.Rules.ByteaColumns },
		help: "Columns of type bytea, each as table.column, that CREATE TABLE stores so though they are in no key: for an index to come."},

	{name: rewrite.CarryOutKey, def: "exact", field: func(c *Config) any { return &c.DDLCarryOut },
		choices: []string{"exact", carryOutAll},
		help: "Whether Sluice carries out statements of migration tools that DSQL refuses and has no exact form of. exact: only those for which a key of its own says so. " +
			"all: ddl.add_column_default is backfill, ddl.alter_column_type rewrite, ddl.create_enum domain, ddl.in_transactions autocommit-destructive, ddl.set_not_null check, rewrite.advisory_locks table and rewrite.truncate batches, each where it is at auto; the client is told by a WARNING or NOTICE of each use that gives something up. " +
			"Where a client or user chooses it (client.may_set, client.users), the last two stay as they are. Kind dsql only."},
	{name: "ddl.add_column_default", def: "auto", field: func(c *Config) any { return &c.AddColumnDefault },
		choices: []string{"auto", "refuse", "backfill"},
		help: "What becomes of ALTER TABLE ... ADD COLUMN with a DEFAULT, which DSQL refuses. refuse: its error gets a hint with the statements to write. backfill: for a constant, and sent alone outside of a transaction, " +
			"the column is added under another name, its default is set, the rows are given it in batches, each a transaction of its own, and then it gets its name; NOT NULL is given up, with a warning. Kind dsql only."},
	{name: "ddl.add_constraint", def: "steps", field: func(c *Config) any { return &c.AddConstraint },
		choices: []string{"steps", "refuse"},
		help: "What becomes of ALTER TABLE that adds UNIQUE, FOREIGN KEY or CHECK, also with a column, which DSQL refuses. steps: where the statement is sent alone outside of a transaction, it is carried out in the steps that DSQL has, each a transaction of its own " +
			"(a unique index ASYNC and USING INDEX; NOT VALID and ALTER TABLE ASYNC ... VALIDATE CONSTRAINT), answered when the constraint is valid, and undone when one fails. refuse: its error gets a hint. On kind dsql only."},
	{name: "ddl.set_not_null", def: "auto", field: func(c *Config) any { return &c.SetNotNull },
		choices: []string{"auto", "refuse", "check"},
		help:    "What becomes of ALTER COLUMN ... SET NOT NULL, and of ADD COLUMN ... NOT NULL without a DEFAULT, which DSQL refuses. refuse: its error gets a hint. check: a validated CHECK (column IS NOT NULL) is added as ddl.add_constraint adds others, with a warning: the errors of it have the code 23514, and the catalog shows the column as nullable. Kind dsql only."},
	{name: rewrite.RetypeKey, def: "auto", field: func(c *Config) any { return &c.AlterColumnType },
		choices: []string{"auto", "refuse", "rewrite"},
		help: "What becomes of ALTER COLUMN ... TYPE, which DSQL refuses, between strings (varchar, text, char) or between numbers. refuse: its error gets a hint with the statements to write. rewrite: sent alone outside of a transaction, " +
			"a column of the type is added, is given the values in batches and indexes like the old one's, and takes its place, each step a transaction of its own, with a warning: it is the table's last column then, " +
			"and other clients are told for a moment that the column does not exist (42703). An INSERT without the names of columns is refused (23514) between the last batch and the drop of the old column. A column that is in the primary key, in a view or a generated column, or that a foreign key refers to, is left as it is, and so is one with NOT NULL unless ddl.set_not_null is check. Kind dsql only."},

	{name: rewrite.EnumKey, def: "auto", field: func(c *Config) any { return &c.CreateEnum },
		choices: []string{"auto", "refuse", "domain"},
		help: "What becomes of CREATE TYPE ... AS ENUM, which DSQL refuses. refuse: its error gets a hint with the domain to write. domain: a domain over text with a CHECK stands for the type, with a warning: its values compare and sort as texts and not in the order of the type, " +
			"one that is none of them has the code 23514, and pg_enum and the functions of enumerations know nothing of it; DROP TYPE becomes DROP DOMAIN, ALTER TYPE ... ADD VALUE is carried out by ALTER DOMAIN where the server takes that, and RENAME VALUE stays refused. Kind dsql only."},

	{name: rewrite.InTransactionsKey, def: "auto", field: func(c *Config) any { return &c.DDLInTransactions },
		choices: append([]string{"auto"}, rewrite.InTransactionsChoices()...),
		help: "What becomes of DDL in a transaction beside other statements, which DSQL refuses. refuse: its error gets a hint with the migration tools' own switches. autocommit: the transaction is committed in front of DDL and behind it, " +
			"as late as can be, with a WARNING each time, and a ROLLBACK says what stays; one that holds a single statement of DDL is run as it is asked. autocommit-destructive: also behind DROP of a table, column or schema. With either, an ALTER TABLE of several commands that DSQL refuses is carried out command by command. Kind dsql only."},

	{name: rewrite.CopyFromKey, def: "server", field: func(c *Config) any { return &c.CopyFrom },
		choices: []string{"server", "insert"},
		help: "What becomes of COPY ... FROM STDIN, which DSQL is not known to take. server: it is sent as it is. insert: it is carried out by INSERTs, in all formats; in a transaction they are part of that; outside, in batches of at most 3,000 rows and 8 MiB, " +
			"each a transaction of its own, so that a COPY of more than one batch is not atomic: the client is told by a WARNING, and by an error how many rows stay. Kind dsql only."},
}

// replayKeys bound how transactions are run again.
var replayKeys = []key{
	{name: "retry.enabled", def: "auto", field: func(c *Config) any { return &c.Retry.Enabled },
		choices: []string{"auto", "true", "false"},
		help:    "Run transactions that met a conflict (40001), or lost their backend, again where the client cannot tell. auto: for kind dsql only. Without effect for kind postgres with pairing session."},
	{name: "retry.max_retries", def: retry.DefaultMaxRetries, field: func(c *Config) any { return &c.Proxy.Retry.Policy.MaxRetries },
		help: "How often one transaction is run again, beside the replays behind a short pause (retry.first_delay). 0: never."},
	{name: "retry.first_delay", def: retry.DefaultFirstDelay, field: func(c *Config) any { return &c.Proxy.Retry.Policy.FirstDelay },
		help: "Pause before the first replay, and eight times that before the second: whoever won has mostly committed by then. For each transaction of this Sluice that waits for the same rows there is one short pause less. A pause that would be retry.base_delay or more is that. The first schema conflict and the first lost backend do not wait."},
	{name: "retry.base_delay", def: retry.DefaultBaseDelay, field: func(c *Config) any { return &c.Proxy.Retry.Policy.BaseDelay },
		help: "Pause before the replays behind those, doubled each time."},
	{name: "retry.max_delay", def: retry.DefaultMaxDelay, field: func(c *Config) any { return &c.Proxy.Retry.Policy.MaxDelay },
		help: "Longest pause."},
	{name: "retry.jitter_factor", def: retry.DefaultJitterFactor, field: func(c *Config) any { return &c.Proxy.Retry.Policy.JitterFactor },
		help: "A pause varies by up to this part of it, both ways. 0 to 1."},
	{name: "retry.max_elapsed", def: retry.DefaultMaxElapsed, field: func(c *Config) any { return &c.Proxy.Retry.Policy.MaxElapsed },
		help: "Longest time from the first conflict to the start of the last attempt."},
	{name: "retry.budget_burst", def: retry.DefaultBudgetBurst, field: func(c *Config) any { return &c.Proxy.Retry.BudgetBurst },
		help: "Replays of this process that may be saved up; without one left, clients get their conflicts at once."},
	{name: "retry.budget_per_commit", def: retry.DefaultBudgetPerCommit, field: func(c *Config) any { return &c.Proxy.Retry.BudgetPerCommit },
		help: "Replays that each commit adds."},
	{name: "retry.budget_per_second", def: float64(retry.DefaultBudgetPerSecond), field: func(c *Config) any { return &c.Proxy.Retry.BudgetPerSecond },
		help: "Replays that each second adds."},
	{name: "retry.gate_hold", def: retry.DefaultGateHold, field: func(c *Config) any { return &c.Proxy.Retry.GateHold },
		help: "How long one transaction that is run again may keep others from what it fights for."},
	{name: "retry.log_bytes", def: retry.DefaultLogBytes, field: func(c *Config) any { return &c.Proxy.Retry.LogBytes },
		help: "What one transaction may send and still be run again."},
	{name: "retry.log_total_bytes", def: retry.DefaultLogTotalBytes, field: func(c *Config) any { return &c.Proxy.Retry.LogTotalBytes },
		help: "The same for all transactions together."},
	{name: "retry.held_bytes", def: retry.DefaultHeldBytes, field: func(c *Config) any { return &c.Proxy.Retry.HeldBytes },
		help: "Output of a request that is held back while a conflict may still replace it. 0: none."},
	{name: "retry.held_total_bytes", def: retry.DefaultHeldTotalBytes, field: func(c *Config) any { return &c.Proxy.Retry.HeldTotalBytes },
		help: "The same for all requests together."},
	{name: "retry.hold_time", def: retry.DefaultHoldTime, field: func(c *Config) any { return &c.Proxy.Retry.HoldTime },
		help: "How long output is held back at most."},
	{name: "retry.savepoints", def: "auto", field: func(c *Config) any { return &c.Retry.Savepoints },
		choices: []string{"auto", "strict", "relaxed", "off"},
		help:    "Emulate SAVEPOINT, RELEASE and ROLLBACK TO: to return to a savepoint the transaction is rolled back and run again up to it, and fails with 40001 where it answers otherwise than it did. strict: what ROLLBACK TO has discarded is run again, too, on a second connection, and must answer what it answered; relaxed: only what was read before its first write is; off: the server is asked. auto: strict for kind dsql, where retry.enabled is on, else off."},
	{name: "retry.off_users", def: []string{}, field: func(c *Config) any { return &c.Proxy.UsersWithoutReplay },
		help: "Users whose clients get their conflicts themselves. A client may also ask for that with the startup option sluice.retry=off, a statement with the comment /* sluice: no-retry */."},
	{name: "alert_threshold_conflicts_per_minute", def: 100, field: func(c *Config) any { return &c.Proxy.AlertConflictsPerMinute },
		help: "Conflicts in a minute above which a warning is logged. 0: never."},
}
