package proxy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// routes are the ways a client's bytes may take.
var routes = map[string][]option{
	"transaction":       nil,
	"transaction/plain": {plainConn},
	"transaction/tls":   {backendTLS},
	"session":           {sessionPairing},
	"session/tls":       {sessionPairing, backendTLS},
}

func encode(t testing.TB, msgs ...pgproto3.FrontendMessage) []byte {
	t.Helper()
	var out []byte
	for _, m := range msgs {
		var err error
		if out, err = m.Encode(out); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Both directions of a turn may exceed the socket buffers many times over.
func TestOversizedTurn(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range routes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n, size = 1024, 64 << 10 // 64 MiB each way
			c := dialRaw(t, startSluice(t, pg, opts...).addr)
			value := bytes.Repeat([]byte("v"), size)
			sent := make(chan error, 1)
			go func() {
				one := encode(t, &pgproto3.Bind{PreparedStatement: "echo", Parameters: [][]byte{value}}, &pgproto3.Execute{})
				_, err := c.conn.Write(encode(t, &pgproto3.Parse{Name: "echo", Query: "SELECT $1::text"}))
				for i := 0; i < n && err == nil; i++ {
					_, err = c.conn.Write(one)
				}
				if err == nil {
					_, err = c.conn.Write(encode(t, &pgproto3.Sync{}))
				}
				sent <- err
			}()
			rows := 0
			for {
				typ, payload, err := c.frame()
				if err != nil {
					t.Fatalf("after %d rows: %v", rows, err)
				}
				switch typ {
				case 'D':
					if !bytes.Equal(payload[6:], value) {
						t.Fatalf("row %d differs", rows)
					}
					rows++
				case 'E':
					t.Fatal(showFrame(typ, payload))
				}
				if typ == 'Z' {
					break
				}
			}
			if err := <-sent; err != nil || rows != n {
				t.Fatalf("%d rows of %d, write: %v", rows, n, err)
			}
		})
	}
}

// A pipeline has as many statements as the client likes, in bounded memory.
func TestLongPipeline(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range routes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 100_000
			c := dialRaw(t, startSluice(t, pg, opts...).addr)
			go func() {
				one := encode(t, &pgproto3.Parse{Query: "SELECT 1"}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{})
				chunk := bytes.Repeat(one, 100)
				for range n / 100 {
					if _, err := c.conn.Write(chunk); err != nil {
						return
					}
				}
				c.conn.Write(encode(t, &pgproto3.Sync{}))
			}()
			counts := map[byte]int{}
			for counts['Z'] == 0 {
				typ, payload, err := c.frame()
				if err != nil {
					t.Fatalf("%v after %v", err, counts)
				}
				if typ == 'E' {
					t.Fatal(showFrame(typ, payload))
				}
				counts[typ]++
			}
			for _, typ := range []byte{'1', '2', 'T', 'D', 'C'} {
				if counts[typ] != n {
					t.Errorf("%d frames of type %c, want %d", counts[typ], typ, n)
				}
			}
		})
	}
}

// A client that does not read holds back its server and nobody's memory.
func TestClientThatDoesNotRead(t *testing.T) { // not parallel: it looks at the heap
	pg := sharedPostgres(t)
	s := startSluice(t, pg)
	c := dialRaw(t, s.addr)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c.queue(encode(t, &pgproto3.Query{String: "SELECT repeat('x', 1000) FROM generate_series(1, 5000000)"})) // 5 GB
	c.flush()
	other, err := pgx.Connect(t.Context(), "postgres://postgres@"+s.addr+"/postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	for range 20 { // others go on meanwhile
		var one int
		if err := other.QueryRow(t.Context(), "SELECT 1").Scan(&one); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
	c.conn.Close()
	waitFor(t, "the backend to come back", func() bool { return s.backends.Stats().InUse == 0 })
}

// A pipeline with an error in it is skipped from there to its Sync, also where the error
// comes to light because the session holds as much unanswered as it may.
func TestLongPipelineFails(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	const n = 12_000 // 36,000 frames, more than twice what is held
	all := map[string][]option{"replay": {withReplay}}
	for name, opts := range routes {
		all[name] = opts
	}
	addrs := map[string]string{}
	for name, opts := range all {
		s := startSluice(t, pg, opts...)
		// A client that comes before the first backend is told parameters later.
		waitFor(t, "a backend", func() bool { return strings.HasPrefix(name, "session") || s.backends.Stats().Ready > 0 })
		addrs[name] = s.addr
	}
	for _, failsAt := range []int{0, 5000, 5461, 11_000} {
		for _, flush := range []bool{false, true} {
			play := func(addr string) string {
				c := dialRaw(t, addr)
				defer c.conn.Close()
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					out := encode(t, &pgproto3.Parse{Query: "SELECT 1 / $1::int"})
					for i := range n {
						value := []byte("1")
						if i == failsAt {
							value = []byte("0")
						}
						out = append(out, encode(t, &pgproto3.Bind{Parameters: [][]byte{value}}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{})...)
					}
					last := encode(t, &pgproto3.Sync{})
					if flush {
						last = encode(t, &pgproto3.Flush{})
					}
					c.conn.Write(append(out, last...))
				}()
				counts, errors := map[byte]int{}, ""
				read := func(until byte) {
					for {
						typ, payload, err := c.frame()
						if err != nil {
							errors += err.Error()
							return
						}
						if typ == 'E' {
							errors += showFrame(typ, payload)
						}
						counts[typ]++
						if typ == until {
							return
						}
					}
				}
				if flush { // the client waits for its error
					read('E')
					<-sent
					c.conn.Write(encode(t, &pgproto3.Sync{}))
				}
				read('Z')
				<-sent
				c.conn.Write(encode(t, &pgproto3.Query{String: "SELECT 2"}))
				read('Z')
				return fmt.Sprint(errors, counts)
			}
			want := play(pg.addr)
			for name, addr := range addrs {
				if got := play(addr); got != want {
					t.Fatalf("%s, failing at %d, Flush %v:\n%s\ndirectly:\n%s", name, failsAt, flush, got, want)
				}
			}
		}
	}
}

