package config

import "github.com/sluice-proxy/sluice/rewrite"

// DDL says which statements of migration tools are carried out in other forms, because DSQL refuses them.
type DDL struct {
	CarryOut         string // exact, or all, which decides the keys at auto (deriveDDL)
	AddColumnDefault string // refuse, backfill or auto
	AddConstraint    string // steps or refuse
	SetNotNull       string // refuse, check or auto
	AlterColumnType  string // refuse, rewrite or auto
	CreateEnum       string // refuse, domain or auto
	InTransactions   string // refuse, autocommit, autocommit-destructive or auto
}

// carryOutAll is the value of ddl.carry_out that carries out what cannot be exact.
const carryOutAll = "all"

var ddlKeys = []Key{
	{Name: rewrite.CarryOutKey, Default: "exact", field: func(c *Config) any { return &c.DDL.CarryOut },
		Choices: []string{"exact", carryOutAll},
		help: "Whether Sluice carries out statements of migration tools that DSQL refuses and has no exact form of. exact: only those for which a key of its own says so. " +
			"all: ddl.add_column_default is backfill, ddl.alter_column_type rewrite, ddl.create_enum domain, ddl.in_transactions autocommit-destructive, ddl.set_not_null check, rewrite.advisory_locks table and rewrite.truncate batches, each where it is at auto; the client is told by a WARNING or NOTICE of each use that gives something up. " +
			"Where a client or user chooses it (client.may_set, client.users), the last two stay as they are. Kind dsql only."},
	{Name: "ddl.add_column_default", Default: "auto", field: func(c *Config) any { return &c.DDL.AddColumnDefault },
		Choices: []string{"auto", "refuse", "backfill"},
		help: "What becomes of ALTER TABLE ... ADD COLUMN with a DEFAULT, which DSQL refuses. refuse: its error gets a hint with the statements to write. backfill: for a constant, and sent alone outside of a transaction, " +
			"the column is added under another name, its default is set, the rows are given it in batches, each a transaction of its own, and then it gets its name; NOT NULL is given up, with a warning. Kind dsql only."},
	{Name: "ddl.add_constraint", Default: "steps", field: func(c *Config) any { return &c.DDL.AddConstraint },
		Choices: []string{"steps", "refuse"},
		help: "What becomes of ALTER TABLE that adds UNIQUE, FOREIGN KEY or CHECK, also with a column, which DSQL refuses. steps: where the statement is sent alone outside of a transaction, it is carried out in the steps that DSQL has, each a transaction of its own " +
			"(a unique index ASYNC and USING INDEX; NOT VALID and ALTER TABLE ASYNC ... VALIDATE CONSTRAINT), answered when the constraint is valid, and undone when one fails. refuse: its error gets a hint. On kind dsql only."},
	{Name: "ddl.set_not_null", Default: "auto", field: func(c *Config) any { return &c.DDL.SetNotNull },
		Choices: []string{"auto", "refuse", "check"},
		help:    "What becomes of ALTER COLUMN ... SET NOT NULL, and of ADD COLUMN ... NOT NULL without a DEFAULT, which DSQL refuses. refuse: its error gets a hint. check: a validated CHECK (column IS NOT NULL) is added as ddl.add_constraint adds others, with a warning: the errors of it have the code 23514, and the catalog shows the column as nullable. Kind dsql only."},
	{Name: rewrite.RetypeKey, Default: "auto", field: func(c *Config) any { return &c.DDL.AlterColumnType },
		Choices: []string{"auto", "refuse", "rewrite"},
		help: "What becomes of ALTER COLUMN ... TYPE, which DSQL refuses, between strings (varchar, text, char) or between numbers. refuse: its error gets a hint with the statements to write. rewrite: sent alone outside of a transaction, " +
			"a column of the type is added, is given the values in batches and indexes like the old one's, and takes its place, each step a transaction of its own, with a warning: it is the table's last column then, " +
			"and other clients are told for a moment that the column does not exist (42703). An INSERT without the names of columns is refused (23514) between the last batch and the drop of the old column. A column that is in the primary key, in a view or a generated column, or that a foreign key refers to, is left as it is, and so is one with NOT NULL unless ddl.set_not_null is check. Kind dsql only."},

	{Name: rewrite.EnumKey, Default: "auto", field: func(c *Config) any { return &c.DDL.CreateEnum },
		Choices: []string{"auto", "refuse", "domain"},
		help: "What becomes of CREATE TYPE ... AS ENUM, which DSQL refuses. refuse: its error gets a hint with the domain to write. domain: a domain over text with a CHECK stands for the type, with a warning: its values compare and sort as texts and not in the order of the type, " +
			"one that is none of them has the code 23514, and pg_enum and the functions of enumerations know nothing of it; DROP TYPE becomes DROP DOMAIN, ALTER TYPE ... ADD VALUE is carried out by ALTER DOMAIN where the server takes that (clusters of October 2026 do not: refused, with what to write), and RENAME VALUE stays refused. Kind dsql only."},

	{Name: rewrite.InTransactionsKey, Default: "auto", field: func(c *Config) any { return &c.DDL.InTransactions },
		Choices: append([]string{"auto"}, rewrite.InTransactionsChoices()...),
		help: "What becomes of DDL in a transaction beside other statements, which DSQL refuses. refuse: its error gets a hint with the migration tools' own switches. autocommit: the transaction is committed in front of DDL and behind it, " +
			"as late as can be, with a WARNING each time, and a ROLLBACK says what stays; one that holds a single statement of DDL is run as it is asked. autocommit-destructive: also behind DROP of a table, column or schema. With either, an ALTER TABLE of several commands that DSQL refuses is carried out command by command. Kind dsql only."},
}

