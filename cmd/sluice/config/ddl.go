package config

import (
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// DDL is the part of the configuration about those statements of migration tools that DSQL refuses.
type DDL struct {
	CarryOut         string // exact, or all, which decides the keys at auto (deriveDDL)
	AddColumnDefault string // refuse, backfill or auto
	AddConstraint    string // steps or refuse
	SetNotNull       string // refuse, check or auto
	AlterColumnType  string // refuse, rewrite or auto
	CreateEnum       string // refuse, domain or auto
	InTransactions   string // refuse, autocommit, autocommit-destructive or auto
}

// carryOutAll is the value of ddl.carry_out that enables all keys below ddl whose value is auto.
const carryOutAll = "all"

var ddlKeys = []Key{
	{Name: rewrite.CarryOutKey, Default: "exact", field: func(c *Config) any { return &c.DDL.CarryOut },
		Choices: []string{"exact", carryOutAll},
		help: "Whether Sluice carries out statements of migration tools that DSQL refuses and has no exact equivalent of. exact: only those that another key enables. " +
			"all: keys at auto become ddl.add_column_default backfill, ddl.alter_column_type rewrite, ddl.create_enum domain, ddl.in_transactions autocommit-destructive, ddl.set_not_null check, rewrite.advisory_locks table and rewrite.truncate batches. The client gets a WARNING or NOTICE at each use that weakens a guarantee. " +
			"If a client or user chooses it (client.may_set, client.users), the last two do not change. Kind dsql only."},
	{Name: "ddl.add_column_default", Default: "auto", field: func(c *Config) any { return &c.DDL.AddColumnDefault },
		Choices: []string{"auto", "refuse", "backfill"},
		help: "How ALTER TABLE ... ADD COLUMN with a DEFAULT is run, which DSQL refuses. refuse: its error gets a hint with the statements to write. " +
			"backfill: for a constant default, if the statement is sent alone outside of a transaction. The column is added under another name, its default is set, the rows get it in batches, and the column gets its name. Each step is a separate transaction. NOT NULL is dropped with a warning. Kind dsql only."},
	{Name: "ddl.add_constraint", Default: "steps", field: func(c *Config) any { return &c.DDL.AddConstraint },
		Choices: []string{"steps", "refuse"},
		help: "How ALTER TABLE that adds UNIQUE, FOREIGN KEY or CHECK is run, also with a column, which DSQL refuses. steps: if the statement is sent alone outside of a transaction, it runs in steps, each a separate transaction " +
			"(a unique index ASYNC and USING INDEX; NOT VALID and ALTER TABLE ASYNC ... VALIDATE CONSTRAINT). It is answered when the constraint is valid, and undone if a step fails. refuse: its error gets a hint. Kind dsql only."},
	{Name: "ddl.set_not_null", Default: "auto", field: func(c *Config) any { return &c.DDL.SetNotNull },
		Choices: []string{"auto", "refuse", "check"},
		help:    "How ALTER COLUMN ... SET NOT NULL is run, and ADD COLUMN ... NOT NULL without a DEFAULT, which DSQL refuses. refuse: its error gets a hint. check: a validated CHECK (column IS NOT NULL) is added, as by ddl.add_constraint, with a warning. Its errors have the code 23514, and the catalog shows the column as nullable. Kind dsql only."},
	{Name: alter.RetypeKey, Default: "auto", field: func(c *Config) any { return &c.DDL.AlterColumnType },
		Choices: []string{"auto", "refuse", "rewrite"},
		help: "How ALTER COLUMN ... TYPE is run, which DSQL refuses, between strings (varchar, text, char) or between numbers. refuse: its error gets a hint with the statements to write. " +
			"rewrite: if the statement is sent alone outside of a transaction, a column of the new type is added, gets the values in batches and indexes like the old one's, and replaces the old one. Each step is a separate transaction, with a warning. The column becomes the table's last. " +
			"For a moment other clients get the error that the column does not exist (42703). Between the last batch and the drop of the old column, an INSERT without column names is refused (23514). " +
			"Not changed are columns in the primary key, a view or a generated column, and columns that a foreign key references. A NOT NULL column needs ddl.set_not_null check. Kind dsql only."},

	{Name: alter.EnumKey, Default: "auto", field: func(c *Config) any { return &c.DDL.CreateEnum },
		Choices: []string{"auto", "refuse", "domain"},
		help: "How CREATE TYPE ... AS ENUM is run, which DSQL refuses. refuse: its error gets a hint with the domain to write. domain: a domain over text with a CHECK replaces the type, with a warning. Its values compare and sort as text, not in the order of the type. " +
			"An invalid value has the code 23514, and pg_enum and enumeration functions do not know the type. DROP TYPE becomes DROP DOMAIN. ALTER TYPE ... ADD VALUE runs as ALTER DOMAIN if the server takes that (clusters of October 2026 do not: refused, with a hint). RENAME VALUE is refused. Kind dsql only."},

	{Name: rewrite.InTransactionsKey, Default: "auto", field: func(c *Config) any { return &c.DDL.InTransactions },
		Choices: append([]string{"auto"}, rewrite.InTransactionsChoices()...),
		help: "How DDL in a transaction with other statements is run, which DSQL refuses. refuse: its error gets a hint with the switches of migration tools. autocommit: the transaction is committed before and after DDL, as late as possible, with a WARNING each time; ROLLBACK says what stays. " +
			"A transaction with a single DDL statement is not divided. autocommit-destructive: also after DROP of a table, column or schema. With either, an ALTER TABLE of several commands that DSQL refuses runs command by command. Kind dsql only."},
}

// deriveDDL replaces the value auto in the keys that ddl.carry_out decides. It runs after deriveClient, which needs
// the values as they are written.
func (c *Config) deriveDDL() {
	all := c.DDL.CarryOut == carryOutAll && c.rewritesForDSQL()
	for _, key := range []struct {
		value   *string
		carried string
		can     bool
	}{
		{&c.DDL.AddColumnDefault, "backfill", true},
		{&c.DDL.AlterColumnType, "rewrite", true},
		{&c.DDL.CreateEnum, "domain", true},
		{&c.DDL.InTransactions, rewrite.CommitDrops.String(), true},
		{&c.DDL.SetNotNull, "check", c.DDL.AddConstraint == "steps"},
		{&c.Rewrite.AdvisoryLocks, "table", true},
		{&c.Rewrite.Truncate, string(rewrite.TruncateBatches), true},
	} {
		switch {
		case *key.value != "auto":
		case all && key.can:
			*key.value = key.carried
		default:
			*key.value = "refuse"
		}
	}
}

// setDDLRules sets the rules for DDL in rules, if statements are rewritten.
func (c *Config) setDDLRules(rules *rewrite.Rules) {
	rules.Backfill = c.DDL.AddColumnDefault == "backfill"
	rules.Constraints = c.DDL.AddConstraint == "steps" && c.isDSQL()
	rules.NotNullCheck = c.DDL.SetNotNull == "check"
	rules.Retype = c.DDL.AlterColumnType == "rewrite"
	rules.Enums = c.DDL.CreateEnum == "domain"
	rules.InTransactions = rewrite.ParseInTransactions(c.DDL.InTransactions)
}

// checkCarryOut checks ddl.carry_out and ddl.add_column_default.
func (v *validator) checkCarryOut() {
	c := v.config
	v.require(c.DDL.CarryOut != carryOutAll || c.rewritesForDSQL(), rewrite.CarryOutKey,
		"PostgreSQL takes such DDL, and nothing is read where rewrite.enabled is false; set it to exact")
	v.require(c.DDL.AddColumnDefault == "refuse" || c.rewritesForDSQL(), alter.AddColumnDefaultKey,
		"columns are added so on kind dsql only, with rewrite.enabled; set it to refuse")
}

// checkDDL checks the keys below ddl that checkCarryOut does not check. Servers other than DSQL run the statements
// themselves.
func (v *validator) checkDDL() {
	c := v.config
	v.require(c.DDL.AlterColumnType == "refuse" || c.rewritesForDSQL(), alter.RetypeKey,
		"PostgreSQL changes types itself, and nothing is read where rewrite.enabled is false; set it to refuse")
	v.require(c.DDL.CreateEnum == "refuse" || c.rewritesForDSQL(), alter.EnumKey,
		"PostgreSQL has enumerations, and nothing is read where rewrite.enabled is false; set it to refuse")
	v.require(c.DDL.InTransactions == "refuse" || c.rewritesForDSQL(), rewrite.InTransactionsKey,
		"PostgreSQL takes DDL in transactions, and nothing is read where rewrite.enabled is false; set it to refuse")
	v.require(c.DDL.SetNotNull == "refuse" || c.rewritesForDSQL() && c.DDL.AddConstraint == "steps", alter.SetNotNullKey,
		"a CHECK stands for NOT NULL on kind dsql only, with rewrite.enabled and ddl.add_constraint at steps; set it to refuse")
}
