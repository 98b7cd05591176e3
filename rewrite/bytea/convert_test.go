package bytea

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// What converts takes bytea and nothing else, whatever bytea_output is: where digits are made
// of a text that depends on it, any value but hex is an error and never other digits.
func TestConversions(t *testing.T) {
	t.Parallel()
	conn := pgtest.Start(t).Connect(t)
	ask := func(expression string) string {
		t.Helper()
		results, err := conn.Exec(t.Context(), "SELECT "+expression).ReadAll()
		var refused *pgconn.PgError
		switch {
		case errors.As(err, &refused):
			return refused.Code
		case err != nil:
			t.Fatal(err)
		case results[0].Rows[0][0] == nil:
			return "NULL"
		}
		return string(results[0].Rows[0][0])
	}
	for how, by := range map[string]*Conversion{"functions": Functions, "casts": Casts} {
		for _, output := range []string{"hex", "escape"} {
			ask("set_config('bytea_output', '" + output + "', false)")
			refused := by == Casts && output == "escape"
			for value, want := range map[string]string{
				"'\\x00ffAB'": "00ffab", "'\\x'": "", "''": "", "NULL": "NULL", "NULL::bytea": "NULL", "'\\xzz'": "22023",
				"'zzabcd'": "7a7a61626364", "'\\x61'::bytea || 'b'": "6162", "'a'::text": "42883", "1": "42883", "ARRAY['a']": "42883", "now()": "42883",
			} {
				if refused && want != "NULL" && !strings.HasPrefix(want, "42") && want != "22023" {
					want = "22P02"
				}
				if got := ask(by.HexSQL(value)); got != want {
					t.Errorf("%s with bytea_output %s: the digits of %s are %q, want %q", how, output, value, got, want)
				}
			}
			for digits, want := range map[string]string{"'00ff'::text": "00ff", "''::text": "", "NULL::text": "NULL"} {
				if got := ask("encode(" + by.ByteaSQL(digits) + ", 'hex')"); got != want {
					t.Errorf("%s with bytea_output %s: %s are the digits of %q, want %q", how, output, digits, got, want)
				}
			}
		}
	}
}
