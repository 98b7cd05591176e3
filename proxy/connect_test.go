package proxy_test

import (
	"bytes"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// askRaw sends a message and reads up to the end of its answer, for which buf must have room: it makes nothing.
func askRaw(b *testing.B, conn net.Conn, buf, message []byte) {
	if _, err := conn.Write(message); err != nil {
		b.Fatal(err)
	}
	for n := 0; !bytes.HasSuffix(buf[:n], readyIdle); {
		got, err := conn.Read(buf[n:])
		if err != nil {
			b.Fatal(err)
		}
		n += got
	}
}

// readyIdle is a ReadyForQuery outside of a block.
var readyIdle = []byte{'Z', 0, 0, 0, 5, 'I'}

// BenchmarkConnect is a connection that asks one query and says goodbye. The client's own dial
// is part of what is counted: some 20 allocations.
func BenchmarkConnect(b *testing.B) {
	s := startSluice(b, sharedPostgres(b))
	hello := encode(b, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30,
		Parameters: map[string]string{"user": "postgres", "database": "postgres", "application_name": "bench"}})
	query, goodbye := encode(b, &pgproto3.Query{String: "SELECT 1"}), encode(b, &pgproto3.Terminate{})
	buf := make([]byte, 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			b.Fatal(err)
		}
		askRaw(b, conn, buf, hello)
		askRaw(b, conn, buf, query)
		conn.Write(goodbye)
		conn.Close()
	}
}
