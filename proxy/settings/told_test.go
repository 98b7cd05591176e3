package settings

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/rewrite"
)

// candidates are values of settings, right and wrong, of which some are put together anew.
var candidates = map[string][]string{
	"search_path":        {"", " ", "a", "a, b", `"$user", public`, `"A ""b""",c`, "A,B", "a,,b", "a,", ",a", `"a`, `"a"b`, "a b", "\ta ,\n b ", `""`, "ä", "pg_catalog,x"},
	"timezone":           {"UTC", "utc", "Asia/Tokyo", "asia/tokyo", "EUROPE/BERLIN", "US/Pacific", "EST5EDT", "+3", "-03:30", "nowhere", "GMT", "Etc/GMT+5", "<+03>-3", "zulu", "America/Port-au-Prince"},
	"datestyle":          {"ISO, MDY", "mdy,iso", "SQL , DMY", "German, YMD", "postgres, european", "ISO", "dmy", "nosuch", "ISO, SQL", "ISO, MDY, DMY", "iso,us", "ISO DMY", "default", "postgresql, NonEuropean"},
	"intervalstyle":      {"postgres", "POSTGRES", "sql_standard", "iso_8601", "postgres_verbose", "nosuch", "", "Postgres_Verbose"},
	"extra_float_digits": {"0", "3", "-15", "4", "-16", "x", "", " 2", "2 ", "1.4", "0x2", "1e0", "010", "99999999999"},
	"enable_seqscan":     {"on", "off", "true", "f", "yes", "n", "1", "0", "o", "of", "TRUE", "maybe", "", "2"},
	"client_encoding":    {"UTF8", "UNICODE", "utf-8", "Unicode", "utf8", "LATIN1", "nosuch", "sql_ascii"},
	"application_name":   {"x", "", "a b", "ä", strings.Repeat("n", 63), strings.Repeat("n", 64), "a\tb"},
	"my.own":             {"", "x", " Y ", "'", `\`},
}

// Told tells what PostgreSQL tells, or the error that it gives; or it refuses. What the server is
// sent in the place of set_config has the effect of that.
func TestToldIsWhatPostgresTells(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	conn, err := pgconn.Connect(ctx, pgtest.Start(t).DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	ask := func(sql string) (string, *pgconn.PgError) {
		results, err := conn.Exec(ctx, sql).ReadAll()
		if e, ok := err.(*pgconn.PgError); ok {
			return "", e
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if len(r.Rows) == 1 && len(r.Rows[0]) == 1 {
				return string(r.Rows[0][0]), nil
			}
		}
		return "", nil
	}
	seen := func(name string) string {
		if name == "search_path" {
			name = "SELECT current_schemas(true)::text"
		} else {
			name = "SHOW " + name
		}
		got, _ := ask(name)
		return got
	}
	told, refused := 0, 0
	check := func(name, value string) {
		spelt := name
		if len(value)%2 == 1 {
			spelt = strings.ToUpper(name)
		}
		ask("BEGIN")
		want, failed := ask("SELECT set_config('" + spelt + "', " + QuoteLiteral(value) + ", true)")
		effect := seen(name)
		ask("ROLLBACK")
		got, err := SetConfigResult(spelt, value)
		switch {
		case err != nil && err.Code == "0A000":
			refused++
			return
		case failed != nil && err != nil:
			if err.Code != failed.Code || err.Message != failed.Message || err.Hint != failed.Hint || err.Detail != failed.Detail {
				t.Errorf("%s %q: %+v, PostgreSQL says %+v", name, value, err, failed)
			}
			return
		case failed != nil || err != nil || got != want:
			t.Errorf("%s %q: %q %v, PostgreSQL says %q %v", name, value, got, err, want, failed)
			return
		}
		told++
		ask("BEGIN")
		ask("SET LOCAL " + name + " TO " + rewrite.SettingSQL(name, value))
		if now := seen(name); now != effect {
			t.Errorf("%s %q: as a SET it is %q, else %q", name, value, now, effect)
		}
		ask("ROLLBACK")
	}
	r := rand.New(rand.NewPCG(1, 3))
	for _, name := range slices.Sorted(maps.Keys(candidates)) {
		values := candidates[name]
		for _, value := range values {
			check(name, value)
		}
		for range 200 { // halves of two, in any case
			a, b := values[r.IntN(len(values))], values[r.IntN(len(values))]
			value := a[:r.IntN(len(a)+1)] + b[r.IntN(len(b)+1):]
			if r.IntN(3) == 0 {
				value = strings.ToUpper(value)
			}
			check(name, strings.ToValidUTF8(value, ""))
		}
	}
	if told < 300 || refused < 50 {
		t.Errorf("%d values told, %d refused", told, refused)
	}
}
