package temporal

import (
	"net"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// The tap is the judge of what reached Temporal: it must see an error, and know
// what was sent before.
func TestTapSeesErrors(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() { served <- refuseCommits(l) }()
	tap := startTap(t, l.Addr().String())
	conn, err := pgx.Connect(t.Context(), "postgres://app@"+tap.address()+"/?sslmode=disable&default_query_exec_mode=simple_protocol")
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"BEGIN", "UPDATE  shards\nSET range_id = 2", "COMMIT"} {
		_, err = conn.Exec(t.Context(), statement)
	}
	if err == nil {
		t.Error("the COMMIT's error did not pass the tap")
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	want := []told{{"40001", "lost", "", []string{"BEGIN", "UPDATE shards SET range_id = 2", "COMMIT"}, "", 0}}
	if got := tap.with("40001"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := tap.with("23505"); len(got) != 0 {
		t.Errorf("got %+v of another kind", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// refuseCommits serves one client.
func refuseCommits(l net.Listener) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	s := pgproto3.NewBackend(conn, conn)
	if _, err := s.ReceiveStartupMessage(); err != nil {
		return err
	}
	s.Send(&pgproto3.AuthenticationOk{})
	for _, p := range [][2]string{{"client_encoding", "UTF8"}, {"standard_conforming_strings", "on"}} {
		s.Send(&pgproto3.ParameterStatus{Name: p[0], Value: p[1]})
	}
	status := byte('I')
	for {
		s.Send(&pgproto3.ReadyForQuery{TxStatus: status})
		if err := s.Flush(); err != nil {
			return err
		}
		msg, err := s.Receive()
		if err != nil {
			return err
		}
		query, ok := msg.(*pgproto3.Query)
		switch {
		case !ok:
			return nil // it says goodbye
		case query.String == "COMMIT":
			status = 'I'
			s.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "40001", Message: "lost"})
		default:
			status = 'T'
			s.Send(&pgproto3.CommandComplete{CommandTag: []byte("BEGIN")})
		}
	}
}

// What docs/temporal.md tells people to write is what is tried here.
func TestDocumentedConfiguration(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/temporal.md")
	if err != nil {
		t.Fatal(err)
	}
	tried, err := os.ReadFile("testdata/server.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, documented, _ := strings.Cut(string(page), "```yaml\n")
	documented, _, found := strings.Cut(documented, "```")
	documented = strings.NewReplacer("127.0.0.1:5432", "{{.Sluice}}", pgx5, "{{.Plugin}}", "Shards: 4", "Shards: {{.Shards}}").Replace(documented)
	if !found || !strings.Contains(string(tried), documented) {
		t.Errorf("docs/temporal.md shows\n%s\nwhich testdata/server.yaml does not have", documented)
	}
	for _, flag := range []string{"--version " + mainSchema.version, "--schema-name " + mainSchema.name} {
		if !strings.Contains(string(page), flag) {
			t.Errorf("docs/temporal.md does not show %s", flag)
		}
	}
}
