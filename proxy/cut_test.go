package proxy_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/lib/pq"
)

// What may be committed while a drain cuts it is not said to have failed, nor what is
// committed already: at 57P01, FATAL, or at the end of its connection database/sql sends all of
// it again by itself, and finds nobody here. The server takes its time to be asked to stop.
func TestDrainCutsACommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, code string
		args       []any
	}{
		"a write in autocommit":  {text: "INSERT INTO cut SELECT 1 FROM pg_sleep(600)", code: "08007"},
		"one with a parameter":   {text: "INSERT INTO cut SELECT $1::int FROM pg_sleep(600)", code: "08007", args: []any{1}},
		"a COMMIT":               {text: "BEGIN; INSERT INTO slow VALUES (1); COMMIT", code: "08007"},
		"a string behind COMMIT": {text: "BEGIN; INSERT INTO cut VALUES (1); COMMIT; SELECT pg_sleep(600)", code: "08007"},
		"a read":                 {text: "SELECT pg_sleep(600)"},
		"a block":                {text: "BEGIN; INSERT INTO cut SELECT 1 FROM pg_sleep(600)"},
	} {
		pg := newPostgres(t)
		pg.SQL(t, "postgres", `CREATE TABLE cut (n int); CREATE TABLE slow (n int);
			CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
			CREATE CONSTRAINT TRIGGER sleep AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION sleep()`)
		var slow atomic.Bool
		pass := passEach(pg.addr, func(up, down net.Conn) { io.Copy(up, down) }, func(down, up net.Conn) { io.Copy(down, up) })
		relay := startListener(t, func(down net.Conn) {
			if slow.Load() {
				time.Sleep(400 * time.Millisecond)
			}
			pass(down)
		})
		s := startSluice(t, pg, relay.option)
		db, err := sql.Open("postgres", "postgres://postgres@"+s.addr+"/postgres?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		told := make(chan error, 1)
		go func() {
			_, err := db.ExecContext(context.Background(), c.text, c.args...)
			told <- err
		}()
		awaitSleep(t, pg)
		slow.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: Shutdown: %v", name, err)
		}
		cancel()
		var e *pq.Error
		err = <-told
		if again := errors.Is(err, syscall.ECONNREFUSED); c.code == "" && !again || c.code != "" && (!errors.As(err, &e) || string(e.Code) != c.code) {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
	}
}

