package proxy_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
)

// A client over the cap is told so; one that leaves makes room.
func TestMaxClients(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.MaxClients = 2 }))
	first := dialRaw(t, s.addr)
	dialRaw(t, s.addr)
	_, err := pgconn.Connect(t.Context(), "postgres://postgres@"+s.addr+"/postgres?sslmode=disable")
	if code(err) != "53300" || !strings.Contains(fmt.Sprint(err), "too many clients") {
		t.Errorf("third client: %v", err)
	}
	first.conn.Close()
	waitFor(t, "the first client to be gone", func() bool { return s.Stats().Clients == 1 })
	dialRaw(t, s.addr)
}

// Connections that say nothing keep nobody out: who comes when all places are theirs takes that of the
// oldest. A session never gives way, nor does a startup that has only begun.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	log := new(logged)
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.MaxClients = 20 }), func(s *setup) { s.log = log })
	in := dialRaw(t, s.addr)
	silent := func() (all []net.Conn) {
		for range 20 + proxy.SpareConns {
			conn := dialTCP(t, s.addr)
			t.Cleanup(func() { conn.Close() })
			all = append(all, conn)
		}
		return all
	}
	first := silent()
	// On a slow machine the first has had its time before the last comes, and gives way to it.
	waitFor(t, "one to be refused, or to give way", func() bool { return len(log.with("connections turned away")) == 1 })
	time.Sleep(300 * time.Millisecond) // longer than a place is kept in any case
	for range 19 {
		dialRaw(t, s.addr)
	}
	if _, err := pgconn.Connect(t.Context(), "postgres://postgres@"+s.addr+"/postgres?sslmode=disable"); code(err) != "53300" {
		t.Errorf("one too many was told %v, want 53300", err)
	}
	if got := in.say(t, "Q SELECT 1\n< Z\n"); !strings.Contains(got, "C SELECT 1") {
		t.Errorf("who was in got\n%s", got)
	}
	gone := 0
	for _, conn := range first {
		conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); err != nil && !isDeadline(err) {
			gone++
		}
	}
	if gone < 20 || gone > 22 { // one was refused as it came
		t.Errorf("%d silent connections gave way to 20 newcomers", gone)
	}
	if got := log.with("connections turned away"); len(got) != 1 {
		t.Errorf("the log has %q", got)
	}
}

// A connection that is turned away, and cannot be told why at once, holds nobody up.
func TestTurnedAwayHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.MaxClients = 1 }))
	ln := newPipeListener()
	go s.Serve(ln) // which ends with the server
	enough := make(chan struct{})
	go func() {
		// Nobody reads at the other ends. On a slow machine the first have had their time when the last come, and give way
		// to them: more come until some were refused.
		for {
			select {
			case <-enough:
				<-ln.done
				return
			case <-ln.done:
				return
			default:
				defer ln.dial().Close()
			}
		}
	}()
	waitFor(t, "newcomers to be refused", func() bool {
		return s.count(t, "dsql_startups_refused_total", "too_many_clients") >= 5
	})
	close(enough)
	counted := make(chan struct{})
	go func() { s.Stats(); close(counted) }()
	select {
	case <-counted:
	case <-time.After(20 * time.Second):
		t.Fatal("a client that does not read what it is told keeps the server's lock")
	}
}

// Clients that say nothing are sent away when they were told to speak.
func TestClientTimeouts(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) {
		c.ClientIdleTimeout, c.IdleTransactionTimeout = 100*time.Millisecond, 50*time.Millisecond
	}))
	for setup, want := range map[string]string{"": "57P05", "BEGIN": "25P03", "BEGIN; SELECT 1": "25P03"} {
		c := dialRaw(t, s.addr)
		if setup != "" {
			c.queue(encodeLine(t, "Q", setup))
			c.readThrough("Z")
		}
		if got := c.readThrough("!"); !strings.Contains(got, "E S=FATAL C="+want) || !strings.HasSuffix(got, "EOF\n") {
			t.Errorf("after %q: %q, want %s", setup, got, want)
		}
	}
	waitFor(t, "backends to be back", func() bool { return s.backends.Stats().InUse == 0 })
}

