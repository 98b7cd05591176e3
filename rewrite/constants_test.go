package rewrite

import "testing"

// A text is cleared only where no setting can make another constant of it.
func TestReadBySettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"SELECT 1": false, "SELECT $1::date, 42": false, "SELECT 'active'": false, "SELECT * FROM t1 -- '02/03/2026'": false,
		"SELECT \"02/03/2026\" FROM t": false, "SELECT 'a', 'b'": false, "SELECT 'it''s'": false, "": false,
		"SELECT '02/03/2026'::date": true, "SELECT date $$02/03/2026$$": true, "SELECT E'\\x30'": true, "SELECT U&'\\0030'": true,
		"SELECT 'Today'::date": true, "SELECT '[yesterday,)'::daterange": true, "SELECT 'to'\n'day'::date": true, "SELECT 'ALLBALLS'::timetz": true,
		"SELECT interval '-1 2:00'": true, "SELECT '\u00e9'": true, "SELECT 1 AS \u00e9": true, "SELECT 'x": true, "SELECT $t$now$t$": true,
	} {
		if got := ReadBySettings([]byte(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
