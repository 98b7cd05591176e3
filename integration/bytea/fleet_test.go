package bytea

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// Two daemons of one cluster, of which one maps by encode() and decode() and the other by
// casts, read and write the same tables, whichever has made them: with the CHECK, by which
// they know the columns, or without, by name and type alone.
func TestMappingsMix(t *testing.T) {
	t.Parallel()
	for _, check := range []bool{true, false} {
		t.Run(fmt.Sprint("check ", check), func(t *testing.T) {
			t.Parallel()
			upstream := pgtest.Start(t)
			sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: upstream})
			var daemons fleet
			for _, m := range mappings {
				env := sim.Env().With(m.env).With(harness.Env{"DSQL_REWRITE_BYTEA_CHECK": fmt.Sprint(check), "DSQL_RESERVOIR_MAX_OPEN": "5"})
				daemons = append(daemons, &Client{Conn: session(t, harness.StartSluice(t, harness.SluiceConfig{Env: env}))})
			}
			for maker, m := range mappings {
				t.Run("made by "+m.name, func(t *testing.T) {
					table := fmt.Sprint("made", maker)
					daemons.mix(t, maker, table)
					byHand(t, upstream, table, check)
				})
			}
		})
	}
}

// fleet are sessions of daemons, in the order of mappings.
type fleet []*Client

// says is what a daemon answers.
func (f fleet) says(t *testing.T, by int, text string) string {
	t.Helper()
	o, err := f[by].runStatement(t.Context(), statement{text: text, simple: true})
	if err != nil {
		t.Fatal(err)
	}
	return o.code + strings.Join(o.rows, "; ")
}

// mix has each daemon write to a table that one of them makes, and all read it.
func (f fleet) mix(t *testing.T, maker int, table string) {
	if got := f.says(t, maker, "CREATE TABLE "+table+` (k bytea DEFAULT '\xff' PRIMARY KEY CHECK (length(k) < 9), n int, u bytea UNIQUE)`); got != "" {
		t.Fatal(got)
	}
	for by, m := range mappings {
		for text, want := range map[string]string{
			fmt.Sprintf(`INSERT INTO %s VALUES ('\x%02x00', %[2]d, '\x%02[2]x')`, table, by): "",
			"INSERT INTO " + table + " VALUES ('123456789', 1)":                              "23514",
			"DELETE FROM " + table + " WHERE n = 7":                                          "",
		} {
			if got := f.says(t, by, text); got != want {
				t.Errorf("%s: %s: %q, want %q", m.name, text, got, want)
			}
		}
		if got := f.says(t, by, "INSERT INTO "+table+" (n) VALUES (7) RETURNING k"); !strings.Contains(got, "ff") {
			t.Errorf("%s: the default is %s", m.name, got)
		}
	}
	for _, text := range []string{
		"SELECT k, n, u FROM %s ORDER BY k", `SELECT * FROM %s WHERE k = '\x0100'`, `SELECT n FROM %s WHERE k > '\x00ff' AND u IS NOT NULL`, "SELECT k, u FROM %s ORDER BY u, k",
		`SELECT n FROM %s WHERE k = ANY ('{"\\x0000","\\xff"}'::bytea[]) ORDER BY n`, `UPDATE %s SET n = 9, u = k WHERE u IN ('\x01', '\x0100') RETURNING *`,
	} {
		text := fmt.Sprintf(text, table)
		one, other := f.says(t, 0, text), f.says(t, 1, text)
		if one != other || one == "" || strings.HasPrefix(one, "42") {
			t.Errorf("%s: %q by encode(), %q by casts", text, one, other)
		}
	}
}

// byHand writes to a table past the daemons: its CHECKs take lower-case hexadecimal digits, two
// for each byte, and nothing else.
func byHand(t *testing.T, upstream *pgtest.Server, table string, checked bool) {
	conn, err := pgconn.Connect(t.Context(), upstream.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	hand := fleet{{Conn: conn}}
	const checks = "SELECT count(*) FROM pg_constraint WHERE contype = 'c' AND right(conname, 10) = '__byteahex' AND conrelid = "
	if got, want := hand.says(t, 0, checks+"'"+table+"'::regclass"), map[bool]string{true: "2", false: "0"}[checked]; !strings.Contains(got, want) {
		t.Errorf("%s CHECKs of digits, want %s", got, want)
	}
	for _, digits := range []string{"AB", "a", "zz", " ab", "ab ", "abc", "٠٠", "ab\n", `\xab`, "aB", "\u200bab"} {
		got := hand.says(t, 0, "INSERT INTO "+table+" (u__byteahex, k__byteahex) VALUES ('"+digits+"', '77')")
		if refused := strings.HasPrefix(got, "23514") || strings.HasPrefix(got, "22023"); checked && !refused {
			t.Errorf("%q is taken: %s", digits, got)
		}
		hand.says(t, 0, "DELETE FROM "+table+" WHERE k__byteahex = '77'")
	}
	if got := hand.says(t, 0, "INSERT INTO "+table+" (u__byteahex, k__byteahex) VALUES ('', '0123456789abcdef')"); got != "" {
		t.Errorf("no digits, and all of them: %s", got)
	}
}
