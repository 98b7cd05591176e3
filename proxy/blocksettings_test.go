package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// blockTexts are what a setting can go through.
var blockTexts = []string{
	"BEGIN", "SET TimeZone = 'Asia/Tokyo'", "SET TimeZone = 'Europe/Berlin'", "SET LOCAL TimeZone = 'Asia/Aden'", "RESET TimeZone", "SET work_mem = '5MB'", "SET work_mem = '6MB'",
	"SAVEPOINT s", "SAVEPOINT t", "ROLLBACK TO s", "ROLLBACK TO t", "RELEASE s",
	"COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "SELECT 1/0",
}

// blockForms are the ways to send statements: one by one, as one string, by the extended protocol in a
// group each, in one group, and in pairs of one string.
var blockForms = map[string]func(texts []string) string{
	"alone":  func(texts []string) string { return "Q " + strings.Join(texts, "\n< Z\nQ ") + "\n< Z\n" },
	"string": func(texts []string) string { return "Q " + strings.Join(texts, "; ") + "\n< Z\n" },
	"groups": func(texts []string) string {
		var b strings.Builder
		for _, text := range texts {
			b.WriteString(ext(text) + "S\n< Z\n")
		}
		return b.String()
	},
	"group": func(texts []string) string {
		var b strings.Builder
		for _, text := range texts {
			b.WriteString(ext(text))
		}
		return b.String() + "S\n< Z\n"
	},
	"pairs": func(texts []string) string {
		var b strings.Builder
		for i := 0; i < len(texts); i += 2 {
			fmt.Fprintf(&b, "Q %s\n< Z\n", strings.Join(texts[i:min(i+2, len(texts))], "; "))
		}
		return b.String()
	},
}

// In whatever way a block ends, its client keeps what it would keep on a connection of its own,
// and the next client finds nothing of it.
func TestSettingsThroughBlocks(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"postgres": nil, "replay": {withReplay}, "dsql": {asDSQL, fastReplay}} {
		t.Run(name, func(t *testing.T) {
			s := startSluice(t, pg, append(opts, maxOpen(1))...)
			direct, through, other := dialRaw(t, pg.addr), dialRaw(t, s.addr), dialRaw(t, s.addr)
			const look = "Q SELECT current_setting('TimeZone'), current_setting('work_mem')\n< Z\n"
			fresh := dialRaw(t, pg.addr).play(t, look)
			check := func(form string, texts []string) {
				t.Helper()
				script := blockForms[form](texts) + "Q ROLLBACK\n< Z\n"
				want, got := direct.play(t, script), through.play(t, script)
				if got != want {
					t.Fatalf("%s\n%s", script, firstDifference(got, want))
				}
				if found := other.play(t, look); found != fresh {
					t.Fatalf("%s\nanother client finds %s", script, found)
				}
				if got, want := through.play(t, look), direct.play(t, look); got != want {
					t.Fatalf("%s\nits client finds %s\nand not %s", script, got, want)
				}
				direct.play(t, "Q DISCARD ALL\n< Z\n")
				through.play(t, "Q DISCARD ALL\n< Z\n")
			}
			for _, texts := range [][]string{
				{"BEGIN", "SET TimeZone = 'Asia/Tokyo'", "SAVEPOINT s", "ROLLBACK TO s; RELEASE s", "COMMIT"},
				{"BEGIN", "SET TimeZone = 'Asia/Tokyo'", "COMMIT AND CHAIN", "ROLLBACK"},
				{"BEGIN", "SET work_mem = '7MB'", "COMMIT AND CHAIN", "ROLLBACK"}, // which no server reports
				{"BEGIN", "SAVEPOINT s", "SET TimeZone = 'Asia/Tokyo'", "ROLLBACK TO s", "COMMIT"},
				{"BEGIN", "SET work_mem = '5MB'", "SAVEPOINT s", "SET work_mem = '6MB'", "ROLLBACK TO s", "COMMIT"},
				{"BEGIN", "SAVEPOINT s", "SET TimeZone = 'Asia/Tokyo'", "SELECT 1/0", "ROLLBACK TO s; SELECT 1", "COMMIT"},
			} {
				check("alone", texts)
			}
			check("groups", []string{"BEGIN", "SAVEPOINT s", "SET TimeZone = 'Asia/Tokyo'", "ROLLBACK TO s", "SELECT 1", "COMMIT"})
			rnd := rand.New(rand.NewPCG(10, 15))
			for range 100 / proxy.OneIn {
				texts := make([]string, 2+rnd.IntN(7))
				for i := range texts {
					if texts[i] = blockTexts[rnd.IntN(len(blockTexts))]; name == "dsql" { // refused in a failed block
						texts[i] = strings.TrimSuffix(texts[i], " AND CHAIN")
					}
				}
				if rnd.IntN(3) > 0 {
					texts[0] = "BEGIN"
				}
				for form := range blockForms {
					check(form, texts)
				}
			}
		})
	}
}

// play sends a script on an open connection, and returns what was answered.
func (c *rawClient) play(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		verb, rest, _ := strings.Cut(line, " ")
		if verb == "<" {
			out.WriteString(c.readThrough(strings.ReplaceAll(rest, " ", "")))
			continue
		}
		out.WriteString(line + "\n")
		c.queue(encodeLine(t, verb, rest))
	}
	return out.String()
}

// A RESET inside a block puts the server's own value in force. Where the server does not
// take the client's startup value back, the next statement must not run under another. The
// block has failed, and its session goes on.
func TestStartupValueThatIsRefusedInABlock(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TEXT SEARCH CONFIGURATION mine (COPY = simple)")
	s := startSluice(t, pg, maxOpen(2))
	tests := []struct {
		c          *rawClient
		next, code string
	}{{nil, "Q SHOW default_text_search_config", "22023"}, {nil, "B - | nosuch\nS", "26000"}}
	for i := range tests {
		tests[i].c, _ = startRaw(t, s.addr, map[string]string{"default_text_search_config": "public.mine"})
		tests[i].c.say(t, "Q SELECT 1\nQ BEGIN\nQ SELECT 1\n< ZZZ")
	}
	pg.SQL(t, "postgres", "DROP TEXT SEARCH CONFIGURATION mine")
	for _, test := range tests {
		test.c.say(t, "Q SELECT FROM pg_class LIMIT 1\n< Z") // the server looks at what others have dropped
		got := test.c.say(t, "Q RESET ALL\n"+test.next+"\nQ SELECT 8\nQ ROLLBACK\n< ZZZZ")
		if !strings.Contains(got, "C="+test.code) || strings.Contains(got, "D ") || !strings.HasSuffix(got, "C ROLLBACK\\x00\nZ I\n") {
			t.Errorf("%s\n%s", test.next, got)
		}
	}
}
