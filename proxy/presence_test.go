package proxy_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/certs"
	"github.com/sluice-proxy/sluice/proxy"
)

// clientTLS offers TLS to clients, with a certificate of its own.
func clientTLS() option {
	return configure(func(c *proxy.Config) {
		c.Startup.TLS = &tls.Config{Certificates: []tls.Certificate{certs.SelfSigned("sluice")}}
	})
}

// leaver is a client that leaves in the middle of a turn.
type leaver struct {
	*rawClient
	tcp *net.TCPConn
	tls *tls.Conn // nil: none
}

func newLeaver(t *testing.T, addr string, secure bool) *leaver {
	t.Helper()
	conn := dialTCP(t, addr)
	l := &leaver{tcp: conn.(*net.TCPConn)}
	if secure {
		conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47})
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		l.tls = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		conn = l.tls
	}
	l.rawClient, _ = greetRaw(t, conn, nil)
	return l
}

const terminate = "X\x00\x00\x00\x04"

// leaves are the ways to leave. A client that only ends its half of the stream
// stays, and one that has said goodbye has sent what it wants to be run.
var leaves = map[string]struct {
	stays, goodbye bool
	leave          func(l *leaver)
}{
	"Terminate and close":                       {goodbye: true, leave: func(l *leaver) { l.conn.Write([]byte(terminate)); l.conn.Close() }},
	"Terminate and close without a word of TLS": {goodbye: true, leave: func(l *leaver) { l.conn.Write([]byte(terminate)); l.tcp.Close() }},
	"Terminate":                   {goodbye: true, leave: func(l *leaver) { l.conn.Write([]byte(terminate)) }},
	"Terminate in pieces":         {goodbye: true, leave: func(l *leaver) { l.conn.Write([]byte(terminate)[:2]); l.conn.Write([]byte(terminate)[2:]) }},
	"close":                       {leave: func(l *leaver) { l.conn.Close() }},
	"close without a word of TLS": {leave: func(l *leaver) { l.tcp.Close() }},
	"reset":                       {leave: func(l *leaver) { l.tcp.SetLinger(0); l.tcp.Close() }},
	"its half":                    {stays: true, leave: func(l *leaver) { l.tcp.CloseWrite() }},
	"close_notify": {stays: true, leave: func(l *leaver) {
		if l.tls != nil {
			l.tls.CloseWrite()
		} else {
			l.tcp.CloseWrite()
		}
	}},
	"nothing": {stays: true, leave: func(*leaver) {}},
}

// member is a client that leaves in its way, at the same time as others in theirs.
type member struct {
	*leaver
	id             int
	name           string
	stays, goodbye bool
	leave          func(*leaver)
}

// leavers is one client for each way to leave.
func leavers(t *testing.T, s *sluice, secure, closes bool) (members []*member) {
	for name, way := range leaves {
		if !closes && strings.Contains(name, "Terminate and close") {
			continue // nobody says how much is run once an answer finds the socket closed
		}
		members = append(members, &member{newLeaver(t, s.addr, secure), len(members) + 1, name, way.stays, way.goodbye, way.leave})
	}
	return members
}

// leaveRoutes are the ways to the server.
var leaveRoutes = map[string][]option{"plain": nil, "ordinary calls": {plainConn}, "TLS": nil}

// crowded runs a test with such a crowd on a server of its own. runs says whose
// statement is run to its end.
func crowded(t *testing.T, pg postgres, route string, closes bool, opts []option, runs func(*member) bool, test func(t *testing.T, s *sluice, all []*member, running int)) {
	t.Run(route, func(t *testing.T) {
		if route == "TLS" {
			opts = append(opts, clientTLS())
		}
		s := startSluice(t, pg, append(opts, leaveRoutes[route]...)...)
		all, running := leavers(t, s, route == "TLS", closes), 0
		for _, m := range all {
			if runs(m) {
				running++
			}
		}
		test(t, s, all, running)
		want := ""
		for _, m := range all {
			if runs(m) {
				want += fmt.Sprintf("%d ", m.id)
			}
		}
		rows := func() string {
			return strings.TrimSpace(pg.SQL(t, "postgres", "SELECT string_agg(a::text, ' ' ORDER BY a) FROM stumbled"))
		}
		want = strings.TrimSpace(want)
		for end := time.Now().Add(10 * time.Second); rows() != want && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		for _, m := range all {
			m.conn.Close()
		}
		waitFor(t, "backends to come back", func() bool { return s.backends.Stats().InUse == 0 && s.Stats().Clients == 0 })
		if got := rows(); got != want {
			for _, m := range all {
				t.Logf("%d: %s", m.id, m.name)
			}
			t.Errorf("run for %q, want %q", got, want)
		}
		pg.SQL(t, "postgres", emptied("stumbled"))
	})
}

