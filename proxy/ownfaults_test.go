package proxy_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/question"
)

// ownFaults are the ways in which a question of Sluice's own can fail (package question).
var ownFaults = map[string]ownFault{
	"conflict": {refusal: "40001", message: "schema has been updated by another transaction (OC001)"},
	"loss":     {cut: true},
	"timeout":  {slow: 3 * ownLimit},
	"refusal":  {refusal: "0A000", message: "unsupported"},
	"trouble":  {refusal: "57014", message: "canceling statement due to statement timeout"},
}

// Whatever fault comes in place of the answer to any question of Sluice's own, each client gets its own
// answers and nobody else's, or an error, and none waits for ever.
func TestOwnQuestionsFail(t *testing.T) {
	names := []string{"conflict", "loss", "timeout", "refusal", "trouble"}
	playOwn(t, func(r *rand.Rand) ownFault { return ownFaults[names[r.IntN(len(names))]] })
}

// ownAnswers are what clients get where Sluice knows the answer to a question of its own, which is
// known in a message by its text.
var ownAnswers = map[string]struct {
	text  string
	opts  []option
	play  string // what a client sends
	known string // in what it is answered, where the question was answered
}{
	"groups": {text: "SELECT now()", opts: []option{asDSQL, fastReplay},
		play: ext("INSERT INTO learned VALUES (1)") + ext("SELECT stumbles()") + "S\n< Z\n", known: "C SELECT 1"},
	"purity": {text: "WITH users AS", opts: []option{fastReplay},
		play: "Q SET default_transaction_read_only = on\n< Z\nQ SELECT count(*) FROM learned\n< Z\n", known: "C SELECT 1"},
	"settings": {text: "SET TimeZone", opts: []option{asDSQL, fastReplay},
		play: "Q SET TimeZone TO 'Asia/Tokyo'\n< Z\nQ SHOW TimeZone\n< Z\n", known: "Asia/Tokyo"},
}

// No fault at a question of Sluice's own is taken for an answer: when the pause behind it is over the
// question is asked again, and clients get what they get where it was answered at once.
func TestFaultsAreNotLearned(t *testing.T) {
	t.Parallel()
	for name, asked := range ownAnswers {
		for fault, what := range ownFaults {
			if fault == "refusal" && name == "settings" {
				continue // it is the client's
			}
			t.Run(name+", "+fault, func(t *testing.T) {
				t.Parallel()
				pg := newPostgres(t)
				pg.SQL(t, "postgres", "CREATE TABLE learned (a int); CREATE SEQUENCE stumbled;"+
					"CREATE FUNCTION stumbles() RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF nextval('stumbled') % 3 <> 0 THEN RAISE EXCEPTION 'change conflicts with another transaction (OC000)' USING ERRCODE = '40001'; END IF; RETURN 1; END $$")
				var p ownPlanter
				n, most := 0, 2
				if fault == "conflict" || fault == "trouble" && name == "purity" {
					most = 6 // beyond the tries at once of the first question
				}
				p.plants(func(message []byte) ownFault {
					if n < most && bytes.Contains(message, []byte(asked.text)) {
						n++
						return what
					}
					return ownFault{}
				})
				s := startSluice(t, pg, append([]option{p.option, maxOpen(3), configure(func(c *proxy.Config) { c.AnswerTimeout = ownLimit })}, asked.opts...)...)
				first := perform(t, s.addr, asked.play)
				if strings.Contains(first, "TIMEOUT") {
					t.Fatalf("at the fault: %s", first)
				}
				last := ""
				for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
					answers := true
					for range 2 { // one may succeed by itself
						last = perform(t, s.addr, asked.play)
						answers = answers && strings.Contains(last, asked.known) && !strings.Contains(last, "E S=")
					}
					if answers {
						waitFor(t, "the backends to be given back", func() bool { return s.backends.Stats().InUse == 0 })
						return
					}
				}
				t.Errorf("the question is not answered behind the fault: %s", last)
			})
		}
	}
}

// A server that answers a question of Sluice's own later than a pause is long is not asked by the next backend at once:
// the pause begins when the answer is overdue. The client whose turn it was goes on behind one question.
func TestSlowQuestionsPause(t *testing.T) {
	t.Parallel()
	const limit = question.FirstPause + 100*time.Millisecond
	for name, text := range map[string]string{"groups": "SELECT now()", "purity": "WITH users AS", "functions that leave something": "WITH RECURSIVE every AS"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", "CREATE TABLE learned (a int)")
			var p ownPlanter
			asked := 0
			p.plants(func(message []byte) (d ownFault) {
				if bytes.Contains(message, []byte(text)) {
					asked++
					d.slow = limit + time.Second
				}
				return d
			})
			opts := []option{p.option, maxOpen(3), withReplay, configure(func(c *proxy.Config) { c.AnswerTimeout = limit })}
			if name == "groups" { // PostgreSQL is known
				opts = append(opts, asDSQL)
			}
			s := startSluice(t, pg, opts...)
			if got := dialRaw(t, s.addr).say(t, "Q SELECT count(*) FROM learned /*c*/\n< Z\n"); !strings.Contains(got, "C SELECT 1") {
				t.Errorf("told %s", got)
			}
			p.plants(nil)
			if asked != 1 {
				t.Errorf("asked %d times in front of the first answer, want once", asked)
			}
		})
	}
}
