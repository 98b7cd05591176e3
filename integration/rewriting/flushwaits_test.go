package rewriting

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/harness"
)

var flushWaits = flag.Int("flushes.waits", 8, "how many rounds TestFlushIsAnswered plays")

// waiter is a client that sends nothing before it has the answer that it waits for.
type waiter struct {
	h     *pgconn.HijackedConn
	story []string
}

// say sends frames, and returns what is answered up to an answer of one of the types in ends: C, E or Z.
func (w *waiter) say(t *testing.T, ends string, frames ...pgproto3.FrontendMessage) (got string) {
	t.Helper()
	for _, f := range frames {
		w.story = append(w.story, strings.TrimPrefix(fmt.Sprintf("%T %+v", f, f), "*pgproto3."))
		w.h.Frontend.Send(f)
	}
	if err := w.h.Frontend.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := w.h.Conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for typ := ""; typ == "" || !strings.Contains(ends, typ); {
		m, err := w.h.Frontend.Receive()
		if err != nil {
			t.Fatalf("%v behind %q of\n%s", err, got, strings.Join(w.story[max(0, len(w.story)-20):], "\n"))
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			typ, got = "E", got+" "+m.Code
		case *pgproto3.CommandComplete:
			typ, got = "C", got+" "+string(m.CommandTag)
		case *pgproto3.ReadyForQuery:
			typ, got = "Z", got+" "+string(m.TxStatus)
		}
	}
	return got
}

// flushed is a statement by the extended protocol, with a Flush behind it.
func flushed(sql string) []pgproto3.FrontendMessage {
	return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Flush{}}
}

// A client that waits behind a Flush gets the answers to all in front of it: also that of a CREATE INDEX, whose job
// begins with the Sync only, behind an unknown portal (34000), and where others have changed the schema.
func TestFlushIsAnswered(t *testing.T) {
	t.Parallel()
	r := startParts(t, "refuse", harness.Env{"DSQL_RETRY_BASE_DELAY": "1ms"})
	others, _ := r.dial(t, r.sluice.DSN("postgres"))
	answers(t.Context(), others, "CREATE TABLE waited (id int PRIMARY KEY, a int)", false)
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	h, err := c.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	w := &waiter{h: h}
	sync, none := &pgproto3.Sync{}, &pgproto3.Execute{Portal: "none"}
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range *flushWaits {
		switch n % 4 {
		case 0:
			w.say(t, "Z", none, sync)
		case 1:
			w.say(t, "E", none, &pgproto3.Flush{})
			w.say(t, "Z", sync)
		case 2:
			w.say(t, "C", flushed("SELECT 1")...)
			w.say(t, "E", none, &pgproto3.Flush{})
			w.say(t, "Z", sync)
		}
		if rng.IntN(2) == 0 {
			answers(t.Context(), others, fmt.Sprintf("CREATE TABLE beside%d (a int)", n), false)
		}
		got, want := "", " CREATE INDEX I"
		block := rng.IntN(3) == 0
		if block {
			got, want = w.say(t, "C", flushed("BEGIN")...), " BEGIN CREATE INDEX COMMIT I"
		}
		got += w.say(t, "CE", flushed(fmt.Sprintf("CREATE INDEX waited%d ON waited (a)", n))...)
		if block {
			got += w.say(t, "CE", flushed("COMMIT")...)
		}
		if got += w.say(t, "Z", sync); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
		answers(t.Context(), others, fmt.Sprintf("DROP INDEX waited%d", n), false)
	}
}