// planLocalAnswer reads the answer of every client that stays.
func planLocalAnswer(t *testing.T, all []*member, turns int) {
	t.Helper()
	for _, m := range all {
		if !m.stays {
			continue
		}
		if got := m.readThrough(strings.Repeat("Z", turns)); !strings.Contains(got, "C ") || strings.Contains(got, "E S=") || strings.Contains(got, "EOF") || strings.Contains(got, "TIMEOUT") {
			t.Errorf("%s: got %s", m.name, got)
		}
	}
}

const clientLeaving = stumbling + `
CREATE TABLE fight (id int, n int); INSERT INTO fight VALUES (1, 0); CREATE SEQUENCE crowd;
CREATE FUNCTION crowded(lock boolean) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('crowd') <= 10 THEN
		IF lock THEN PERFORM pg_advisory_xact_lock_shared(9); END IF;
		RAISE EXCEPTION 'change conflicts with another transaction, please retry: (OC000)' USING ERRCODE = '40001';
	END IF;
	RETURN 0; END $$;
CREATE FUNCTION held(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(9); RETURN n; END $$`

// TestClientLeaves is about clients that leave in the middle of a turn.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, postgres){
		"replay": leavesReplay, "line": leavesLine, "long statement": leavesLongStatement, "commit without an end": leavesEndlessCommit,
	} {
		t.Run(name, func(t *testing.T) { // in parallel they would begin when all else has ended
			pg := newPostgres(t)
			pg.SQL(t, "postgres", clientLeaving)
			test(t, pg)
		})
	}
}

// A client that leaves while its write is run again is missed, however it leaves;
// one that only closes its half gets its answer.
func leavesReplay(t *testing.T, pg postgres) {
	stays := func(m *member) bool { return m.stays }
	missed := func(t *testing.T, s *sluice, n int) {
		t.Helper()
		waitFor(t, "clients to be missed", func() bool { return s.count(t, "dsql_tx_replay_refused_total", "client_gone") == float64(n) })
	}
	for route := range leaveRoutes {
		pg.SQL(t, "postgres", "SELECT setval('crowd', 1, false)")
		t.Run("backoff", func(t *testing.T) {
			crowded(t, pg, route, true, []option{patientReplay, maxOpen(12), func(s *setup) {
				s.proxy.Retry.Policy.FirstDelay = 1500 * time.Millisecond
				s.proxy.Retry.Policy.BaseDelay, s.proxy.Retry.Policy.MaxDelay = 1500*time.Millisecond, 1500*time.Millisecond
			}}, stays, func(t *testing.T, s *sluice, all []*member, running int) {
				for _, m := range all {
					m.say(t, fmt.Sprintf("Q INSERT INTO stumbled VALUES (%d + crowded(false))\n", m.id))
				}
				waitFor(t, "the replays", func() bool { return replayed(t, s) == float64(len(all)) })
				for _, m := range all {
					m.leave(m.leaver)
				}
				missed(t, s, len(all)-running)
				planLocalAnswer(t, all, 1)
			})
		})
		pg.SQL(t, "postgres", "SELECT setval('crowd', 1, false)")
		t.Run("gate", func(t *testing.T) {
			const fight = "UPDATE fight SET n = n + 1 WHERE id = 1 + crowded(true)"
			crowded(t, pg, route, true, []option{keenReplay, maxOpen(14)}, func(*member) bool { return false }, func(t *testing.T, s *sluice, all []*member, _ int) {
				stumbles(t, pg, true)
				lock, other := dialRaw(t, pg.addr), dialRaw(t, s.addr)
				lock.say(t, "Q SELECT pg_advisory_lock(9)\n< Z\n")
				staying := 0
				for _, m := range all {
					m.say(t, "Q "+fight+"\n")
					if m.stays {
						staying++
					}
				}
				waitFor(t, "the statements", func() bool {
					return strings.TrimSpace(pg.SQL(t, "postgres", "SELECT last_value FROM crowd")) == fmt.Sprint(len(all))
				})
				other.say(t, "Q BEGIN\n< Z\nQ "+fight+"\n< Z\nQ SELECT stumble(1)\n< Z\n") // has the pass from here
				lock.say(t, "Q SELECT pg_advisory_unlock(9)\n< Z\nX\n")
				waitFor(t, "the replays", func() bool { return replayed(t, s) == float64(len(all)+1) })
				for _, m := range all {
					m.leave(m.leaver)
				}
				missed(t, s, len(all)-staying)
				other.say(t, "Q ROLLBACK\n< Z\nX\n")
				planLocalAnswer(t, all, 1)
				if n := strings.TrimSpace(pg.SQL(t, "postgres", "SELECT n FROM fight; UPDATE fight SET n = 0")); n != fmt.Sprint(staying) {
					t.Errorf("%s were run, want %d", n, staying)
				}
			})
		})
	}
}

