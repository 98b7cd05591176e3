package proxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
)

// upload sends a statement that keeps the server from reading, and behind it in the same
// turn more than the sockets hold. sent is closed when all of it was written, or could not
// be.
func (c *rawClient) upload(t *testing.T, tag string) (sent chan struct{}) {
	t.Helper()
	out := encode(t, &pgproto3.Parse{Query: "SELECT pg_sleep(600), '" + tag + "'"}, &pgproto3.Bind{}, &pgproto3.Execute{},
		&pgproto3.Parse{Query: "SELECT length($1::text)"}, &pgproto3.Bind{Parameters: [][]byte{[]byte(strings.Repeat("x", 24<<20))}},
		&pgproto3.Execute{}, &pgproto3.Sync{})
	sent = make(chan struct{})
	go func() {
		defer close(sent)
		c.conn.Write(out)
	}()
	return sent
}

// An upload that the server does not take ends as any other turn: by a cancel, by a
// timeout, with its backend, with its client.
func TestUploadThatIsNotTaken(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t) // beside others' functions a read might write, and is waited for
	for name, opts := range map[string][]option{"plain": {asDSQL}, "replay": {asDSQL, fastReplay}} {
		s := startSluice(t, pg, append(opts, maxOpen(4), configure(func(c *proxy.Config) { c.CancelGrace = 100 * time.Millisecond }))...)
		t.Run(name, func(t *testing.T) {
			t.Run("timeout", func(t *testing.T) {
				c := dialRaw(t, s.addr)
				c.say(t, "Q SET statement_timeout = 1000\nQ BEGIN\n< ZZ")
				sent := c.upload(t, name+"timeout")
				c.endsWith(t, sent, "C=57014", "Z E")
			})
			t.Run("cancel", func(t *testing.T) {
				c, cancel := dialKeyed(t, s.addr, nil)
				c.say(t, "Q BEGIN\n< Z")
				sent := c.upload(t, name+"cancel")
				time.Sleep(time.Second)
				cancel()
				c.endsWith(t, sent, "C=57014", "Z E")
			})
			t.Run("loss", func(t *testing.T) {
				c := dialRaw(t, s.addr)
				c.say(t, "Q BEGIN /* sluice: no-retry */\nQ SELECT 1\n< ZZ")
				sent := c.upload(t, name+"loss")
				time.Sleep(time.Second)
				pg.SQL(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%"+name+"loss''' AND pid <> pg_backend_pid()")
				c.endsWith(t, sent, "C=08006", "Z E")
			})
			t.Run("client", func(t *testing.T) {
				waitFor(t, "others to leave", func() bool { return s.Stats().Clients == 0 })
				c := dialRaw(t, s.addr)
				c.say(t, "Q BEGIN\n< Z")
				c.upload(t, name+"client")
				time.Sleep(time.Second)
				c.conn.Close()
				waitFor(t, "the session to end", func() bool { return s.Stats().Clients == 0 && s.backends.Stats().InUse == 0 })
			})
		})
	}
}

// endsWith reads the answer of an upload: an error with want, and the status behind it. Then
// the client goes on, and leaves.
func (c *rawClient) endsWith(t *testing.T, sent chan struct{}, want, status string) {
	t.Helper()
	got := c.readThrough("Z")
	<-sent
	if !strings.Contains(got, want) || !strings.HasSuffix(got, status+"\n") {
		t.Errorf("the upload ended with\n%s\nwant %s", got, want)
	}
	if got := c.say(t, "Q ROLLBACK\nQ SELECT 7\n< ZZ"); !strings.Contains(got, "C SELECT 1") {
		t.Errorf("behind it\n%s", got)
	}
	c.conn.Close()
}

// A turn that is given up while a statement is being prepared, which the server does not
// take, ends as any other.
func TestGivenUpWhilePreparing(t *testing.T) {
	t.Parallel()
	const texts = 300 // of 60 kB each: more than the sockets hold
	pg := newPostgres(t)
	for name, opts := range map[string][]option{"plain": nil, "replay": {fastReplay}} {
		t.Run(name, func(t *testing.T) {
			s := startSluice(t, pg, append(opts, asDSQL, maxOpen(4), configure(func(c *proxy.Config) {
				c.PreparedPerBackend, c.PreparedTotalBytes = 2*texts, 1<<30
			}))...)
			first, c := dialRaw(t, s.addr), dialRaw(t, s.addr)
			text := func(i int) *pgproto3.Parse {
				return &pgproto3.Parse{Query: fmt.Sprintf("SELECT %d /*%s*/", i, strings.Repeat("x", 60_000))}
			}
			for i := range texts {
				first.queue(encode(t, text(i), &pgproto3.Sync{}))
				first.readThrough("Z")
			}
			first.say(t, "Q BEGIN\nQ SELECT 1\n< ZZ") // the other client gets another backend
			c.say(t, "Q SET statement_timeout = 1000\nQ BEGIN\n< ZZ")
			out := encode(t, &pgproto3.Parse{Query: "SELECT pg_sleep(600)"}, &pgproto3.Bind{}, &pgproto3.Execute{})
			for i := range texts {
				out = append(out, encode(t, text(i), &pgproto3.Bind{}, &pgproto3.Execute{})...)
			}
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				c.conn.Write(append(out, encode(t, &pgproto3.Sync{})...))
			}()
			c.endsWith(t, sent, "C=57014", "Z E")
		})
	}
}

// A server that is still being sent a message owes nothing, however long that takes.
func TestSlowUploadIsNoSilence(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.SilenceTimeout = 3 * time.Second }))
	c := dialRaw(t, s.addr)
	out := encode(t, &pgproto3.Parse{Query: "SELECT length($1::text)"}, &pgproto3.Bind{Parameters: [][]byte{[]byte(strings.Repeat("x", 30<<20))}},
		&pgproto3.Execute{}, &pgproto3.Sync{})
	for piece := range slices.Chunk(out, 1<<20) {
		c.conn.Write(piece)
		time.Sleep(150 * time.Millisecond)
	}
	if got := c.readThrough("Z"); !strings.Contains(got, "C SELECT 1") {
		t.Errorf("got\n%s", got)
	}
}
