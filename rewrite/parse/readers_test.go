package parse

import "testing"

// A text is cleared of a setting only where that can make no other constant of it.
func TestReadBy(t *testing.T) {
	t.Parallel()
	const date, tz, interval, any, letters = ByDateStyle, ByDateStyle | ByTimeZone, ByIntervalStyle, ByDateStyle | ByIntervalStyle | ByTimeZone, ByEncoding
	for text, want := range map[string]InputSettings{
		"SELECT 1": 0, "SELECT $1::date, 42": 0, "SELECT 'active'": 0, "SELECT * FROM t1 -- '02/03/2026'": 0,
		"SELECT \"02/03/2026\" FROM t": 0, "SELECT 'a', 'b'": 0, "SELECT 'it''s'": 0, "": 0,
		"SELECT '02/03/2026'::date": date, "SELECT date $$02/03/2026$$": date, "SELECT E'\\x30'": any, "SELECT U&'\\0030'": any,
		"SELECT 'Today'::date": tz, "SELECT '[yesterday,)'::daterange": tz, "SELECT 'to'\n'day'::date": byAll, "SELECT 'ALLBALLS'::timetz": tz,
		"SELECT interval '-1 2:00'": interval, "SELECT '\u00e9'": letters, "SELECT 1 AS \u00e9": letters, "SELECT 'x": byAll, "SELECT $t$now$t$": any,
		// By type, and by what no date can be.
		"SELECT * FROM t WHERE a = 'item2'": 0, "SELECT interval '1 day'": interval, "SELECT now() - '1 day'": interval, "SELECT now() > '2020-01-01'": any, "SELECT '1 day'::interval": interval,
		"SELECT '2020-01-01'::text": 0, "SELECT CAST('02/03/2026' AS date)": date, "SELECT cast('5' as int)": 0, "SELECT '5'::pg_catalog.int4": 0, "SELECT '5'::mine.int4": any, "SELECT '5'::mine": any,
		"SELECT timestamptz '2026-01-01 00:00'": tz, "SELECT '2026-01-01 00:00'::timestamp with time zone": tz, "SELECT '2020'::date[]": date, "SELECT json '{\"a\": 1}', 'now'::text": 0, "SELECT E'n\\x6fw'::date": tz,
		"SELECT 'jan2 2026'": any, "SELECT 'PT2H'": any, "SELECT '2020-01-01 item2'": any, "SELECT 'a1b2c3'": 0, "SELECT x.date '1'": any,
		// The type in front reads it, whatever it is cast to.
		"SELECT timestamptz '2026-01-01'::date": tz, "SELECT timestamptz '2026-01-01 00:00'::text": tz, "SELECT interval '1 day'::time": interval, "SELECT timestamptz(3) '2026-01-01'::date": any,
		"SELECT mine '2026-01-01'::date": any, "SELECT \"timestamptz\" '2026-01-01'::date": any, "SELECT timestamp with time zone '2026-01-01'::date": any, "SELECT text '2026-01-01'::date": 0,
		"SELECT a FROM t WHERE a > '2026-01-01'::date AND '2026-01-01'::date < b OR '2026-01-01'::date = c": date, "SELECT f(a, '2026-01-01'::date)": date, "'2026-01-01'::date": date,
		"SELECT pg_catalog.timestamptz '2026-01-01'::date": any, "SELECT CAST(timestamptz '2026-01-01' AS date)": tz, "SELECT CAST('2026-01-01'::timestamptz AS date)": tz,
	} {
		if got := InputSettingsOfText([]byte(text)); got != want {
			t.Errorf("%s: %b, want %b", text, got, want)
		}
	}
}