// longText fills a frame for which a buffer is made that has no room for more.
var longText = strings.Repeat("x", 40_000)

// leaveForms are what clients run that then leave: lasts says that it leaves something
// behind although no frame follows it.
var leaveForms = []struct {
	name, script, long string // long: it waits for a lock of the test's
	turns              int
	routes             []string
	lasts              bool
}{
	{"write", "Q INSERT INTO stumbled VALUES (%d)\n", "Q INSERT INTO stumbled VALUES (held(%d))\n", 1, []string{"plain", "ordinary calls", "TLS"}, true},
	{"read", "Q SELECT %d\n", "Q SELECT %d AS n, count(*) FROM late\n", 1, []string{"TLS"}, false},
	{"block", "Q BEGIN\n< Z\nQ INSERT INTO stumbled VALUES (%d)\n", "Q BEGIN\n< Z\nQ INSERT INTO stumbled VALUES (held(%d))\n", 1, []string{"plain"}, false},
	{"block and its end", "Q BEGIN\n< Z\nQ INSERT INTO stumbled VALUES (%d)\nQ COMMIT\n", "Q BEGIN\n< Z\nQ INSERT INTO stumbled VALUES (held(%d))\nQ COMMIT\n", 2, []string{"TLS"}, true},
	{"long", "Q INSERT INTO stumbled VALUES (%d) /*" + longText + "*/\n", "Q INSERT INTO stumbled VALUES (held(%d)) /*" + longText + "*/\n", 1, []string{"plain"}, true},
	{"group", "P - | INSERT INTO stumbled VALUES (%d)\nB - | -\nE -\nS\n", "P - | INSERT INTO stumbled VALUES (held(%d))\nB - | -\nE -\nS\n", 1, []string{"plain"}, true},
}

// Of a client that leaves while it waits for a backend, what it sent before it said
// goodbye is still run, if it can leave something behind; the rest leaves the line.
func leavesLine(t *testing.T, pg postgres) {
	for _, form := range leaveForms {
		leftovers := func(m *member) bool { return form.lasts && (m.stays || m.goodbye) }
		for _, route := range form.routes {
			t.Run(form.name, func(t *testing.T) {
				crowded(t, pg, route, form.turns == 1, []option{maxOpen(1), longCheckout}, leftovers, func(t *testing.T, s *sluice, all []*member, running int) {
					holder := dialRaw(t, s.addr)
					holder.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
					staying := 0
					line := func(n int) func() bool { return func() bool { return s.backends.Stats().Waiting == n } }
					for i, m := range all { // they are answered in this order
						m.say(t, fmt.Sprintf(form.script, m.id))
						if m.stays {
							staying++
						}
						waitFor(t, "the line", line(i+1))
					}
					for _, m := range all {
						m.leave(m.leaver)
					}
					waitFor(t, "clients to leave the line", line(max(running, staying)))
					holder.say(t, "Q COMMIT\n< Z\nX\n")
					for _, m := range all { // one backend for all: who holds it in a block must go on
						if m.stays {
							planLocalAnswer(t, []*member{m}, form.turns)
							m.conn.Close()
						}
					}
					waitFor(t, "the others", line(0))
				})
			})
		}
	}
}

