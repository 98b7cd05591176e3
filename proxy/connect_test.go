package proxy_test

import (
	"bytes"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// BenchmarkConnect is a connection that asks one query and says goodbye. The client's own dial
// is part of what is counted: some 20 allocations.
func BenchmarkConnect(b *testing.B) {
	s := startSluice(b, sharedPostgres(b))
	hello := encode(b, &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30,
		Parameters: map[string]string{"user": "postgres", "database": "postgres", "application_name": "bench"}})
	query, goodbye := encode(b, &pgproto3.Query{String: "SELECT 1"}), encode(b, &pgproto3.Terminate{})
	ready := []byte{'Z', 0, 0, 0, 5, 'I'}
	buf := make([]byte, 64<<10)
	ask := func(conn net.Conn, message []byte) {
		if _, err := conn.Write(message); err != nil {
			b.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(buf[:n], ready); {
			got, err := conn.Read(buf[n:])
			if err != nil {
				b.Fatal(err)
			}
			n += got
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			b.Fatal(err)
		}
		ask(conn, hello)
		ask(conn, query)
		conn.Write(goodbye)
		conn.Close()
	}
}
