package proxy_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// BenchmarkCores is a query of one of 64 clients, on 32 backends that answer at once. What sessions
// share shows in the profiles of contention:
//
//	go test ./proxy -run '^$' -bench Cores -cpu 2,4,8 -mutexprofile mutex -blockprofile block
func BenchmarkCores(b *testing.B) {
	const clients = 64
	for _, backends := range []int{32, 80} {
		b.Run(map[int]string{32: "waiting", 80: "enough"}[backends], func(b *testing.B) {
			s := startSluice(b, fakePostgres(b), withReplay, maxOpen(backends))
			all := make([]net.Conn, clients)
			ready := []byte{'Z', 0, 0, 0, 5, 'I'}
			ask := func(conn net.Conn, message, buf []byte) {
				conn.Write(message)
				for n := 0; !bytes.HasSuffix(buf[:n], ready); {
					got, err := conn.Read(buf[n:])
					if err != nil {
						b.Error(err)
						return
					}
					n += got
				}
			}
			query := encode(b, &pgproto3.Query{String: "SELECT 1"})
			for i := range all {
				conn, err := net.Dial("tcp", s.addr)
				if err != nil {
					b.Fatal(err)
				}
				defer conn.Close()
				all[i] = conn
				buf := make([]byte, 8<<10)
				ask(conn, encode(b, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "postgres", "database": "postgres"}}), buf)
				ask(conn, query, buf)
			}
			var left, done atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			ended := make(chan struct{})
			for _, conn := range all {
				go func() {
					buf := make([]byte, 8<<10)
					for left.Add(-1) >= 0 {
						ask(conn, query, buf)
					}
					if done.Add(1) == clients {
						close(ended)
					}
				}()
			}
			<-ended
		})
	}
}

// fakePostgres is a server that answers any statement with a row of one column.
func fakePostgres(t testing.TB) postgres { return serving(t, fakeBackend) }

// serving is a server that has a function serve each connection, and close it.
func serving(t testing.TB, serve func(net.Conn)) postgres {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	at := ln.Addr().(*net.TCPAddr)
	return postgres{&pgtest.Server{Host: at.IP.String(), Port: at.Port}, ln.Addr().String()}
}

func fakeBackend(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	length := make([]byte, 4)
	frame := func(typed bool) (typ byte, err error) {
		if typed {
			if typ, err = in.ReadByte(); err != nil {
				return 0, err
			}
		}
		if _, err = io.ReadFull(in, length); err != nil {
			return 0, err
		}
		_, err = in.Discard(int(binary.BigEndian.Uint32(length)) - 4)
		return typ, err
	}
	if _, err := frame(false); err != nil {
		return
	}
	var hello, row, answer []byte
	say := func(to []byte, m pgproto3.BackendMessage) []byte {
		to, _ = m.Encode(to)
		return to
	}
	hello = say(hello, &pgproto3.AuthenticationOk{})
	hello = say(hello, &pgproto3.ParameterStatus{Name: "server_version", Value: "16.15"})
	hello = say(hello, &pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	ready := say(nil, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	conn.Write(append(hello, ready...))
	row = say(row, &pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("a"), DataTypeOID: 23, DataTypeSize: 4, TypeModifier: -1}}})
	row = say(row, &pgproto3.DataRow{Values: [][]byte{[]byte("1")}})
	row = say(row, &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
	for {
		typ, err := frame(true)
		if err != nil {
			return
		}
		switch typ {
		case 'Q':
			answer = append(append(answer, row...), ready...)
		case 'P':
			answer = say(answer, &pgproto3.ParseComplete{})
		case 'B':
			answer = say(answer, &pgproto3.BindComplete{})
		case 'D':
			answer = say(answer, &pgproto3.NoData{})
		case 'E':
			answer = say(answer, &pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")})
		case 'C':
			answer = say(answer, &pgproto3.CloseComplete{})
		case 'S':
			answer = append(answer, ready...)
		}
		if in.Buffered() == 0 {
			conn.Write(answer)
			answer = answer[:0]
		}
	}
}

// garbage is how many bytes one of so many calls allocates, once a few were made. It counts all of the process, in
// which no other test runs meanwhile.
func garbage(calls int, call func()) uint64 {
	for range 5 {
		call()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		call()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / uint64(calls)
}

// Large parameters pass in buffers that others have used.
func TestLargeParametersMakeNoGarbage(t *testing.T) {
	const queries, size = 50, 300 << 10
	s := startSluice(t, sharedPostgres(t))
	c := dialRaw(t, s.addr)
	group := encode(t, &pgproto3.Parse{Query: "SELECT length($1)", ParameterOIDs: []uint32{25}},
		&pgproto3.Bind{Parameters: [][]byte{bytes.Repeat([]byte("x"), size)}}, &pgproto3.Execute{}, &pgproto3.Sync{})
	each := garbage(queries, func() {
		c.conn.Write(group)
		if got := c.readThrough("Z"); !strings.Contains(got, strconv.Itoa(size)) {
			t.Fatalf("%q", got)
		}
	})
	if each > wire.BufferSize/2 && !proxy.Racing {
		t.Errorf("%d bytes of garbage for a parameter of %d", each, size)
	}
}
