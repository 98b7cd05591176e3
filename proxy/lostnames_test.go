package proxy_test

import (
	"fmt"
	"strings"
	"testing"
)

// A statement whose Parse has no answer when its backend is lost is not there: its name
// means what it meant before, as behind any error.
func TestNamesBehindALoss(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE p (a int)")
	const write = "P w | INSERT /* doomed */ INTO p VALUES (1)\nB - | w\nE -\n"
	for name, test := range map[string]struct{ before, group, then, want string }{
		"a new name":                    {"", "P s | SELECT 1\n" + write + "S\n", "B - | s\nE -\nS", "C=26000"},
		"the statement that was lost":   {"", write + "S\n", "B - | w\nE -\nS", "C=26000"},
		"the unnamed statement":         {"", "P - | INSERT /* doomed */ INTO p VALUES (1)\nB - | -\nE -\nS\n", "B - | -\nE -\nS", "C=26000"},
		"a name that was closed":        {"P s | SELECT 1\nS\n< Z\n", write + "C S s\nS\n", "B - | s\nE -\nS", "D \\x00\\x01\\x00\\x00\\x00\\x011"},
		"a name that was made anew":     {"P s | SELECT 1\nS\n< Z\n", write + "C S s\nP s | SELECT 2\nS\n", "B - | s\nE -\nS", "D \\x00\\x01\\x00\\x00\\x00\\x011"},
		"known texts":                   {"P k | SELECT 3\nS\n< Z\nC S k\nS\n< Z\n", write + "P s | SELECT 3\nS\n", "B - | s\nE -\nS", "C=26000"},
		"what was answered by a Flush":  {"", "P s | SELECT 4\nH\n< 1\n" + write + "S\n", "B - | s\nE -\nS", "D \\x00\\x01\\x00\\x00\\x00\\x014"},
		"in a block":                    {"Q BEGIN\n< Z\nQ SELECT 1\n< Z\n", "P s | SELECT 1\n" + write + "S\n", "Q ROLLBACK\n< Z\nB - | s\nE -\nS", "C=26000"},
		"with a replay that is refused": {"Q BEGIN /* sluice: no-retry */\n< Z\nQ SELECT 1\n< Z\n", "P s | SELECT 1\n" + write + "S\n", "Q ROLLBACK\n< Z\nB - | s\nE -\nS", "C=26000"},
	} {
		for route, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
			if route == "replay" && name == "in a block" {
				continue // it is run again
			}
			var cut cutter
			s := startSluice(t, pg, append(opts, cut.option, maxOpen(2))...)
			cut.arm("doomed", true)
			got := perform(t, s.addr, test.before+test.group+"< Z\n"+test.then+"\n< Z\n")
			_, behind, _ := strings.Cut(got, "C=0800")
			_, behind, _ = strings.Cut(behind, strings.SplitN(test.then, "\n", 2)[0])
			if !strings.Contains(behind, test.want) {
				t.Errorf("%s, route %q: want %s behind the loss:\n%s", name, route, test.want, got)
			}
		}
	}
}

