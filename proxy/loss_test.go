package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// cutter breaks backends at the moment a test names: when bytes are written
// that hold a word, before or after they have gone out.
type cutter struct {
	word  atomic.Pointer[string]
	after atomic.Bool
	again atomic.Bool            // not once only
	next  atomic.Pointer[string] // the word of a second cut
	cuts  atomic.Int32
}

func (c *cutter) arm(word string, after bool) {
	c.after.Store(after)
	c.word.Store(&word)
}

func (c *cutter) option(s *setup) {
	s.dial.Wrap = func(conn net.Conn) net.Conn { return &cuttable{Conn: rawconn.Wrap(conn), c: c, socket: conn} }
}

type cuttable struct {
	rawconn.Conn
	c      *cutter
	socket net.Conn
}

// pause lets the server run what it was sent: until it answers, or for a moment where it need not.
func (x *cuttable) pause(sent []byte) {
	patience := 50 * time.Millisecond
	if sent[0] == 'Q' || bytes.HasSuffix(sent, []byte{'S', 0, 0, 0, 4}) {
		patience = 5 * time.Second
	}
	raw, err := x.socket.(syscall.Conn).SyscallConn()
	if err != nil {
		return
	}
	for end, answered := time.Now().Add(patience), false; !answered && time.Now().Before(end); time.Sleep(time.Millisecond) {
		raw.Control(func(fd uintptr) {
			_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			answered = err == nil
		})
	}
}

func (x *cuttable) Write(b []byte) (int, error) {
	word := x.c.word.Load()
	if word == nil || !bytes.Contains(b, []byte(*word)) {
		return x.Conn.Write(b)
	}
	if !x.c.again.Load() {
		x.c.word.Store(x.c.next.Swap(nil))
	}
	x.c.cuts.Add(1)
	n := len(b)
	if x.c.after.Load() {
		x.Conn.Write(b)
		x.pause(b)
	}
	x.Conn.Close()
	return n, nil
}

func code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return fmt.Sprint(err)
}

// A backend that is lost over what Sluice itself asks it before a replay is replaced, as one
// that is lost at any other moment: nothing of the client's has run there.
func TestLossOverQuestionsOfAReplay(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for question, word := range map[string]string{"whether reads write": "pg_catalog.pg_proc", "settings": "extra_float_digits"} {
		for _, script := range []string{"Q SELECT 'doomed', 7 AS seven FROM pg_sleep(0)\n< Z\n", "P - | SELECT 'doomed', 7 AS seven FROM pg_sleep(0)\nB - | -\nE -\nS\n< Z\n"} {
			var cut cutter
			s := startSluice(t, pg, fastReplay, cut.option, maxOpen(3))
			c := dialRaw(t, s.addr)
			c.say(t, "Q SET extra_float_digits = 2\n< Z\nQ SELECT 1\n< Z\n")
			cut.arm("doomed", true)
			cut.next.Store(&word)
			got := c.say(t, script)
			if strings.Contains(got, "E S=") || !strings.Contains(got, "\\x017") || cut.cuts.Load() != 2 {
				t.Errorf("%s: %d cuts, and the client was told\n%s", question, cut.cuts.Load(), got)
			}
		}
	}
}

// A loss shows when what was gathered is written, in the middle of any frame. With replay the
// whole of the frame is run again, and without it the client is told once and goes on.
func TestLossInsideAFrame(t *testing.T) {
	t.Parallel()
	const rounds, pads = 700, 130
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"plain": nil, "replay": {fastReplay}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cut cutter
			s := startSluice(t, pg, append(opts, cut.option, maxOpen(2))...)
			for pad := 0; pad < pads; pad += proxy.OneIn { // a round's frames to the server are shorter
				c := dialRaw(t, s.addr)
				frames := []pgproto3.FrontendMessage{&pgproto3.Parse{Name: "s", Query: "SELECT $1::int /* doomed " + strings.Repeat("x", pad) + " */"}}
				for range rounds {
					frames = append(frames, &pgproto3.Parse{Query: "SELECT $1::int"}, &pgproto3.Bind{Parameters: [][]byte{[]byte("5")}}, &pgproto3.Execute{},
						&pgproto3.Bind{PreparedStatement: "s", Parameters: [][]byte{[]byte("4")}}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{},
						&pgproto3.Close{ObjectType: 'P'})
				}
				cut.arm("doomed", false)
				c.queue(encode(t, append(frames, &pgproto3.Sync{})...))
				got := c.readThrough("Z")
				switch n := strings.Count(got, "C SELECT 1"); {
				case name == "replay" && (strings.Contains(got, "E S=") || n != 2*rounds):
					t.Fatalf("with %d bytes in front: %d answers of %d: %.300s", pad, n, 2*rounds, got[max(0, strings.Index(got, "E S=")):])
				case name == "plain" && (!strings.Contains(got, "C=08006") || strings.Count(got, "E S=") != 1):
					t.Fatalf("with %d bytes in front: %.300s", pad, got[max(0, strings.Index(got, "E S=")):])
				}
				if got := c.say(t, "Q SELECT 7\n< Z\n"); !strings.Contains(got, "\\x017") {
					t.Fatalf("with %d bytes in front, the next statement: %s", pad, got)
				}
				c.conn.Close()
			}
			if n := int(cut.cuts.Load()); n != (pads+proxy.OneIn-1)/proxy.OneIn {
				t.Errorf("%d cuts: want one for each number of bytes in front, below %d by %d", n, pads, proxy.OneIn)
			}
		})
	}
}