// A client that leaves while the server is long about its statement is missed, unless
// the statement can commit and the client has said goodbye.
func leavesLongStatement(t *testing.T, pg postgres) {
	for _, form := range leaveForms {
		leftovers := func(m *member) bool { return form.lasts && (m.stays || m.goodbye) }
		for _, route := range form.routes {
			for mode, replays := range map[string]option{"replay": withReplay, "no replay": func(*setup) {}, "under a lock": withLocks} {
				if mode == "no replay" && (form.name != "write" || route != "TLS") || mode == "under a lock" && (route == "TLS") == (form.name == "write") {
					continue
				}
				t.Run(form.name+"/"+mode, func(t *testing.T) {
					crowded(t, pg, route, form.turns == 1, []option{maxOpen(12), replays}, leftovers, func(t *testing.T, s *sluice, all []*member, running int) {
						lock := dialRaw(t, pg.addr)
						lock.say(t, "Q BEGIN; LOCK TABLE late; SELECT pg_advisory_xact_lock(9)\n< Z\n")
						staying := 0
						for _, m := range all {
							if mode == "under a lock" {
								m.say(t, fmt.Sprintf("Q SELECT pg_advisory_lock(%d)\n< Z\n", 100+m.id))
							}
							m.say(t, fmt.Sprintf(form.long, m.id))
							if m.stays {
								staying++
							}
						}
						waitFor(t, "the statements", func() bool {
							return strings.TrimSpace(pg.SQL(t, "postgres", "SELECT count(*) FROM pg_locks WHERE NOT granted")) == fmt.Sprint(len(all))
						})
						for _, m := range all {
							m.leave(m.leaver)
						}
						waitFor(t, "clients to be missed", func() bool { return s.backends.Stats().InUse == max(running, staying) })
						lock.say(t, "Q COMMIT\n< Z\nX\n")
						planLocalAnswer(t, all, form.turns)
					})
				})
			}
		}
	}
}

// What a client has asked for before its goodbye keeps its backend for a while only; the
// server is not asked to stop it, and may still carry it out.
func leavesEndlessCommit(t *testing.T, pg postgres) {
	grace := func(s *setup) { s.proxy.CommitGrace = 500 * time.Millisecond }
	for route := range leaveRoutes {
		crowded(t, pg, route, true, []option{maxOpen(12), grace}, func(m *member) bool { return m.stays || m.goodbye }, func(t *testing.T, s *sluice, all []*member, _ int) {
			lock := dialRaw(t, pg.addr)
			lock.say(t, "Q BEGIN; SELECT pg_advisory_xact_lock(9)\n< Z\n")
			staying, goodbyes := 0, 0
			for _, m := range all {
				m.say(t, fmt.Sprintf("Q INSERT INTO stumbled VALUES (held(%d))\n", m.id))
				if m.stays {
					staying++
				}
				if m.goodbye {
					goodbyes++
				}
			}
			waitFor(t, "the statements", func() bool {
				return strings.TrimSpace(pg.SQL(t, "postgres", "SELECT count(*) FROM pg_locks WHERE NOT granted")) == fmt.Sprint(len(all))
			})
			for _, m := range all {
				m.leave(m.leaver)
			}
			waitFor(t, "slots to be free", func() bool { return s.backends.Stats().InUse == staying })
			if n := s.count(t, "dsql_reservoir_discards_total", "client_left"); n != float64(goodbyes) {
				t.Errorf("%v backends given up for goodbyes, want %d", n, goodbyes)
			}
			lock.say(t, "Q COMMIT\n< Z\nX\n")
			planLocalAnswer(t, all, 1)
		})
	}
}
