package dsqlsim_test

import (
	"testing"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// With WithoutEncode encode() and decode() do not exist, wherever they stand.
func TestWithoutEncode(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.WithoutEncode = true })
	c.direct(t, "CREATE TABLE t (k text PRIMARY KEY, encode int)")
	const (
		noEncode = "function pg_catalog.encode(bytea, unknown) does not exist"
		noDecode = "function decode(text, unknown) does not exist"
	)
	for sql, want := range map[string]string{
		`SELECT pg_catalog.encode('\x00', 'hex')`:                               noEncode,
		"SELECT 1 FROM t WHERE k = pg_catalog.\"encode\"('', 'hex')":            noEncode,
		"INSERT INTO t (k) VALUES (pg_catalog.encode('a', 'hex'))":              noEncode,
		"DELETE FROM t WHERE DECODE(k, 'hex') = ''":                             noDecode,
		"EXPLAIN SELECT decode(k, 'hex') FROM t":                                noDecode,
		"CREATE TABLE u (k text CHECK (decode(k, 'hex') = ''))":                 noDecode,
		"SELECT encode, k AS decode FROM t WHERE k = 'encode(k, ''hex'')'":      "",
		"SELECT ('\\x' || k)::bytea, substring('\\x00'::bytea::text, 3) FROM t": "",
	} {
		for _, block := range []bool{false, true} {
			for _, simple := range []bool{false, true} {
				conn := c.connect(t)
				if block {
					must(t, conn, "BEGIN")
				}
				if got := runStep(t, conn, simple, sql, nil); got.Message != want || (got.Code == "42883") != (want != "") {
					t.Errorf("%s (in a block %v, simple %v): %+v, want %q", sql, block, simple, got, want)
				}
			}
		}
	}
}
