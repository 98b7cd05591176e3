package proxy_test

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// readsOnly is a read of a client whose transactions only read: it is run where the database has said
// that reads only read.
const readsOnly = "Q SET default_transaction_read_only = on\n< Z\nQ SELECT count(*) FROM own_rows\n< Z\n"

// A fault at the question whether reads only read leaves the answer that holds: a read whose loss asked
// the question is not run again, and the clients beside it go on.
func TestFaultsLeaveWhatIsKnown(t *testing.T) {
	t.Parallel()
	for fault, what := range ownFaults {
		if fault == "conflict" {
			continue // it says that the schema is another one
		}
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", "CREATE TABLE own_rows (a int)")
			var p ownPlanter
			s := startSluice(t, pg, p.option, asDSQL, fastReplay, maxOpen(3), configure(func(c *proxy.Config) { c.AnswerTimeout = ownLimit }))
			if got := perform(t, s.addr, readsOnly); !strings.Contains(got, "C SELECT 1") {
				t.Fatalf("before the fault: %s", got)
			}
			var lost, asked atomic.Int64
			p.plants(func(message []byte) ownFault {
				switch {
				case bytes.Contains(message, []byte("doomed")) && lost.Add(1) == 1:
					return ownFaults["loss"]
				case bytes.Contains(message, []byte("WITH users AS")):
					asked.Add(1)
					return what
				}
				return ownFault{}
			})
			if got := perform(t, s.addr, "Q SELECT a /* doomed */ FROM own_rows\n< Z\n"); !strings.Contains(got, "E S=") {
				t.Errorf("a read of which nobody knows any more that it only reads was run again: %s", got)
			}
			if lost.Load() == 0 || asked.Load() == 0 {
				t.Fatalf("%d losses, and %d questions behind them", lost.Load(), asked.Load())
			}
			if got := perform(t, s.addr, readsOnly); !strings.Contains(got, "C SELECT 1") {
				t.Errorf("behind %d faults: %s", asked.Load(), got)
			}
		})
	}
}

// A question of Sluice's own is asked under no settings of a client, be it the last one that had the
// backend.
func TestQuestionsHaveNoClientsSettings(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]string{
		"timeout":     "SET statement_timeout = 1",
		"search path": "SET search_path = own_evil, pg_catalog",
		"role":        "SET ROLE own_weak",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", "CREATE TABLE own_rows (a int); CREATE ROLE own_weak; GRANT ALL ON SCHEMA public TO own_weak; REVOKE ALL ON pg_catalog.pg_depend FROM PUBLIC;"+
				`CREATE SCHEMA own_evil; GRANT ALL ON SCHEMA own_evil TO PUBLIC; CREATE FUNCTION own_evil.eq("char", "char") RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE EXCEPTION 'asked by operators of a user'; END $$;`+
				`CREATE OPERATOR own_evil.= (LEFTARG = "char", RIGHTARG = "char", FUNCTION = own_evil.eq)`)
			var p ownPlanter
			s := startSluice(t, pg, p.option, fastReplay, maxOpen(1))
			// What is known of the schema is old, and the backend has the client's settings, when the next
			// client's question comes.
			first := perform(t, s.addr, "Q CREATE VIEW own_made AS SELECT 1; "+set+"\n< Z\n")
			if strings.Contains(first, "E S=") {
				t.Fatal(first)
			}
			lost, cut := 0, 0
			p.plants(func(message []byte) ownFault {
				// What the client's timeout does to a question's first statement on a busy machine.
				if name == "timeout" && cut < 2 && bytes.Contains(message, []byte("WITH users AS")) {
					cut++
					return ownFaults["trouble"]
				}
				if lost > 0 || !bytes.Contains(message, []byte("doomed")) {
					return ownFault{}
				}
				lost++
				return ownFaults["loss"]
			})
			// It is known that a read only reads where it is run again.
			if got := perform(t, s.addr, "Q SELECT count(*) /* doomed */ FROM own_rows\n< Z\n"); !strings.Contains(got, "C SELECT 1") {
				t.Errorf("%s\nbehind %s", got, first)
			}
		})
	}
}

// Notifications that come beside an answer to Sluice itself reach the client that listens, once and in
// order, whatever it does next.
func TestNotificationsBesideOwnTrips(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]string{
		"a query":    "Q SELECT count(*) FROM own_rows /*c*/\n< Z\n",
		"extended":   "P - | SELECT count(*) FROM own_rows /*c*/\nB - | -\nE -\nS\n< Z\n",
		"in a block": "Q BEGIN /*c*/\n< Z\nQ SELECT count(*) FROM own_rows /*c*/\n< Z\n",
	} {
		for kind, opts := range map[string][]option{"pinned": {mapping}, "replay": {mapping, fastReplay}} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				pg := newPostgres(t)
				pg.SQL(t, "postgres", "CREATE TABLE own_rows (a int)")
				var p ownPlanter
				s := startSluice(t, pg, append(opts, p.option, maxOpen(3))...)
				c, other := dialRaw(t, s.addr), dialRaw(t, pg.addr)
				c.say(t, "Q LISTEN own /*c*/\n< Z\n")
				perform(t, s.addr, "Q CREATE TABLE own_made(a int) /*c*/\n< Z\n") // what is known of the schema is old
				notified := 0
				p.plants(func(message []byte) ownFault {
					if notified == 0 && bytes.Contains(message, []byte("pg_attribute")) {
						notified++
						other.say(t, "Q NOTIFY own, 'one'; NOTIFY own, 'two'\n< Z\n")
						return ownFault{slow: ownLimit}
					}
					return ownFault{}
				})
				got := c.say(t, then)
				if notified == 0 {
					t.Fatalf("no trip of Sluice's own: %s", got)
				}
				if one, two := strings.Index(got, "one"), strings.Index(got, "two"); strings.Count(got, "\nA ")+strings.Count(got[:2], "A ") != 2 || one < 0 || two < one {
					t.Errorf("%s", got)
				}
			})
		}
	}
}