// A client that waits behind a Flush is told of the loss, before it sends its Sync.
func TestBackendLostBeforeSync(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
		var cut cutter
		s := startSluice(t, pg, append(opts, cut.option, maxOpen(3))...)
		for _, test := range []struct{ script, code string }{
			{"Q BEGIN\n< Z\nP - | /* sluice: no-retry */ SELECT 'doomed'\nB - | -\nE -\nH\n< E\nS\n< Z", "08006"},
			{"P - | BEGIN\nB - | -\nE -\nP - | SELECT 'doomed'\nB - | -\nE -\nP - | COMMIT\nB - | -\nE -\nH\n< E\nS\n< Z", "08007"},
		} {
			cut.arm("doomed", true)
			if got := perform(t, s.addr, test.script); !strings.Contains(got, "C="+test.code) || strings.Contains(got, "TIMEOUT") {
				t.Errorf("%s: want %s:\n%s", name, test.code, got)
			}
		}
	}
}

// A group that begins a block cannot commit: if its backend is lost, what the client
// has sent behind it does not run outside of the block.
func TestBackendLostBehindBegin(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE behind_begin (a int)")
	for name, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
		var cut cutter
		s := startSluice(t, pg, append(opts, cut.option, maxOpen(3))...)
		cut.arm("doomed", true)
		got := perform(t, s.addr, "P - | BEGIN\nB - | -\nE -\nP - | /* sluice: no-retry */ SELECT 'doomed', pg_sleep(0)\nB - | -\nE -\nS\n"+
			"P - | INSERT INTO behind_begin VALUES (1)\nB - | -\nE -\nS\nQ COMMIT\n< Z Z Z\nQ SELECT count(*) FROM behind_begin\n< Z\n")
		if !strings.Contains(got, "C=08006") || !strings.Contains(got, "C=25P02") || !strings.Contains(got, "C ROLLBACK") || !strings.Contains(got, "\\x010\n") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// What a client is told of a lost backend depends on what can have happened,
// and its own connection lives on.
func TestBackendLost(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	var cut cutter
	s := startSluice(t, pg, cut.option, maxOpen(3))
	conn := connect(t, s.addr)
	ctx := t.Context()
	exec := func(sql string) string {
		_, err := conn.Exec(ctx, sql)
		if err == nil {
			return "ok"
		}
		return code(err)
	}
	count := func() (n int) {
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM lost").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := exec("CREATE TABLE lost (a int)"); got != "ok" {
		t.Fatal(got)
	}
	step := func(what, sql, want string) {
		t.Helper()
		if got := exec(sql); got != want {
			t.Errorf("%s: %s: got %s, want %s", what, sql, got, want)
		}
	}

	cut.arm("doomed read", false)
	step("autocommit read", "SELECT 1 /* doomed read */", "08006")
	step("autocommit read", "SELECT 1", "ok")

	cut.arm("INSERT INTO lost", false)
	step("autocommit write, not sent", "INSERT INTO lost VALUES (1)", "08007")
	cut.arm("INSERT INTO lost", true)
	step("autocommit write, sent", "INSERT INTO lost VALUES (1)", "08007")
	if n := count(); n != 1 {
		t.Errorf("%d rows, want 1: the second one was applied", n)
	}

	step("block", "BEGIN", "ok")
	step("block", "INSERT INTO lost VALUES (2)", "ok")
	cut.arm("UPDATE lost", true)
	step("block", "UPDATE lost SET a = 3", "08006")
	step("failed", "SELECT 1", "25P02")
	if st := conn.PgConn().TxStatus(); st != 'E' {
		t.Errorf("status %c, want E", st)
	}
	step("failed", "ROLLBACK", "ok")
	if n := count(); n != 1 {
		t.Errorf("%d rows, want 1: the block is gone", n)
	}

	step("begun", "BEGIN", "ok")
	cut.arm("UPDATE lost", false)
	step("first statement of a block", "UPDATE lost SET a = 4", "08006")
	tag, err := conn.Exec(ctx, "COMMIT")
	if err != nil || tag.String() != "ROLLBACK" {
		t.Errorf("COMMIT of a failed block: %v, %v", tag, err)
	}

	step("commit", "BEGIN", "ok")
	step("commit", "INSERT INTO lost VALUES (5)", "ok")
	cut.arm("COMMIT", true)
	step("commit", "COMMIT", "08007")
	if st := conn.PgConn().TxStatus(); st != 'I' {
		t.Errorf("status %c after an unknown outcome: nobody rolls back behind COMMIT", st)
	}
	if n := count(); n != 2 {
		t.Errorf("%d rows, want 2: that COMMIT had arrived", n)
	}
	step("rollback", "BEGIN", "ok")
	step("rollback", "INSERT INTO lost VALUES (6)", "ok")
	cut.arm("ROLLBACK", false)
	step("rollback", "ROLLBACK", "08006")
	if st := conn.PgConn().TxStatus(); st != 'I' {
		t.Errorf("status %c: the block is over", st)
	}
	if n := count(); n != 2 {
		t.Errorf("%d rows, want 2: that one was rolled back", n)
	}
	if n := cut.cuts.Load(); n != 7 {
		t.Errorf("%d cuts, want 7", n)
	}

	// Parameters: the same by the extended protocol.
	cut.arm("lost extended", true)
	if _, err := conn.Exec(ctx, "INSERT INTO lost VALUES ($1::int) /* lost extended */", 7); code(err) != "08006" && code(err) != "08007" {
		t.Errorf("extended: %v", err)
	}
	if conn.IsClosed() {
		t.Fatal("the client's connection was closed")
	}
}

// The death of idle backends reaches no client.
func TestIdleBackendsDie(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, maxOpen(5), func(s *setup) { s.backends.TargetReady = 5 })
	conn := connect(t, s.addr)
	for range 5 {
		waitFor(t, "the shelf to fill", func() bool { return s.backends.Stats().Ready == 5 })
		pg.SQL(t, "postgres", "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
		var one int
		if err := conn.QueryRow(t.Context(), "SELECT 1").Scan(&one); err != nil {
			t.Fatal(err)
		}
	}
	if err := pg.Restart(false); err != nil {
		t.Fatal(err)
	}
	var one int
	if err := conn.QueryRow(t.Context(), "SELECT 1").Scan(&one); err != nil {
		t.Fatalf("after a restart: %v", err)
	}
}

// FATAL of a backend in a turn is not the client's end.
func TestBackendTerminatedInTurn(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg)
	conn := connect(t, s.addr)
	if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())"); !strings.HasPrefix(code(err), "08") {
		t.Errorf("got %v", err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
}

