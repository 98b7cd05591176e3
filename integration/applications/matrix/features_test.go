package matrix

import "github.com/sluice-proxy/sluice/integration/harness"

// phase is what one call of an application is for.
type phase string

const (
	up   phase = "up"
	use  phase = "use"
	down phase = "down"
)

// feature is a step, and a column of the table.
type feature struct {
	name  string
	phase phase
	about string
	needs string // the step whose rows it works with
	// spare says that nothing of use and down needs what this step of up does.
	spare bool
}

// features are in the order in which applications go through them.
var features = []feature{
	{name: "tables", phase: up, about: "the first migration: tables, keys, a foreign key, a unique constraint, an index"},
	{name: "alter", phase: up, about: "a later migration: a column that may be NULL, an index"},
	{name: "default", phase: up, about: "a later migration: a column NOT NULL with a default"},
	{name: "widen", phase: up, about: "a later migration: a varchar becomes longer", spare: true},
	{name: "again", phase: up, about: "migrating once more changes nothing", spare: true},
	{name: "crud", phase: use, about: "rows are created, read, changed and deleted, with JSON"},
	{name: "relations", phase: use, about: "related rows are loaded and counted; what breaks a unique or foreign key is refused"},
	{name: "nested", phase: use, about: "nested transactions, one of which fails"},
	{name: "bulk", phase: use, about: "5,000 rows in one call of the tool's"},
	{name: "batches", phase: use, about: "10,000 rows in transactions of 1,000"},
	{name: "stream", phase: use, about: "10,000 rows are read as the tool streams them", needs: "batches"},
	{name: "writers", phase: use, about: "16 writers insert, and raise counters that they share"},
	{name: "enum", phase: use, about: "an enumeration that is a type of its own (`CREATE TYPE`), where the tool makes one: a table with it, rows, and both go again"},
	{name: "down", phase: down, about: "all migrations are taken back"},
}

// configuration is a way to run Sluice, by the name that the table gives it.
type configuration struct {
	name  string
	about string
	env   harness.Env
	// migrates says that it changes nothing but what becomes of migrations: with tables that were laid by
	// hand, all else is then as before.
	migrates bool
}

// configurations are tried in this order: defaults first. A further switch is one more line.
var configurations = []configuration{
	{name: "as is", about: "Sluice's defaults"},
	{"autocommit", "`ddl.in_transactions: autocommit`", harness.Env{"DSQL_DDL_IN_TRANSACTIONS": "autocommit"}, true},
	{"backfill", "`ddl.add_column_default: backfill`", harness.Env{"DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"}, true},
	{"all", "`ddl.carry_out: all`", harness.Env{"DSQL_DDL_CARRY_OUT": "all"}, true},
}