// A statement of several transactions that a drain cuts says what of it stands.
func TestDrainCutsADropDatabase(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, asSchemas, asDSQL, maxOpen(2))
	c := connectTo(t, s, "plain", pgx.QueryExecModeExec)
	run(t, c, "CREATE DATABASE app_a", "CREATE TABLE app_a.a (k int)", "CREATE TABLE app_a.b (k int)")
	// The holder is no client of Sluice: the drain would cut it too, and perhaps first.
	holder, err := pgx.Connect(t.Context(), pg.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	run(t, holder, "BEGIN", "INSERT INTO app_a.b VALUES (1)")
	told := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), "DROP DATABASE app_a")
		told <- err
	}()
	waitFor(t, "the lock to be waited for", func() bool {
		return pg.SQL(t, "postgres", "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1"
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	failsAs(t, "cut", <-told, "08007", "1 objects of the database are dropped, and stay so.")
}

// stalling passes so many bytes of what a server says once armed, and then none, without
// closing anything.
type stalling struct {
	left    countdown
	stalled chan struct{}
}

func (r *stalling) pass(down, up net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := up.Read(buf)
		if err != nil {
			return
		}
		k := r.left.take(n)
		if _, err := down.Write(buf[:k]); err != nil {
			return
		}
		if k < n {
			close(r.stalled)
			io.Copy(io.Discard, up)
			return
		}
	}
}

// The server stops behind any byte of its answer, and a drain cuts the session: the client has
// the beginning of PostgreSQL's answer, and behind a whole frame of it what became of the
// rest. Nothing follows half a row, of which it would be taken for the other half.
func TestDrainCutsBehindAnyByte(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE bytewise (n int, pad text DEFAULT repeat('x', 150))")
	for _, c := range []struct {
		text, told string
		opts       []option
		slow       time.Duration // a request to stop takes so long: longer than the last words may
	}{
		{"INSERT INTO bytewise VALUES (1), (2) RETURNING *", "08007", nil, 0},
		{"INSERT INTO bytewise VALUES (1), (2) RETURNING *", "08007", nil, 350 * time.Millisecond},
		{"INSERT INTO bytewise VALUES (1), (2) RETURNING *", "08007", []option{withReplay}, 0},
		{"SELECT g, repeat('x', 150) FROM generate_series(1, 2) g", "", nil, 0},
		{"SELECT g, repeat('x', 150) FROM generate_series(1, 2) g", "", []option{sessionPairing}, 0},
		{"BEGIN; INSERT INTO bytewise VALUES (1) RETURNING *; COMMIT; SELECT 2", "08007 08006", nil, 0},
	} {
		query := encode(t, &pgproto3.Query{String: c.text})
		direct := dialRaw(t, pg.addr)
		direct.queue(query)
		want, ends := direct.bytesThroughReady(t)
		for at := 1; at < len(want); at += 37 {
			relay := &stalling{stalled: make(chan struct{})}
			relay.left.Store(-1)
			s := startSluice(t, pg, append(c.opts, maxOpen(1), startListener(t, func(down net.Conn) {
				select {
				case <-relay.stalled:
					time.Sleep(c.slow)
				default:
				}
				passEach(pg.addr, func(up, down net.Conn) { io.Copy(up, down) }, relay.pass)(down)
			}).option)...)
			client := dialRaw(t, s.addr)
			client.queue(encode(t, &pgproto3.Query{String: "SELECT 1"}))
			client.readThrough("Z")
			relay.left.Store(int64(at))
			client.queue(query)
			client.flush()
			<-relay.stalled
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			s.Shutdown(ctx)
			cancel()
			got, _ := io.ReadAll(client.in)
			if problem := cutAnswer(got, want, ends, c.told); problem != "" {
				t.Errorf("%s, cut behind %d of %d bytes: %s: %q", c.text, at, len(want), problem, got)
			}
		}
	}
}

// bytesThroughReady are the bytes of an answer, and where its frames end.
func (c *rawClient) bytesThroughReady(t *testing.T) (all []byte, ends []int) {
	t.Helper()
	c.flush()
	for {
		typ, payload, err := c.frame()
		if err != nil {
			t.Fatal(err)
		}
		all = append(binary.BigEndian.AppendUint32(append(all, typ), uint32(len(payload)+4)), payload...)
		ends = append(ends, len(all))
		if typ == 'Z' {
			return all, ends
		}
	}
}

// cutAnswer says what is wrong with an answer that a drain has cut; told has the errors that may
// stand behind a part of it, in front of the session's end.
func cutAnswer(got, want []byte, ends []int, told string) string {
	same := 0
	for same < len(got) && same < len(want) && got[same] == want[same] {
		same++
	}
	whole := 0
	for _, end := range ends {
		if end <= same {
			whole = end
		}
	}
	if same == len(got) && same > whole && want[whole] == 'D' {
		return "" // half a row
	}
	var said []string
	for rest := got[whole:]; len(rest) > 0; {
		if len(rest) < 5 || len(rest) < 1+int(binary.BigEndian.Uint32(rest[1:])) {
			return "bytes that are no frame"
		}
		n := 1 + int(binary.BigEndian.Uint32(rest[1:]))
		said = append(said, string(rest[:1]))
		if rest[0] == 'E' {
			var e pgproto3.ErrorResponse
			if err := e.Decode(rest[5:n]); err != nil {
				return err.Error()
			}
			said[len(said)-1] += e.Code
		}
		rest = rest[n:]
	}
	switch line := strings.Join(said, " "); {
	case line == "E57P01" && (told == "" || whole == len(want)), line == "Z E57P01":
	case len(said) == 3 && said[0] != "" && slices.Contains(strings.Fields(told), said[0][1:]) && strings.HasSuffix(line, " Z E57P01"):
	default:
		return "then " + line
	}
	return ""
}