// A statement whose Parse is answered from memory, and whose Describe behind it fails, is not there: its
// client has been told an error in place of both, and prepares it again. A Parse that was answered stays.
func TestNamesBehindADescribe(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL}, "dsql, replay": {asDSQL, fastReplay}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", "CREATE TABLE gone (a int)")
			s := startSluice(t, pg, append(opts, maxOpen(1))...)
			c, holder := dialRaw(t, s.addr), dialRaw(t, s.addr)
			prepare := func(name, sql string) string {
				return c.say(t, "P "+name+" | "+sql+"\nD S "+name+"\nS\n< Z\n")
			}
			for _, sql := range []string{"SELECT 1", "SELECT 2", "SELECT a FROM gone"} { // known from now on
				prepare("k", sql)
				c.say(t, "C S k\nS\n< Z\n")
			}
			for _, end := range []string{"timeout", "table"} {
				sql := "SELECT 1"
				if end == "timeout" {
					c.say(t, "Q SET statement_timeout = 300\n< Z\n")
					holder.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
				} else {
					sql = "SELECT a FROM gone"
					pg.SQL(t, "postgres", "DROP TABLE gone")
				}
				got := prepare(end, sql)
				if !strings.Contains(got, "E S=") || strings.Contains(got, "1 \n") {
					t.Errorf("%s: %s", end, got)
				}
				if end == "timeout" {
					if got := c.say(t, "P j | SELECT 2\nB - | j\nE -\nS\n< Z\n"); !strings.HasPrefix(got, "1 \n") || !strings.Contains(got, "C=57014") {
						t.Errorf("without Describe: %s", got)
					}
					holder.say(t, "Q COMMIT\n< Z\n")
					c.say(t, "Q SET statement_timeout = 0\n< Z\n")
					if got := c.say(t, "B - | j\nE -\nS\n< Z\n"); !strings.Contains(got, "C SELECT 1") {
						t.Errorf("a statement that was prepared: %s", got)
					}
				} else {
					pg.SQL(t, "postgres", "CREATE TABLE gone (a int)")
				}
				if got := prepare(end, sql); strings.Contains(got, "E S=") || !strings.HasPrefix(got, "1 \n") {
					t.Errorf("%s, prepared again: %s", end, got)
				}
				if got := c.say(t, "B - | "+end+"\nE -\nS\n< Z\n"); strings.Contains(got, "E S=") {
					t.Errorf("%s, run: %s", end, got)
				}
			}
		})
	}
}

// A statement whose description the client was sent keeps its name where an attempt to run the transaction
// again is refused; one of which the client was sent nothing does not.
func TestNamesBehindARefusedReplay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ group, then, want string }{
		"described from memory":   {"P s | SELECT 1\nD S s\nH\n< T\n", "B - | s\nE -\nS", "C SELECT 1"},
		"described by the server": {"P s | SELECT 2\nD S s\nH\n< T\n", "B - | s\nE -\nS", "C SELECT 1"},
		"behind a description":    {"P s | SELECT 1\nD S s\nH\n< T\nP u | SELECT 3\n", "B - | u\nE -\nS", "C=26000"},
		"behind a portal's":       {"P r | SELECT set_config('TimeZone', 'UTC', true)\nB p | r\nD P p\nE p\nH\n< C\nP u | SELECT 3\n", "B - | u\nE -\nS", "C=26000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", changing)
			s := startSluice(t, pg, fastReplay, maxOpen(1))
			perform(t, s.addr, "P k | SELECT 1\nS\n< Z\nP l | SELECT 3\nS\n< Z\n") // known from now on
			pg.SQL(t, "postgres", "SELECT setval('changing', 1, false)")
			stumbles(t, pg, true)
			got := perform(t, s.addr, "Q BEGIN\n< Z\nP - | SELECT nextval('changing')\nB - | -\nE -\nH\n< C\n"+test.group+
				"P - | SELECT stumble(1)\nB - | -\nE -\nS\n< Z\nQ ROLLBACK\n< Z\n"+test.then+"\n< Z\n")
			_, behind, refused := strings.Cut(got, "Replay refused: ")
			if !refused || !strings.Contains(behind, test.want) {
				t.Errorf("want %s behind the refusal:\n%s", test.want, got)
			}
		})
	}
}

