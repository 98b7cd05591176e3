package alter

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// The constraints of a column with a default call it by its name for the time being, and have
// the names that PostgreSQL gives those of the column.
func TestHeldColumns(t *testing.T) {
	rules := Rules{Dialect: true, AddColumn: true, Backfill: true, Constraints: true, NotNullCheck: true, SerialKeys: true, Sequences: true}
	without := rules
	without.NotNullCheck = false
	for _, test := range []struct{ sql, want string }{
		{"ALTER TABLE t ADD COLUMN a int DEFAULT 1", ""},
		{"ALTER TABLE t ADD COLUMN a int NOT NULL DEFAULT 1", `ALTER TABLE t ADD CONSTRAINT "t_a_sluice_not_null" CHECK (NEW IS NOT NULL) NOT VALID; ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_sluice_not_null"`},
		{"ALTER TABLE t ADD a int DEFAULT 1 CHECK (a > 0 AND b < a)", `ALTER TABLE t ADD CONSTRAINT "t_check" CHECK (NEW > 0 AND b < NEW) NOT VALID; ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_check"`},
		{`ALTER TABLE t ADD "A b" int CONSTRAINT c CHECK ("A b" > length('"A b"')) DEFAULT 1`, `ALTER TABLE t ADD CONSTRAINT "c" CHECK (NEW > length('"A b"')) NOT VALID; ALTER TABLE ASYNC t VALIDATE CONSTRAINT "c"`},
		{"ALTER TABLE t ADD a int DEFAULT 1 CHECK (A > f(a))", `ALTER TABLE t ADD CONSTRAINT "t_a_check" CHECK (NEW > f(NEW)) NOT VALID; ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_check"`},
		{"ALTER TABLE t ADD a int DEFAULT 1 UNIQUE DEFERRABLE REFERENCES p (q) ON DELETE CASCADE INITIALLY DEFERRED", `CREATE UNIQUE INDEX ASYNC "t_a_key" ON t (NEW); when its job (sys.jobs) is done ALTER TABLE t ADD CONSTRAINT "t_a_key" UNIQUE USING INDEX "t_a_key" DEFERRABLE; ` +
			`ALTER TABLE t ADD CONSTRAINT "t_a_fkey" FOREIGN KEY (NEW) REFERENCES p (q) ON DELETE CASCADE INITIALLY DEFERRED NOT VALID; ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_fkey"`},
		{"ALTER TABLE t ADD a int DEFAULT 1 CHECK (t.a > 0)", "none"},
		{"ALTER TABLE t ADD a int DEFAULT 1 PRIMARY KEY", "none"},
		{"ALTER TABLE t ADD a int DEFAULT f() UNIQUE", "none"},
		{"ALTER TABLE t ADD a int DEFAULT 1 NULL NOT NULL", "none"},
		{"ALTER TABLE t ADD a int GENERATED ALWAYS AS (b) STORED CHECK (a > 0)", "none"},
	} {
		got := "none"
		if a := plannedColumn(t, test.sql, rules); a != nil {
			if got = ""; a.Held != nil {
				got = strings.ReplaceAll(strings.Join(a.Held.stepStatements(), "; "), parse.QuoteIdent(a.TemporaryName()), "NEW")
			}
		}
		if got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.sql, got, test.want)
		}
		if a := plannedColumn(t, test.sql, without); a != nil && a.Held != nil && a.Held.hasNotNull() {
			t.Errorf("%s: NOT NULL is a CHECK where nobody has asked for that", test.sql)
		}
	}
	if a, b := plannedColumn(t, "ALTER TABLE t ADD a int DEFAULT 1 UNIQUE", rules), plannedColumn(t, "ALTER TABLE t ADD a int DEFAULT 1", rules); a.TemporaryName() == b.TemporaryName() {
		t.Error("what a statement leaves would be taken for what another has left")
	}
}
