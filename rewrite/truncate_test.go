package rewrite

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

func truncating(t *testing.T, policy TruncatePolicy) *Planner {
	t.Helper()
	config := Defaults()
	config.Rules.Truncate = policy
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TRUNCATE becomes a DELETE of each table, once, in one statement, which is verified and stands
// among others; where nobody has asked for that, it passes.
func TestTruncate(t *testing.T) {
	p, off := truncating(t, TruncateDelete), truncating(t, TruncateRefuse)
	for sql, want := range map[string][]string{
		"TRUNCATE t": {`DELETE FROM "t" WHERE (SELECT CASE`},
		`truncate table only "Odd ""t" * continue identity restrict`: nil, // PostgreSQL refuses both
		`TRUNCATE TABLE ONLY "Odd ""t" RESTART IDENTITY`:             {`DELETE FROM "Odd ""t" WHERE`, `relkind = 'S'`},
		"TRUNCATE s.t":                    {`WITH "sluice truncate" AS MATERIALIZED (SELECT (SELECT CASE`, `DELETE FROM "s"."t" WHERE (SELECT allowed FROM "sluice truncate")`},
		"TRUNCATE a, b, a, c CASCADE":     {`"sluice truncate 0" AS (DELETE FROM "a"`, `"sluice truncate 1" AS (DELETE FROM "b"`, ` DELETE FROM "c" WHERE`},
		"SELECT 1; TRUNCATE t; SELECT $1": {`SELECT 1; DELETE FROM "t" WHERE`, "; SELECT $1"},
		`TRUNCATE "sluice truncate 0", t`: nil,
		"TRUNCATE postgres.public.t":      nil,
	} {
		plan := p.Plan([]byte(sql))
		for _, words := range want {
			if !strings.Contains(plan.Text, words) {
				t.Errorf("%s: %q lacks %q", sql, plan.Text, words)
			}
		}
		if want == nil && plan.Text != "" {
			t.Errorf("%s: %q", sql, plan.Text)
		}
		if n := strings.Count(plan.Text, "DELETE FROM"); sql == "TRUNCATE a, b, a, c CASCADE" && n != 3 {
			t.Errorf("%s: %d tables", sql, n)
		}
		checkIdempotent(t, p, plan)
		if passed := off.Plan([]byte(sql)); passed.Text != "" || passed.MayRunInBatches() {
			t.Errorf("%s, refused: %q", sql, passed.Text)
		}
	}
	if p.Plan([]byte("TRUNCATE t")).MayRunInBatches() || !truncating(t, TruncateBatches).Plan([]byte("TRUNCATE t")).MayRunInBatches() ||
		truncating(t, TruncateBatches).Plan([]byte("TRUNCATE t; SELECT 1")).MayRunInBatches() {
		t.Error("batches are for a TRUNCATE alone, where they are asked for")
	}
	batches, ok := truncating(t, TruncateBatches).BatchedDelete(truncating(t, TruncateBatches).Plan([]byte("TRUNCATE t"))).PerTable()[0].BatchBuilder([]string{"id"})
	if tree, err := parse.Tree(batches(7)); !ok || err != nil || !tree.Child("stmts").Child("stmt").Is("DeleteStmt") || !strings.HasSuffix(batches(7), `ORDER BY "id" LIMIT 7)`) {
		t.Errorf("%v %v: %s", ok, err, batches(7))
	}
}

// The errors of the DELETE are those of the TRUNCATE, whatever the names are.
func TestTruncationRefusal(t *testing.T) {
	for _, test := range []struct {
		of                          Truncation
		code, message, want, detail string
	}{
		{Truncation{}, "22P02", "invalid input syntax for type boolean: \"sluice\x01key\x01ch\"ild\x01p\"arent\"", "0A000 cannot truncate a table referenced in a foreign key constraint", `Table "ch"ild" references "p"arent".`},
		{Truncation{Cascade: true}, "22P02", "invalid input syntax for type boolean: \"sluice\x01key\x01c\x01p\"", "0A000 TRUNCATE ... CASCADE is not supported where another table refers to the one", `Table "c" references "p".`},
		{Truncation{Restart: true}, "22P02", "invalid input syntax for type boolean: \"sluice\x01sequence\x01q\x01p\"", "0A000 TRUNCATE ... RESTART IDENTITY is not supported for a table with a sequence", ""},
		{Truncation{}, "22P02", "invalid input syntax for type boolean: \"sluice\x01kind\x01v\"", `42809 "v" is not a table`, ""},
		{Truncation{}, "22P02", "invalid input syntax for type boolean: \"sluice\x01system\x01pg_class\"", `42501 permission denied: "pg_class" is a system catalog`, ""},
		{Truncation{}, "55000", `cannot delete from view "v"`, `42809 "v" is not a table`, ""},
		{Truncation{}, "25006", "cannot execute DELETE in a read-only transaction", "25006 cannot execute TRUNCATE TABLE in a read-only transaction", ""},
		{Truncation{}, "22P02", `invalid input syntax for type boolean: "x"`, "", ""},
		{Truncation{}, "55000", "something else", "", ""},
		{Truncation{}, "23503", "violates", "", ""},
	} {
		got, detail := "", ""
		if r := test.of.TruncationRefusal(test.code, test.message); r != nil {
			got, detail = r.Code+" "+r.Message, r.Detail
		}
		if got != test.want || test.detail != "" && detail != test.detail {
			t.Errorf("%s %q: %s, %s", test.code, test.message, got, detail)
		}
	}
}