// waitFor polls a condition that must come true in bounded time.
func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Rows and parameters larger than any buffer pass whole.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range routes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, startSluice(t, pg, opts...).addr)
			for _, size := range []int{0, 1, 16<<10 - 7, 32<<10 - 12, 32 << 10, 32<<10 + 1, 100_000, 10 << 20} {
				value := strings.Repeat("x", size)
				var back string
				var n int
				if err := conn.QueryRow(t.Context(), "SELECT $1::text, length($1::text)", value).Scan(&back, &n); err != nil {
					t.Fatalf("%d bytes: %v", size, err)
				}
				if back != value || n != size {
					t.Fatalf("%d bytes came back as %d", size, len(back))
				}
				if _, err := conn.Exec(t.Context(), fmt.Sprintf("SELECT '%s'", value)); err != nil {
					t.Fatalf("simple query of %d bytes: %v", size, err)
				}
			}
		})
	}
}

func connect(t testing.TB, addr string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), "postgres://postgres@"+addr+"/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// Hostile input ends its own connection with an error, and no other. A frame whose length is right is an
// error of the session, which goes on.
func TestHostileFrames(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg)
	witness := connect(t, s.addr)
	header := func(typ byte, n int32) []byte {
		return binary.BigEndian.AppendUint32([]byte{typ}, uint32(n))
	}
	for name, b := range map[string][]byte{
		"negative length":     header('Q', -1),
		"length below itself": header('Q', 3),
		"length over 1 GB":    header('Q', 1<<30),
		"long Execute":        header('E', 20_000),
		"unknown type":        header('y', 4),
		"server's frame":      header('Z', 5),
		"password unasked":    append(header('p', 8), 0, 0, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, s.addr)
			c.queue(b)
			got := c.readThrough("!")
			if !strings.HasPrefix(got, "E S=FATAL C=08P01") || !strings.HasSuffix(got, "EOF\n") {
				t.Errorf("answer: %q", got)
			}
		})
	}
	for name, b := range map[string][]byte{
		"Query without end":       append(header('Q', 8), 'a', 'b', 'c', 'd'),
		"Query with a tail":       append(header('Q', 8), 'a', 0, 'c', 0),
		"Parse without types":     append(header('P', 6), 0, 0),
		"Parse with wrong count":  append(header('P', 8), 0, 0, 0, 9),
		"Bind without names":      append(header('B', 8), 'a', 'b', 'c', 'd'),
		"Describe of nothing":     append(header('D', 6), 'x', 0),
		"Execute without a count": append(header('E', 6), 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, s.addr)
			if b[0] != 'Q' {
				b = append(b, header('S', 4)...)
			}
			c.queue(b)
			if got := c.readThrough("Z"); !strings.HasPrefix(got, "E S=ERROR C=08P01") || !strings.HasSuffix(got, "Z I\n") {
				t.Errorf("answer: %q", got)
			}
			if got := c.say(t, "Q SELECT 1\n< Z\n"); !strings.Contains(got, "C SELECT 1") {
				t.Errorf("behind it: %q", got)
			}
		})
	}
	c := dialRaw(t, s.addr) // cut short
	c.queue(header('Q', 100)[:3])
	c.flush()
	c.conn.Close()
	var one int
	if err := witness.QueryRow(t.Context(), "SELECT 1").Scan(&one); err != nil {
		t.Error(err)
	}
	waitFor(t, "sessions to end", func() bool { return s.Stats().Clients == 1 })
}