// deriveDDL decides the keys at auto that carry out statements which DSQL refuses: ddl.carry_out says whether. It
// comes behind deriveClient, which needs the keys as they are written.
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

// ddlRules sets the rules of this topic, where statements are rewritten.
func (c *Config) ddlRules(rules *rewrite.Rules) {
	rules.Backfill = c.DDL.AddColumnDefault == "backfill"
	rules.Constraints = c.DDL.AddConstraint == "steps" && c.onDSQL()
	rules.NotNullCheck = c.DDL.SetNotNull == "check"
	rules.Retype = c.DDL.AlterColumnType == "rewrite"
	rules.Enums = c.DDL.CreateEnum == "domain"
	rules.InTransactions = rewrite.ParseInTransactions(c.DDL.InTransactions)
}

// carryOut checks ddl.carry_out, and the first of the keys that it decides.
func (v *validation) carryOut() {
	c := v.config
	v.want(c.DDL.CarryOut != carryOutAll || c.rewritesForDSQL(), rewrite.CarryOutKey,
		"PostgreSQL takes such DDL, and nothing is read where rewrite.enabled is false; set it to exact")
	v.want(c.DDL.AddColumnDefault == "refuse" || c.rewritesForDSQL(), rewrite.AddColumnDefaultKey,
		"columns are added so on kind dsql only, with rewrite.enabled; set it to refuse")
}

// ddl checks the other keys of the topic: other servers than DSQL take the statements themselves.
func (v *validation) ddl() {
	c := v.config
	v.want(c.DDL.AlterColumnType == "refuse" || c.rewritesForDSQL(), rewrite.RetypeKey,
		"PostgreSQL changes types itself, and nothing is read where rewrite.enabled is false; set it to refuse")
	v.want(c.DDL.CreateEnum == "refuse" || c.rewritesForDSQL(), rewrite.EnumKey,
		"PostgreSQL has enumerations, and nothing is read where rewrite.enabled is false; set it to refuse")
	v.want(c.DDL.InTransactions == "refuse" || c.rewritesForDSQL(), rewrite.InTransactionsKey,
		"PostgreSQL takes DDL in transactions, and nothing is read where rewrite.enabled is false; set it to refuse")
	v.want(c.DDL.SetNotNull == "refuse" || c.rewritesForDSQL() && c.DDL.AddConstraint == "steps", rewrite.SetNotNullKey,
		"a CHECK stands for NOT NULL on kind dsql only, with rewrite.enabled and ddl.add_constraint at steps; set it to refuse")
}