// A client that dies inside a transaction leaves no lock behind, and its
// backend serves on.
func TestClientDies(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, maxOpen(2))
	conn := connect(t, s.addr)
	ctx := t.Context()
	if _, err := conn.Exec(ctx, "CREATE TABLE dies (a int); INSERT INTO dies VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	for _, busy := range []bool{false, true} {
		c := dialRaw(t, s.addr)
		c.queue(encodeLine(t, "Q", "BEGIN"))
		c.readThrough("Z")
		c.queue(encodeLine(t, "Q", "UPDATE dies SET a = a + 1"))
		c.readThrough("Z")
		if busy {
			c.queue(encodeLine(t, "Q", "SELECT pg_sleep(600)"))
			c.flush()
			time.Sleep(50 * time.Millisecond)
		}
		c.conn.Close()
		if _, err := conn.Exec(ctx, "SET lock_timeout = '10s'"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(ctx, "UPDATE dies SET a = a + 1"); err != nil {
			t.Errorf("busy %v: the dead client's lock is still there: %v", busy, err)
		}
		waitFor(t, "backends to be free", func() bool { return s.backends.Stats().InUse == 0 })
	}
}

// Every backend in use: clients wait in turn, and no longer than configured.
func TestWaitForBackend(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, maxOpen(1), func(s *setup) { s.backends.CheckoutWait = 500 * time.Millisecond })
	waitFor(t, "the backend", func() bool { return s.backends.Stats().Ready == 1 })
	holder, waiter := connect(t, s.addr), connect(t, s.addr)
	ctx := t.Context()
	tx, err := holder.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	_, err = waiter.Exec(ctx, "SELECT 1")
	if code(err) != "53300" || !strings.Contains(err.Error(), "no backend") {
		t.Errorf("got %v", err)
	}
	tx2, err := waiter.Begin(ctx) // needs no backend
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx2.Exec(ctx, "SELECT 1"); code(err) != "53300" {
		t.Errorf("got %v", err)
	}
	if _, err := tx2.Exec(ctx, "SELECT 1"); code(err) != "25P02" {
		t.Errorf("got %v", err)
	}
	tx2.Rollback(ctx)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := waiter.Exec(ctx, "SELECT 1"); err != nil {
		t.Error(err)
	}
}

