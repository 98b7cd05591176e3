package dsqlsim_test

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// What only the catalog knows: the types, keys and numbers of what is there.
func TestSchemaRules(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) {
		l := &config.Limits
		l.Columns, l.KeyColumns, l.Indexes, l.DeclaredKeyBytes = 6, 3, 3, 50
		l.Tables, l.Views, l.Sequences, l.Schemas = 3, 1, 2, 2
	})
	conn := c.connect(t)
	for _, test := range []struct{ sql, code, message string }{
		{"CREATE TABLE t (id int PRIMARY KEY, b bytea, j jsonb, v varchar(40), w varchar(40), n text)", "", ""},
		{"CREATE INDEX ASYNC ON t (b)", "0A000", "datatype bytea is not supported in a key"},
		{"CREATE INDEX ASYNC ON t (id, j)", "0A000", "datatype jsonb is not supported in a key"},
		{"CREATE INDEX ASYNC ON t ((j -> 'a'))", "0A000", "datatype jsonb is not supported in a key"},
		{"CREATE INDEX ASYNC ON t ((j ->> 'a'))", "", ""},
		{"CREATE INDEX ASYNC ON t (v, w)", "54000", "key size greater than 50 bytes not supported"},
		{"CREATE INDEX ASYNC ON t (id, v, n, w)", "54011", "more than 3 column keys in an index are not supported"},
		{"CREATE INDEX ASYNC ON t (id) INCLUDE (b, j)", "", ""},
		{"CREATE INDEX ASYNC ON t (n)", "54000", "more than 3 indexes per table are not allowed"},
		{"ALTER TABLE t ADD COLUMN one_more int", "54011", "tables can have at most 6 columns"},
		{"ALTER TABLE t DROP COLUMN id", "0A000", "cannot drop primary key column id"},
		{"ALTER TABLE t DROP CONSTRAINT t_pkey", "0A000", "cannot drop primary key constraint t_pkey"},
		{"ALTER TABLE t DROP COLUMN w", "", ""},
		{"CREATE DOMAIN blob AS bytea", "", ""},
		{"CREATE TABLE u (id blob PRIMARY KEY)", "0A000", "datatype bytea is not supported in a key"},
		{"CREATE TABLE u (id int)", "", ""},
		{"ALTER TABLE u ALTER COLUMN id SET DEFAULT 1", "", ""},
		{"ALTER TABLE u DROP COLUMN id", "", ""},
		{"CREATE TABLE x (id int)", "", ""},
		{"CREATE TABLE y (id int)", "54000", "creating more than 3 tables not allowed"},
		{"CREATE VIEW a AS SELECT 1", "", ""},
		{"CREATE VIEW b AS SELECT 1", "54000", "creating more than 1 views not allowed"},
		{"CREATE SEQUENCE a1 CACHE 1", "", ""},
		{"CREATE SEQUENCE a2 CACHE 1", "", ""},
		{"CREATE SEQUENCE a3 CACHE 1", "54000", "creating more than 2 sequences is not allowed"},
		{"CREATE SCHEMA one", "", ""},
		{"CREATE SCHEMA two", "54000", "more than 2 schemas not allowed"},
		{"DROP TABLE t", "", ""},
		{"DROP SCHEMA public", "0A000", "feature not supported on system entity"},
	} {
		_, err := conn.Exec(deadline(t), test.sql).ReadAll()
		if test.code == "" {
			if err != nil {
				t.Errorf("%s: %v", test.sql, err)
			}
			continue
		}
		if e := pgError(t, err); e.Code != test.code || e.Message != test.message || e.Where != "" {
			t.Errorf("%s: got %s %q, where %q; want %s %q", test.sql, e.Code, e.Message, e.Where, test.code, test.message)
		}
	}
}

// The rules bind whoever comes through dsqlsim, and nobody else.
func TestSchemaRulesAreForClients(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	must(t, c.connect(t), "SELECT 1")
	c.direct(t, "CREATE TABLE t (id bytea PRIMARY KEY, v text)")
	c.direct(t, "CREATE INDEX ON t (v)")
	if got := strings.TrimSpace(c.direct(t, "SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass AND indisvalid")); got != "2" {
		t.Errorf("%s valid indexes, want 2", got)
	}
	c.direct(t, "ALTER TABLE t DROP COLUMN id")
}

func TestByteaKeysOnDemand(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.AllowByteaKeys = true })
	conn := c.connect(t)
	must(t, conn, "CREATE TABLE t (id bytea PRIMARY KEY, b bytea, j jsonb)")
	must(t, conn, "CREATE INDEX ASYNC ON t (b)")
	_, err := conn.Exec(deadline(t), "CREATE INDEX ASYNC ON t (j)").ReadAll()
	if code(err) != "0A000" {
		t.Errorf("jsonb: %v", err)
	}
}

// Two servers over one database, and a second start over it.
func TestCatalogIsShared(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	must(t, c.connect(t), "CREATE TABLE t (id int)")
	for range 2 {
		other := start(t, func(config *dsqlsim.Config) {
			config.Upstream = strings.Replace(config.Upstream, "dbname=", "dbname="+c.database+" application_name=", 1)
		})
		conn := other.connect(t)
		must(t, conn, "CREATE INDEX ASYNC ON t (id)")
		must(t, conn, "SELECT * FROM sys.jobs")
	}
}
