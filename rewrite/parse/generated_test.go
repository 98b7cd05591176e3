package parse

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGenerates(t *testing.T) {
	for sql, want := range map[string]bool{
		"INSERT INTO t (v) VALUES ($1) RETURNING id":                            true,
		"insert into t default values returning *":                              true,
		"WITH w AS (INSERT INTO t VALUES (1) RETURNING id) SELECT * FROM w":     true,
		"UPDATE t SET v = DEFAULT RETURNING v":                                  true,
		"SELECT nextval('s')":                                                   true,
		"SELECT pg_catalog.Now()":                                               true,
		"SELECT CURRENT_TIMESTAMP":                                              true,
		"UPDATE t SET at = clock_timestamp() RETURNING at":                      true,
		"SELECT gen_random_uuid(), 1":                                           true,
		"INSERT INTO t VALUES (1)":                                              false,
		"SELECT n FROM t WHERE id = 1":                                          false,
		"UPDATE t SET n = n + 1 RETURNING n":                                    false,
		"DELETE FROM t RETURNING id":                                            false,
		"SELECT 'nextval', \"now\", $$random()$$ -- now()\n FROM /* now() */ t": false,
		"":         false,
		"SELECT '": false,
	} {
		if got := MayGenerateValues([]byte(sql)); got != want {
			t.Errorf("%s: %v", sql, got)
		}
	}
}

// The look for returning finds it wherever and however it is written, and nothing else.
func TestHasReturning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"r", "re", "ret", "urning", "returnin", "g", "RETURNING", "ReTuRning", "returning", "ning", "\x00", "x", "\xff", "İ", "ſ", " "}), 0, 12).Draw(t, "parts"), "")
		want := false
		for i := range text {
			want = want || i+9 <= len(text) && IsWord([]byte(text[i:i+9]), "returning")
		}
		if got := hasReturning([]byte(text)); got != want {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
	})
}