// Whatever answer to a Parse and the Describe behind it is the last that comes of a backend, its client is
// sent the error alone, and may take the name again.
func TestNamesAtEachLostAnswer(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name string
		opts []option
	}{{"postgres", nil}, {"dsql", []option{asDSQL}}} {
		for _, memory := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, known %v", kind.name, memory), func(t *testing.T) {
				t.Parallel()
				pg := newPostgres(t)
				var cut shortener
				s := startSluice(t, pg, append(kind.opts, cut.option, maxOpen(1))...)
				cuts := 0
				for at := range 6 {
					for keep := range 2 {
						c := dialRaw(t, s.addr)
						sql := fmt.Sprintf("SELECT $1::int + %d", at*2+keep)
						if memory {
							c.say(t, "P k | "+sql+"\nS\n< Z\nC S k\nS\n< Z\n")
						}
						c.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
						cut.arm(at, keep)
						got := c.say(t, "P s | "+sql+"\nD S s\nS\n< Z\n")
						cut.disarm()
						if !strings.Contains(got, "C=0800") || cut.types[at] == 'Z' {
							c.conn.Close()
							continue // no answer was cut
						}
						cuts++
						c.say(t, "Q ROLLBACK\n< Z\n")
						behind := c.say(t, "P s | "+sql+"\nD S s\nS\n< Z\n")
						if strings.Contains("\n"+got, "\n1 ") || !strings.HasPrefix(behind, "1 \nt ") {
							t.Errorf("frame %d cut to %d: %s\nthen: %s", at, keep, got, behind)
						}
						c.conn.Close()
					}
				}
				if cuts < 3 {
					t.Errorf("%d answers were cut", cuts)
				}
			})
		}
	}
}

// A name whose ParseComplete the client has is there, where a later statement of the same pipeline names
// what the server does not know: the answers before that error are sent in front of it.
func TestNamesInFrontOfAnUnknownName(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE known_rows (a int)")
	const unknown = "P - | SELECT nosuch\nB - | -\nE -\n"
	for name, test := range map[string]struct{ before, group, want string }{
		"a new name":               {"", "P s | SELECT 1\n" + unknown, "C SELECT 1"},
		"behind a write":           {"", "P s | INSERT INTO known_rows VALUES (7)\nB - | s\nE -\n" + unknown, "C INSERT 0 1"},
		"closed behind the error":  {"", "P s | SELECT 1\n" + unknown + "C S s\n", "C SELECT 1"},
		"taken behind the error":   {"", "P s | SELECT 1\n" + unknown + "C S s\nP s | SELECT 2\n", "\x011\n"},
		"made behind the error":    {"", unknown + "P s | SELECT 1\n", "C=26000"},
		"closed in front of it":    {"P s | SELECT 1\nS\n< Z\n", "C S s\n" + unknown, "C=26000"},
		"anew in front of it":      {"P s | SELECT 1\nS\n< Z\n", "C S s\nP s | SELECT 2\n" + unknown, "\x012\n"},
		"closed, taken behind it":  {"P s | SELECT 1\nS\n< Z\n", unknown + "C S s\nP s | SELECT 2\n", "\x011\n"},
		"of a text that is known":  {"P k | SELECT 1\nS\n< Z\n", "P s | SELECT 1\n" + unknown, "C SELECT 1"},
		"with a Describe":          {"", "P s | SELECT 1\nD S s\n" + unknown, "C SELECT 1"},
		"in a block":               {"Q BEGIN\n< Z\n", "P s | SELECT 1\n" + unknown, "C SELECT 1"},
		"in a block that has read": {"Q BEGIN\n< Z\nQ SELECT 1\n< Z\n", "P s | SELECT 1\n" + unknown, "C SELECT 1"},
	} {
		for route, opts := range map[string][]option{"postgres": {fastReplay}, "dsql": {asDSQL, fastReplay, mapping}} {
			s := startSluice(t, pg, append(opts, maxOpen(2))...)
			got := perform(t, s.addr, test.before+test.group+"S\n< Z\nQ ROLLBACK\n< Z\nB - | s\nE -\nS\n< Z\n")
			_, behind, _ := strings.Cut(got, "Q ROLLBACK")
			if !strings.Contains(strings.ReplaceAll(behind, `\x01`, "\x01"), test.want) {
				t.Errorf("%s, %s: want %q behind the error:\n%s", name, route, test.want, got)
			}
		}
	}
}