// A client may close its sending half and still wants its answer.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range routes {
		s := startSluice(t, pg, opts...)
		c := dialRaw(t, s.addr)
		c.queue(encodeLine(t, "Q", "SELECT 'answer', pg_sleep(0.1)"))
		c.flush()
		if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got := c.readThrough("Z"); !strings.Contains(got, "answer") || !strings.HasSuffix(got, "Z I\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Cancel requests with keys that nobody was given disturb nobody.
func TestUnknownCancelKeys(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t))
	conn := connect(t, s.addr)
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT pg_sleep(1)")
		done <- err
	}()
	waitFor(t, "the statement to run", func() bool { return s.backends.Stats().InUse == 1 })
	pid := conn.PgConn().PID()
	for i := range uint32(50) {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		b, err := (&pgproto3.CancelRequest{ProcessID: pid + i%2, SecretKey: binary.BigEndian.AppendUint32(nil, i)}).Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Write(b)
		if rest, err := io.ReadAll(c); err != nil || len(rest) != 0 {
			t.Errorf("answer to a cancel: %q, %v", rest, err)
		}
		c.Close()
	}
	if err := <-done; err != nil {
		t.Errorf("the statement was disturbed: %v", err)
	}
	if n := s.count(t, "dsql_cancels_total", "unknown_key"); n != 50 {
		t.Errorf("%g unknown keys counted, want 50", n)
	}
}

// With a backend of its own, an idle client hears what the server says at once.
func TestServerSpeaksFirst(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for _, tls := range []bool{false, true} {
		opts := []option{sessionPairing}
		if tls {
			opts = append(opts, backendTLS)
		}
		c := dialRaw(t, startSluice(t, pg, opts...).addr)
		c.queue(encodeLine(t, "Q", "LISTEN speaks"))
		c.readThrough("Z")
		pg.SQL(t, "postgres", "NOTIFY speaks, 'first'")
		if got := c.readThrough("A"); !strings.Contains(got, "first") {
			t.Errorf("TLS %v: notification: %q", tls, got)
		}
		c.queue(encodeLine(t, "Q", "SELECT pg_backend_pid()"))
		row := c.readThrough("Z")
		var pid int
		for line := range strings.Lines(row) {
			if rest, ok := strings.CutPrefix(line, "D "); ok {
				fmt.Sscan(rest[strings.LastIndexByte(rest, 'x')+3:], &pid)
			}
		}
		pg.SQL(t, "postgres", fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid))
		if got := c.readThrough("!"); !strings.Contains(got, "E S=FATAL C=57P01") || !strings.HasSuffix(got, "EOF\n") {
			t.Errorf("TLS %v: farewell of backend %d (%q): %q", tls, pid, row, got)
		}
	}
}

// A message that the server would close its connection over is refused, and costs no
// backend.
func TestMessagesThatTheServerDoesNotTake(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.MaxMessageBytes = 3 << 20 }))
	long := strings.Repeat("x", 3<<20)
	for name, form := range map[string]struct {
		start, send, want string
		status            string
	}{
		"a Query":            {"Q SELECT 1", "Q SELECT length('" + long + "')", "< Z", "Z I"},
		"a Query in a block": {"Q BEGIN", "Q SELECT length('" + long + "')", "< Z", "Z E"},
		"a Bind":             {"Q SELECT 1", "P - | SELECT length($1::text)\nB - | - | " + long + "\nE -\nS", "< Z", "Z I"},
		"a Bind in a block":  {"Q BEGIN", "P - | SELECT length($1::text)\nB - | - | " + long + "\nE -\nS", "< Z", "Z E"},
	} {
		c := dialRaw(t, s.addr)
		c.say(t, form.start+"\n< Z")
		got := c.say(t, form.send+"\n"+form.want)
		if !strings.Contains(got, "C=54000") || !strings.Contains(got, "backend.max_message_bytes is 3145728") || !strings.HasSuffix(got, form.status+"\n") {
			t.Errorf("%s: %.300q", name, got)
		}
		if got := c.say(t, "Q ROLLBACK\nQ SELECT 7\n< ZZ"); !strings.Contains(got, "C SELECT 1") {
			t.Errorf("%s: behind it %s", name, got)
		}
		c.conn.Close()
	}
	waitFor(t, "backends to be back", func() bool { return s.backends.Stats().InUse == 0 })
	if n := s.sum(t, "dsql_reservoir_discards_total"); n > 0 {
		t.Errorf("%v backends were discarded", n)
	}
}

