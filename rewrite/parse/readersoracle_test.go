package parse

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// constantForms are where a constant stands, with {c} for what is in its quotes.
var constantForms = []string{
	"'{c}'::date", "date '{c}'", "CAST('{c}' AS timestamp)", "timestamptz '{c}'", "'{c}'::timestamp with time zone", "'{c}'::time", "timetz '{c}'", "interval '{c}'", "'{c}'::pg_catalog.interval",
	"'{c}'::text", "varchar '{c}'", "'[{c},)'::daterange", "'[{c},)'::tsrange", "'[{c},)'::tstzrange", "'{{c}}'::date[]", "'{{c}}'::interval[]",
	"now() > '{c}'", "now() - '{c}'", "current_date = '{c}'", "localtime > '{c}'", "localtimestamp < '{c}'", "'{c}' || ''", "E'{c}'::date", "'x' = '{c}'", "date '2026-01-01' + '{c}'",
	// Two types are said: the one in front reads it.
	"timestamptz '{c}'::date", "timestamp with time zone '{c}'::date", "timestamptz(3) '{c}'::date", "pg_catalog.timestamptz '{c}'::date", "\"timestamptz\" '{c}'::date", "interval '{c}'::time",
	"time with time zone '{c}'::time", "CAST(timestamptz '{c}' AS date)", "zoned '{c}'::date", "CASE WHEN true THEN '{c}'::date END", "(1 = 2 OR '{c}'::date IS NULL)",
}

// drawConstant draws what may be in quotes: words and numbers of dates, times and intervals, and of neither.
func drawConstant(r *rand.Rand) string {
	all := []string{"1", "02", "03", "13", "2026", "20260203", "02/03/2026", "03-02-2026", "02.03.2026", "2026-02-03", "10:30", "-1", "-1 2:00", "1-2", "+02", "T10:30", "Z", "10:30:00",
		"jan", "Feb3", "mon", "today", "tomorrow", "yesterday", "allballs", "epoch", "infinity", "bc", "am", "UTC", "Europe/Berlin", "EST5EDT", "item2", "x", "know", "v2", "PT2H", "P1Y2M", "J2461075", "jan2", "d2", "h3", "item", "on", "at",
		"day", "days", "year", "hours", "ago", "d", "h", "m", "s", "mons", "1d", "2h", "-3 mons", "week"}
	words := make([]string, 1+r.IntN(3))
	for i := range words {
		words[i] = all[r.IntN(len(all))]
	}
	return strings.Join(words, []string{" ", " ", " ", "", "-", "_", ","}[r.IntN(7)])
}

// TestReadByAsPostgres parses constants under other settings, and evaluates them under the same: where PostgreSQL
// has made another constant, InputSettingsOfText says so.
func TestReadByAsPostgres(t *testing.T) {
	t.Parallel()
	conn := pgtest.Start(t).Connect(t)
	if _, err := conn.Exec(t.Context(), "CREATE DOMAIN zoned AS timestamptz").ReadAll(); err != nil {
		t.Fatal(err)
	}
	others := []string{"DateStyle TO 'SQL, DMY'", "IntervalStyle TO sql_standard", "TimeZone TO 'Pacific/Kiritimati'"}
	bits := []InputSettings{ByDateStyle, ByIntervalStyle, ByTimeZone}
	const usual = "SET DateStyle TO 'ISO, MDY'; SET IntervalStyle TO postgres; SET TimeZone TO 'America/New_York'; "
	constant := func(sql, other string) string {
		_, err := conn.Exec(t.Context(), usual+other).ReadAll()
		if err == nil {
			_, err = conn.Exec(t.Context(), "PREPARE p AS SELECT ("+sql+")::text").ReadAll()
		}
		if err != nil {
			return "none"
		}
		value := ""
		if results, err := conn.Exec(t.Context(), usual+"EXECUTE p").ReadAll(); err != nil {
			value = err.Error() // such as the difference of infinite times
		} else {
			value = fmt.Sprintf("%q", results[len(results)-1].Rows)
		}
		if _, err := conn.Exec(t.Context(), "DEALLOCATE p").ReadAll(); err != nil {
			t.Fatal(err)
		}
		return value
	}
	r := rand.New(rand.NewPCG(1, 2))
	differ, cleared := [3]int{}, [3]int{}
	for range 1000 {
		sql := strings.Replace(constantForms[r.IntN(len(constantForms))], "{c}", drawConstant(r), 1)
		if strings.HasPrefix(sql, "now() -") || strings.Contains(sql, "local") { // what it is compared with goes on
			sql = strings.NewReplacer("now()", "timestamptz '2026-05-06 07:08+00'", "localtimestamp", "timestamp '2026-05-06 07:08'", "localtime", "time '07:08'").Replace(sql)
		}
		by, was := InputSettingsOfText([]byte("SELECT "+sql)), constant(sql, "")
		for i, other := range others {
			switch is := constant(sql, "SET "+other); {
			case is != was && by&bits[i] == 0:
				t.Errorf("%s is %s, and %s with %s", sql, was, is, other)
			case is != was:
				differ[i]++
			case by&bits[i] == 0 && was != "none":
				cleared[i]++
			}
		}
	}
	t.Logf("%d differ by setting, %d are cleared", differ, cleared)
	for i := range others {
		if differ[i] == 0 || cleared[i] < 50 {
			t.Errorf("%d differ and %d are cleared of %s: the test has lost its force", differ[i], cleared[i], others[i])
		}
	}
}