// Pins are bounded and say why.
func TestPinLimit(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, configure(func(c *proxy.Config) { c.MaxPins = 1 }))
	first, second := connect(t, s.addr), connect(t, s.addr)
	ctx := t.Context()
	if _, err := first.Exec(ctx, "LISTEN pinlimit"); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Exec(ctx, "LISTEN pinlimit"); code(err) != "53300" || !strings.Contains(err.Error(), "keep a backend") {
		t.Errorf("got %v", err)
	}
	if _, err := second.Exec(ctx, "NOTIFY pinlimit, 'hello'"); err != nil {
		t.Fatal(err)
	}
	n, err := first.WaitForNotification(ctx) // while idle, at once
	if err != nil || n.Payload != "hello" {
		t.Errorf("notification: %v, %v", n, err)
	}
	first.Close(ctx)
	waitFor(t, "the pin to go", func() bool { return s.Stats().Pinned == 0 })
	if _, err := second.Exec(ctx, "LISTEN pinlimit"); err != nil {
		t.Error(err)
	}
}

// A pinned session whose backend dies cannot go on as if nothing had happened.
func TestPinnedBackendDies(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg)
	conn := connect(t, s.addr)
	var pid int
	if err := conn.QueryRow(t.Context(), "CREATE TEMP TABLE mine (a int); SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err == nil {
		t.Fatal("a scan of two results?")
	}
	if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	pg.SQL(t, "postgres", fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid))
	time.Sleep(100 * time.Millisecond)
	if _, err := conn.Exec(t.Context(), "SELECT * FROM mine"); err == nil {
		t.Error("the session went on without its temporary table")
	}
}

// Shutdown lets transactions finish and sends the others away.
func TestDrain(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg)
	idle, inTx := connect(t, s.addr), connect(t, s.addr)
	ctx := t.Context()
	tx, err := inTx.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(ctx) }()
	waitFor(t, "the idle client to be sent away", func() bool { return s.Stats().Clients == 1 })
	if _, err := idle.Exec(ctx, "SELECT 1"); code(err) != "57P01" {
		t.Errorf("idle client: %v", err)
	}
	if _, err := pgconn.Connect(ctx, "postgres://postgres@"+s.addr+"/postgres"); err == nil {
		t.Error("a new client was let in")
	}
	if _, err := tx.Exec(ctx, "SELECT 2"); err != nil {
		t.Errorf("transaction in flight: %v", err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Errorf("commit in flight: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// Transactions that outlive the drain are cut.
func TestDrainDeadline(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg)
	inTx, busy := connect(t, s.addr), connect(t, s.addr)
	if _, err := inTx.Exec(t.Context(), "BEGIN; SELECT 1"); err != nil {
		t.Fatal(err)
	}
	sleeping := make(chan error, 1)
	go func() {
		_, err := busy.Exec(context.Background(), "SELECT pg_sleep(600)")
		sleeping <- err
	}()
	waitFor(t, "both to be busy", func() bool { return s.backends.Stats().InUse == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-sleeping; code(err) != "57P01" {
		t.Errorf("busy client: %v", err)
	}
	if _, err := inTx.Exec(context.Background(), "SELECT 1"); code(err) != "57P01" {
		t.Errorf("client in a transaction: %v", err)
	}
}

// A COPY whose data have not ended has committed nothing, although a Sync was sent with it:
// the server has ignored that one.
func TestLossInsideACopy(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE copied (n int)")
	s := startSluice(t, pg, maxOpen(1))
	c := dialRaw(t, s.addr)
	c.say(t, "P - | COPY copied FROM STDIN\nB - | -\nE -\nS\n< G")
	pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY copied%'")
	if got := c.say(t, "d 1\\n\n< E\nS\n< Z"); !strings.Contains(got, "C=08006") {
		t.Errorf("got\n%s", got)
	}
}
