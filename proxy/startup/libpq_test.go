package startup

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/certs"
	"github.com/sluice-proxy/sluice/integration/sockets"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// psqlServer serves startups on a TCP port and a Unix socket. Clients that are
// let in get their user's name as the answer to any query.
func psqlServer(t *testing.T, s *Handshaker) (host, port string) {
	t.Helper()
	host = sockets.SocketDir(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(tcp.Addr().String())
	unix, err := net.Listen("unix", filepath.Join(host, ".s.PGSQL."+port))
	if err != nil {
		t.Fatal(err)
	}
	for _, ln := range []net.Listener{tcp, unix} {
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go servePSQL(s, rawconn.Wrap(conn))
			}
		}()
	}
	return host, port
}

func servePSQL(s *Handshaker, conn rawconn.Conn) {
	defer conn.Close()
	h, err := s.Run(conn)
	if err != nil || h.Cancel != nil {
		return
	}
	defer h.Conn.Close()
	h.Conn.SetDeadline(time.Now().Add(20 * time.Second))
	backend := pgproto3.NewBackend(h.Conn, h.Conn)
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "16.0"})
	backend.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	backend.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte("1234")})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for backend.Flush() == nil {
		m, err := backend.Receive()
		if err != nil {
			return
		}
		if _, ok := m.(*pgproto3.Query); !ok {
			return
		}
		const text = 25 // its type's OID
		answer := h.User + " " + h.Database + " " + h.Params["application_name"] + " " + h.Params["geqo"]
		backend.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("who"), DataTypeOID: text, DataTypeSize: -1}}})
		backend.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(answer)}})
		backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	}
}

// psql runs the real client, which knows of nothing but the given settings.
func psql(t *testing.T, password, conninfo string) (output string, err error) {
	t.Helper()
	cmd := exec.Command("psql", "-XAtw", "-c", "select 1", "connect_timeout=20 application_name=app options='-c geqo=of\\f' "+conninfo)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "LC_ALL=C", "PGPASSWORD=" + password}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// libpq is the client that matters most: what it makes of each way in.
func TestLibpq(t *testing.T) {
	ca := certs.SelfSigned("ca")
	annCert, annKey := certs.WriteTestFiles(t, certs.SignedBy(ca, "ann"))
	caFile, _ := certs.WriteTestFiles(t, ca)
	const file = `"ann" "` + verifierSesame + `"` + "\n" + `"bob" "p'lain"`

	offer := func(config Config, required bool) Config {
		config.TLS, config.TLSRequired = startupOffer(ca), required
		return config
	}
	servers := map[string]Config{
		"trust":      startupConfig(Trust),
		"trust+tls":  offer(startupConfig(Trust), true),
		"scram":      startupSCRAM(t, file),
		"scram+tls":  offer(startupSCRAM(t, file), true),
		"cert":       offer(startupConfig(Cert), true),
		"scram+both": offer(startupSCRAM(t, file), false),
	}
	const welcome = "ann db app off"
	clientCert := " sslcert=" + annCert + " sslkey=" + annKey
	verify := "host=localhost sslmode=verify-full sslrootcert=" + caFile
	for _, test := range []struct {
		server, password, conninfo string // host is 127.0.0.1, user ann, database db unless given
		want                       string // the whole output, or the end of a failure's
	}{
		{"trust", "", "sslmode=disable", welcome},
		{"trust", "", "sslmode=prefer", welcome},
		{"trust", "", "sslmode=allow", welcome},
		{"trust", "", "sslmode=require", "server does not support SSL, but SSL was required"},
		{"trust", "", "host=SOCKET", welcome},
		{"trust", "", "sslmode=disable gssencmode=disable user=x dbname=y", "x y app off"},
		{"trust", "", "replication=database sslmode=disable",
			"FATAL:  replication connections are not supported\nHINT:  Connect to the server itself."},
		{"trust", "", "channel_binding=require sslmode=disable",
			"channel binding required, but server authenticated client without channel binding"},
		{"trust+tls", "", "sslmode=require", welcome},
		{"trust+tls", "", verify, welcome},
		{"trust+tls", "", "sslmode=disable", "FATAL:  this connection requires TLS\nHINT:  Connect with sslmode=require or stronger."},
		{"trust+tls", "", "host=SOCKET sslmode=disable", welcome},
		{"scram", "sesame", "sslmode=disable", welcome},
		{"scram", "sesame", "host=SOCKET", welcome},
		{"scram", "p'lain", "sslmode=disable user=bob", "bob db app off"},
		{"scram", "wrong", "sslmode=disable", `FATAL:  password authentication failed for user "ann"`},
		{"scram", "sesame", "sslmode=disable user=nobody", `FATAL:  password authentication failed for user "nobody"`},
		{"scram", "", "sslmode=disable", "fe_sendauth: no password supplied"},
		{"scram", "sesame", "sslmode=disable channel_binding=require",
			"channel binding required, but SSL not in use"},
		{"scram+tls", "sesame", verify + " channel_binding=require", welcome},
		{"scram+tls", "sesame", "sslmode=require channel_binding=require", welcome}, // names no server to TLS
		{"scram+tls", "sesame", verify + " channel_binding=disable", welcome},
		{"scram+tls", "sesame", verify, welcome},
		{"scram+tls", "wrong", verify, `FATAL:  password authentication failed for user "ann"`},
		{"scram+both", "sesame", "sslmode=disable", welcome},
		{"scram+both", "sesame", "sslmode=prefer", welcome},
		{"cert", "", verify + clientCert, welcome},
		{"cert", "", verify + clientCert + " user=bob", `FATAL:  certificate authentication failed for user "bob"`},
		{"cert", "", verify, "FATAL:  connection requires a valid client certificate"},
	} {
		t.Run(test.server+" "+test.conninfo, func(t *testing.T) {
			t.Parallel()
			socket, port := psqlServer(t, startupWith(t, servers[test.server]))
			conninfo := "host=127.0.0.1 user=ann dbname=db port=" + port + " " + strings.ReplaceAll(test.conninfo, "SOCKET", socket)
			got, err := psql(t, test.password, conninfo)
			welcome := strings.HasSuffix(test.want, " app off")
			if welcome != (err == nil) || welcome && got != test.want || !strings.HasSuffix(got, test.want) {
				t.Errorf("%s: %v: %s, want %s", conninfo, err, got, test.want)
			}
		})
	}
}