// A limit below that of a text that is read counts for such a text too.
func TestShortLimitOfMessages(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.MaxMessageBytes = 64 << 10 }))
	long := strings.Repeat("x", 80<<10)
	for name, script := range map[string]string{
		"a Query": "Q SELECT length('" + long + "')\n< Z",
		"a Parse": "P - | SELECT length('" + long + "')\nB - | -\nE -\nS\n< Z",
	} {
		c := dialRaw(t, s.addr)
		if got := c.say(t, script+"\nQ SELECT 7\n< Z"); strings.Count(got, "C=54000") != 1 || !strings.Contains(got, "C SELECT 1") {
			t.Errorf("%s: %.300q", name, got)
		}
		c.conn.Close()
	}
}

// A message that is too long is skipped behind an error as any other, also where the error
// comes while the message does.
func TestLongMessageBehindAnError(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.MaxMessageBytes = 3 << 20 }))
	c := dialRaw(t, s.addr)
	c.say(t, "P - | SELECT 1/0\nB - | -\nE -\nP - | SELECT repeat('y', 20000), length($1::text)\n")
	c.slowly(t, &pgproto3.Bind{Parameters: [][]byte{[]byte(strings.Repeat("x", 3<<20))}}, nil)
	if got := c.say(t, "E -\nS\n< Z"); !strings.Contains(got, "C=22012") || strings.Contains(got, "C=54000") || !strings.HasSuffix(got, "Z I\n") {
		t.Errorf("got %.500s", got)
	}
	if got := c.say(t, "Q SELECT 7\n< Z"); !strings.Contains(got, "C SELECT 1") {
		t.Errorf("behind it %s", got)
	}
	if n := s.sum(t, "dsql_reservoir_discards_total"); n > 0 {
		t.Errorf("%v backends were discarded", n)
	}
}

// A message that is too long is refused also where the backend is lost while it comes, and
// what went before it is run again.
func TestLongMessageAndALoss(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, fastReplay, configure(func(c *proxy.Config) { c.MaxMessageBytes = 3 << 20 }))
	c := dialRaw(t, s.addr)
	c.say(t, "P - | SELECT pg_sleep(1)\nB - | -\nE -\nP - | SELECT length($1::text)\n")
	c.slowly(t, &pgproto3.Bind{Parameters: [][]byte{[]byte(strings.Repeat("x", 3<<20))}}, func() {
		pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND pid <> pg_backend_pid()")
	})
	if got := c.say(t, "E -\nS\n< Z"); !strings.Contains(got, "C=54000") || strings.Count(got, "D ") > 1 || !strings.HasSuffix(got, "Z I\n") {
		t.Errorf("got %.500s", got)
	}
	if got := c.say(t, "Q SELECT 7\n< Z"); !strings.Contains(got, "C SELECT 1") {
		t.Errorf("behind it %s", got)
	}
}

// slowly sends what is queued, and a message in two parts; then is called between them.
func (c *rawClient) slowly(t *testing.T, message pgproto3.FrontendMessage, then func()) {
	t.Helper()
	c.flush()
	out := encode(t, message)
	c.conn.Write(out[:len(out)/2])
	time.Sleep(200 * time.Millisecond)
	if then != nil {
		then()
		time.Sleep(200 * time.Millisecond)
	}
	c.conn.Write(out[len(out)/2:])
}

// All clients of a pod come from one address: its share is all of the places. 5,000 that start at once
// are all let in.
func TestStartsFromOneAddress(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t))
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	n := min(proxy.MostStarts, int(min(limit.Cur, 1<<20))/4) // both ends are here
	hello, err := (&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersionNumber, Parameters: map[string]string{"user": "postgres"}}).Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, n)
	for range n {
		go func() {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				errs <- err
				return
			}
			t.Cleanup(func() { conn.Close() })
			conn.Write(hello)
			var first [1]byte
			if _, err = io.ReadFull(conn, first[:]); err == nil && first[0] != 'R' {
				err = fmt.Errorf("answered by %c", first[0])
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "all sessions", func() bool { return s.Stats().Clients == n })
}
