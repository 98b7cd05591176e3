package proxy_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// overtaker has a COMMIT arrive in the moment in which a session's backend reads the schema, and the server
// then tell Sluice's own next question, and not the client's statement, that the schema has changed.
type overtaker struct {
	holds          atomic.Bool  // the next COMMIT, until it may go
	readings       atomic.Int32 // of the schema, up to that one and with it
	tells          atomic.Bool
	cuts           atomic.Bool // the backend, at the reading behind that
	goes, answered chan struct{}
	change         func() // of the schema, by another process, that is then told
}

func (o *overtaker) option(s *setup) {
	s.dial.Wrap = func(conn net.Conn) net.Conn { return &overtaken{Conn: rawconn.Wrap(conn), o: o} }
}

type overtaken struct {
	rawconn.Conn
	o *overtaker
}

// conflict is a Query that a server answers as it answers one whose catalog was old.
var conflict = wire.AppendStrings(nil, wire.Query, "DO $$BEGIN RAISE EXCEPTION 'schema has been updated by another transaction (OC001)' USING ERRCODE = '40001'; END$$")

func (x *overtaken) Write(b []byte) (int, error) {
	switch {
	case x.o.holds.Load() && bytes.Contains(b, []byte("COMMIT")):
		x.o.holds.Store(false)
		<-x.o.goes
	case bytes.Contains(b, []byte("SELECT n.nspname, c.relname, a.attname")):
		switch x.o.readings.Add(-1) {
		case 1: // in front of the plan: the backend is told, so that it reads the schema again
			x.o.tells.Store(true)
		case 0:
			x.o.goes <- struct{}{}
			<-x.o.answered
			x.o.tells.Store(true)
		case -1:
			if x.o.cuts.Swap(false) {
				x.Conn.Close()
				return len(b), nil
			}
		}
	case bytes.Contains(b, []byte("WITH users AS (SELECT p.* FROM pg_catalog.pg_proc")) && x.o.tells.CompareAndSwap(true, false):
		if x.o.readings.Load() <= 0 {
			x.o.change()
		}
		if _, err := x.Conn.Write(conflict); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	return x.Conn.Write(b)
}

// overtakings are what a client sends while a question of Sluice's own is told that the schema has changed.
var overtakings = map[string]string{
	"simple":         "Q SELECT * FROM t\n< Z\n",
	"a string":       "Q SELECT n FROM t; SELECT * FROM t\n< Z\n",
	"settings":       "Q SET TimeZone TO 'Asia/Tokyo'; SELECT * FROM t; SHOW TimeZone\n< Z\nQ RESET TimeZone\n< Z\n",
	"extended":       "P - | SELECT k FROM t\nB - | -\nE -\nS\n< Z\n",
	"prepared":       "B - | s\nE -\nS\n< Z\n",
	"a group":        "B - | s\nE -\nB - | s\nE -\nS\n< Z\n",
	"begins a block": "Q BEGIN\n< Z\nQ SELECT k FROM t\n< Z\nQ COMMIT\n< Z\n",
	"block, bound":   "Q BEGIN\n< Z\nB - | s\nE -\nS\n< Z\nQ COMMIT\n< Z\n",
}

// A question of Sluice's own is told that the schema has changed, behind the reading and in front of the
// client's statement, of which nothing has been sent: the schema is read once more, and the client hears of
// nothing. Where the backend is lost at that reading, a simple Query is told that it was not sent (40001).
func TestOvertakenByAQuestion(t *testing.T) {
	t.Parallel()
	for _, cuts := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut %v", cuts), func(t *testing.T) {
			pg := newPostgres(t)
			keyed(t, pg, "public", true)
			o := overtaker{goes: make(chan struct{}), answered: make(chan struct{}, 1)}
			s := startSluice(t, pg, asDSQL, withReplay, mapping, maxOpen(3), o.option)
			t.Cleanup(func() { close(o.goes) }) // a COMMIT that is still held
			c, other, third := dialRaw(t, s.addr), dialRaw(t, s.addr), dialRaw(t, s.addr)
			c.say(t, "Q SELECT * FROM t\n< Z\nP s | SELECT k FROM t WHERE n = 1\nS\n< Z\nB - | s\nE -\nS\n< Z\n")
			var told atomic.Int32
			o.change = func() { pg.SQL(t, "postgres", fmt.Sprintf("ALTER TABLE t ADD COLUMN late%d int", told.Add(1))) }
			for name, script := range overtakings {
				other.say(t, "Q BEGIN\n< Z\nQ CREATE OR REPLACE FUNCTION made() RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT 1 $$\n< Z\n")
				o.holds.Store(true)
				go func() {
					other.say(t, "Q COMMIT\n< Z\n")
					o.answered <- struct{}{}
				}()
				waitFor(t, "COMMIT to be held", func() bool { return !o.holds.Load() })
				third.say(t, "Q DROP VIEW IF EXISTS more\n< Z\nQ CREATE VIEW more AS SELECT 1\n< Z\n")
				o.readings.Store(2)
				o.cuts.Store(cuts)
				got := c.say(t, script)
				isQuery := strings.Contains(script, "*")
				late := fmt.Sprint("late", told.Load())
				switch {
				case isQuery && cuts:
					if strings.Count(got, "E S=ERROR C=40001 M=the schema was changed") != 1 || !strings.HasSuffix(got, "Z I\n") {
						t.Errorf("%s: got\n%s", name, got)
					}
				case strings.Contains(got, "E S="), strings.Contains(got, "Z E"), isQuery && !strings.Contains(got, late):
					t.Errorf("%s: got\n%s", name, got)
				}
				if o.readings.Load() > 0 {
					t.Fatalf("%s: the schema was not read twice", name)
				}
				o.tells.Store(false)
				o.cuts.Store(false)
			}
			if n := told.Load(); n != 5 { // a Parse or BEGIN of the script's own leaves no room for a question
				t.Errorf("%d questions were told that the schema has changed", n)
			}
		})
	}
}

// A statement that no schema makes another of, prepared before the schema changed, runs by its one plan when
// it is bound next: nobody waits for it to be planned by the newer schema.
func TestBoundBehindAChangeOfTheSchema(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	keyed(t, pg, "public", true)
	s := startSluice(t, pg, asDSQL, withReplay, mapping, maxOpen(3))
	other := dialRaw(t, s.addr)
	defer time.AfterFunc(time.Minute, func() { panic("a session has not answered for a minute") }).Stop()
	for n, text := range []string{"SHOW server_version", "SHOW work_mem", "COMMIT", "ROLLBACK", "ABORT", "RESET work_mem", "SET work_mem TO '5MB'",
		"DISCARD PLANS", "BEGIN", "SET TRANSACTION READ ONLY", "SET LOCAL work_mem TO '5MB'", "", "CHECKPOINT", "PREPARE p AS SELECT 1", "SELECT 1"} {
		c := dialRaw(t, s.addr)
		run := "B - | s\nE -\nS\n< Z\n"
		c.say(t, "P s | "+text+"\nS\n< Z\n")
		before := c.say(t, run+"Q ROLLBACK\n< Z\nQ SELECT k FROM t\n< Z\n")
		other.say(t, fmt.Sprintf("Q ALTER TABLE t ADD COLUMN behind%d int\n< Z\nQ SELECT * FROM t\n< Z\n", n))
		if after := c.say(t, run+"Q ROLLBACK\n< Z\nQ SELECT k FROM t\n< Z\n"); after != before && !strings.HasPrefix(text, "PREPARE") {
			t.Errorf("%s: got\n%swant\n%s", text, after, before)
		}
	}
}
