package dsqlsim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

func TestCopy(t *testing.T) {
	t.Parallel()
	c := start(t, func(config *dsqlsim.Config) { config.AllowCopy = true })
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY, v text)")
	conn := c.connect(t)
	var lines strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&lines, "%d\tsome text that fills the buffers\n", i)
	}
	tag, err := conn.CopyFrom(deadline(t), strings.NewReader(lines.String()), "COPY t FROM STDIN")
	if err != nil || tag.RowsAffected() != 50_000 {
		t.Fatalf("%v, %v", tag, err)
	}
	var out strings.Builder
	if _, err := conn.CopyTo(deadline(t), &out, "COPY (SELECT * FROM t ORDER BY id) TO STDOUT"); err != nil || out.String() != lines.String() {
		t.Errorf("copied out %d of %d bytes, %v", out.Len(), lines.Len(), err)
	}
	// Fails at the first line, while the client goes on sending.
	_, err = conn.CopyFrom(deadline(t), strings.NewReader(lines.String()), "COPY t FROM STDIN")
	if e := pgError(t, err); e.Code != "23505" {
		t.Errorf("got %s", e.Code)
	}
	if err := conn.Exec(deadline(t), "SELECT 1").Close(); err != nil {
		t.Errorf("after a COPY that failed: %v", err)
	}

	w := c.raw(t)
	for _, test := range []struct {
		name string
		send []pgproto3.FrontendMessage
		want string
	}{
		{"all at once", []pgproto3.FrontendMessage{&pgproto3.Query{String: "COPY t FROM STDIN"}, &pgproto3.CopyData{Data: []byte("-1\ta\n")}, &pgproto3.CopyDone{}, &pgproto3.Query{String: "SELECT 1"}},
			"CopyInResponse,COPY 1,Z I,T ?column?,D 1,SELECT 1,Z I"},
		{"extended, as libpq", append(group("COPY t FROM STDIN"), &pgproto3.CopyData{Data: []byte("-2\ta\n")}, &pgproto3.CopyDone{}, &pgproto3.Sync{}, &pgproto3.Query{String: ""}),
			"1,2,CopyInResponse,COPY 1,Z I,EmptyQueryResponse,Z I"},
		{"client fails it", []pgproto3.FrontendMessage{&pgproto3.Query{String: "COPY t FROM STDIN"}, &pgproto3.CopyFail{Message: "no"}, &pgproto3.Query{String: ""}},
			"CopyInResponse,E 57014,Z I,EmptyQueryResponse,Z I"},
		{"client breaks off", []pgproto3.FrontendMessage{&pgproto3.Query{String: "COPY t FROM STDIN"}, &pgproto3.Query{String: ""}},
			"CopyInResponse,E 57014,Z I,EmptyQueryResponse,Z I"},
		{"in a string", []pgproto3.FrontendMessage{&pgproto3.Query{String: "SELECT 1; COPY t FROM STDIN; SELECT 2"}, &pgproto3.CopyData{Data: []byte("-3\ta\n")}, &pgproto3.CopyDone{}, &pgproto3.Query{String: ""}},
			"T ?column?,D 1,SELECT 1,CopyInResponse,COPY 1,T ?column?,D 2,SELECT 1,Z I,EmptyQueryResponse,Z I"},
	} {
		if got := strings.Join(w.ask(2, test.send...), ","); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
	// A Sync behind CopyInResponse is as void as one in front of it.
	for _, m := range group("COPY t FROM STDIN") {
		w.Send(m)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := w.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.Join(w.ask(1, &pgproto3.Sync{}, &pgproto3.Flush{}, &pgproto3.CopyData{Data: []byte("-4\ta\n")}, &pgproto3.CopyDone{}, &pgproto3.Sync{}), ",")
	if got != "COPY 1,Z I" {
		t.Errorf("got %s", got)
	}

	w.SendQuery(&pgproto3.Query{String: "COPY t FROM STDIN"})
	w.Send(&pgproto3.CopyData{Data: []byte("-9\ta\n")})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if m, err := w.Receive(); err != nil || brief(m) != "CopyInResponse" {
		t.Fatalf("%v, %v", m, err)
	}
	_ = w.conn.Close() // in the middle of its data
	eventually(t, "the end of the COPY", func() bool { return c.ConnectionCount() == 1 })
	if n := c.direct(t, "SELECT count(*) FROM t WHERE id < 0"); n != "4" {
		t.Errorf("%s rows, want 4", n)
	}
}
