package proxy_test

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// largeInsert is an INSERT of about 1 MB; no two of different numbers are alike.
func largeInsert(number int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO t (a, b) VALUES ")
	for i := 0; b.Len() < 1<<20; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("(" + strconv.Itoa(number*1e6+i) + ", '" + strings.Repeat("some text of no use ", 10) + "')")
	}
	return b.String()
}

// BenchmarkLargeText is a statement of 1 MB on a server that answers at once: no text comes twice in
// succession. The CPU is that of the process, client and server included; direct has no Sluice between
// them.
func BenchmarkLargeText(b *testing.B) {
	simple, extended := make([][]byte, 8), make([][]byte, 8)
	for i := range simple {
		text := largeInsert(i)
		simple[i] = encode(b, &pgproto3.Query{String: text})
		extended[i] = encode(b, &pgproto3.Parse{Query: text}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{})
	}
	pg := fakePostgres(b)
	for _, way := range []struct {
		name string
		addr func(b *testing.B) string
	}{
		{"direct", func(*testing.B) string { return pg.addr }},
		{"logged", func(b *testing.B) string { return startSluice(b, pg, withReplay).addr }},
		{"unlogged", func(b *testing.B) string { return startSluice(b, pg).addr }},
	} {
		for protocol, messages := range map[string][][]byte{"simple": simple, "extended": extended} {
			b.Run(way.name+"/"+protocol, func(b *testing.B) { askEach(b, way.addr(b), messages) })
		}
	}
}

// askEach asks one of messages after the other, and reports the CPU for each.
func askEach(b *testing.B, addr string, messages [][]byte) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	buf := make([]byte, 8<<10)
	askRaw(b, conn, buf, encode(b, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "postgres", "database": "postgres"}}))
	askRaw(b, conn, buf, messages[0])
	b.ReportAllocs()
	b.SetBytes(int64(len(messages[0])))
	before := usedCPU(b)
	b.ResetTimer()
	for i := range b.N {
		askRaw(b, conn, buf, messages[i%len(messages)])
	}
	b.StopTimer()
	b.ReportMetric(float64((usedCPU(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// usedCPU is the CPU time that the process has had so far.
func usedCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Long texts reach the server as they are, from several clients at a time, whose texts are read into
// buffers that others have had.
func TestLongTextsArrive(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]option{"plain": nil, "TLS": {backendTLS}, "replay": {withReplay, maxOpen(3)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSluice(t, sharedPostgres(t), options...)
			var clients sync.WaitGroup
			for i := range 6 {
				random := rand.New(rand.NewPCG(uint64(i), 18))
				clients.Go(func() {
					c := dialRaw(t, s.addr)
					for range 12 {
						var messages []pgproto3.FrontendMessage
						var want []string
						for range 1 + random.IntN(3) {
							text, sum := hashed(random)
							want = append(want, sum)
							messages = append(messages, asked(random, text)...)
						}
						sent := make(chan error, 1)
						message := encode(t, messages...)
						go func() {
							_, err := c.conn.Write(message)
							sent <- err
						}()
						for _, sum := range want {
							if got := c.readThrough("Z"); !strings.Contains(got, sum) {
								t.Errorf("got %q, want %s", got, sum)
								return
							}
						}
						if err := <-sent; err != nil {
							t.Error(err)
						}
					}
				})
			}
			clients.Wait()
		})
	}
}

// hashed is a query for the hash of a long constant, of which no two are alike, and the hash.
func hashed(random *rand.Rand) (text, sum string) {
	size := []int{random.IntN(1 << 10), wire.BufferSize + random.IntN(64) - 50, 2*wire.BufferSize + random.IntN(64) - 50, random.IntN(400 << 10)}[random.IntN(4)]
	constant := strings.Repeat(strconv.FormatUint(random.Uint64(), 36)+" ", size/8)
	return "SELECT md5('" + constant + "')", fmt.Sprintf("%x", md5.Sum([]byte(constant)))
}

// asked is a statement by either protocol.
func asked(random *rand.Rand, text string) []pgproto3.FrontendMessage {
	if random.IntN(2) == 0 {
		return []pgproto3.FrontendMessage{&pgproto3.Query{String: text}}
	}
	return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: text}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}}
}

// A text of a megabyte makes no garbage but what a client's statement is kept in.
func TestLongTextsMakeLittleGarbage(t *testing.T) {
	const queries = 40
	for protocol, most := range map[string]uint64{"simple": 512 << 10, "extended": 1<<20 + 512<<10} { // half a text is for buffers that a collection takes from the pools
		s := startSluice(t, fakePostgres(t), withReplay)
		c := dialRaw(t, s.addr)
		message := encode(t, &pgproto3.Query{String: largeInsert(0)})
		if protocol == "extended" {
			message = encode(t, &pgproto3.Parse{Query: largeInsert(0)}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{})
		}
		each := garbage(queries, func() {
			c.conn.Write(message)
			c.readThrough("Z")
		})
		if each > most && !proxy.Racing {
			t.Errorf("%s: %d bytes of garbage for a text of %d, want %d at most", protocol, each, len(message), most)
		}
	}
}

// A text that the server is slow to take stays as it is, whatever others send meanwhile.
func TestLongTextsWaitUnchanged(t *testing.T) {
	const clients = 4
	t.Parallel()
	begun, goOn := make(chan bool), make(chan bool) // the server has a part of a text; it takes the rest
	pg := serving(t, func(conn net.Conn) {
		conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		hashingBackend(conn, func() { begun <- true; <-goOn })
	})
	s := startSluice(t, pg, maxOpen(clients), func(s *setup) { s.proxy.MaxStatementBytes = 16 << 20 })
	var all sync.WaitGroup
	for i := range clients {
		c, text := dialRaw(t, s.addr), strings.Repeat(largeInsert(i)+";", 10) // more than the kernel takes
		all.Go(func() {
			c.conn.Write(encode(t, &pgproto3.Query{String: text}))
			if got, want := c.readThrough("Z"), fmt.Sprintf("%x", md5.Sum([]byte(text))); !strings.Contains(got, want) {
				t.Errorf("client %d: the server's text has another hash than %s: %s", i, want, got)
			}
		})
		<-begun
	}
	close(goOn)
	all.Wait()
}

// hashingBackend is a server that answers each Query with the hash of its text as a tag, and calls
// wait when it has the first part of one.
func hashingBackend(conn net.Conn, wait func()) {
	defer conn.Close()
	say := func(messages ...pgproto3.BackendMessage) {
		var b []byte
		for _, m := range messages {
			b, _ = m.Encode(b)
		}
		conn.Write(b)
	}
	in := pgproto3.NewBackend(conn, conn)
	if _, err := in.ReceiveStartupMessage(); err != nil {
		return
	}
	say(&pgproto3.AuthenticationOk{}, &pgproto3.ParameterStatus{Name: "server_version", Value: "16.15"},
		&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	head := make([]byte, wire.HeaderLen)
	for {
		if _, err := io.ReadFull(conn, head); err != nil || head[0] != wire.Query {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		n, err := conn.Read(payload)
		if err != nil {
			return
		}
		if len(payload) > 1<<20 { // a client's
			wait()
		}
		if _, err := io.ReadFull(conn, payload[n:]); err != nil {
			return
		}
		sum := md5.Sum(payload[:len(payload)-1])
		say(&pgproto3.CommandComplete{CommandTag: fmt.Appendf(nil, "%x", sum)}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	}
}
