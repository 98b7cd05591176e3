package proxy_test

import (
	"strings"
	"testing"
)

// errorFields sends lines and returns the fields of the first error up to ReadyForQuery.
func errorFields(t *testing.T, c *rawClient, lines ...string) map[byte]string {
	t.Helper()
	for _, l := range lines {
		verb, rest, _ := strings.Cut(l, " ")
		c.queue(encodeLine(t, verb, rest))
	}
	c.flush()
	var fields map[byte]string
	for {
		typ, payload, err := c.frame()
		if err != nil {
			t.Fatal(err)
		}
		if typ == 'Z' {
			return fields
		}
		for typ == 'E' && fields == nil {
			fields = map[byte]string{}
			for len(payload) > 1 {
				v, rest, _ := strings.Cut(string(payload[1:]), "\x00")
				fields[payload[0]] = v
				payload = []byte(rest)
			}
		}
	}
}

// Drivers prepare again when an error's routine says that it helps (asyncpg, pgjdbc,
// postgres.js, Rails): it is PostgreSQL's, also where the error is Sluice's.
func TestErrorsNameTheirSource(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, maxOpen(1))
	for name, lines := range map[string][]string{
		"bind":     {"B - | nosuch", "E -", "S"},
		"describe": {"D S nosuch", "S"},
	} {
		want, got := errorFields(t, dialRaw(t, pg.addr), lines...), errorFields(t, dialRaw(t, s.addr), lines...)
		for _, f := range []byte("CFR") { // the line differs between minor versions
			if got[f] != want[f] || got['L'] == "" {
				t.Errorf("%s: field %c is %q, not %q", name, f, got[f], want[f])
			}
		}
	}
	direct, first, second := dialRaw(t, pg.addr), dialRaw(t, s.addr), dialRaw(t, s.addr)
	for _, c := range []*rawClient{direct, first} {
		errorFields(t, second, "Q CREATE TABLE sourced (a int)")
		errorFields(t, c, "P s | SELECT * FROM sourced", "D S s", "S")
		errorFields(t, second, "Q ALTER TABLE sourced ALTER a TYPE text")
		errorFields(t, second, "P s | SELECT * FROM sourced", "D S s", "S")
		fields := errorFields(t, c, "B - | s", "E -", "S")
		errorFields(t, second, "Q DROP TABLE sourced")
		errorFields(t, second, "C S s", "S")
		if fields['C'] != "0A000" || fields['R'] != "RevalidateCachedQuery" || fields['F'] != "plancache.c" || fields['L'] == "" {
			t.Errorf("the plan changed: %v", fields)
		}
	}
}
