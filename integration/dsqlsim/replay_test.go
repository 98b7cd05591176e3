package dsqlsim_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A client's portals, statements and values are what they were after its
// transaction was parked, whatever form they have.
func TestParkedInTheMiddleOfAConversation(t *testing.T) {
	t.Parallel()
	c := stage(t)
	w := c.raw(t)
	one, ten := []byte{0, 0, 0, 1}, []byte{0, 0, 0, 10}
	step := func(want string, messages ...pgproto3.FrontendMessage) {
		t.Helper()
		if got := strings.Join(w.ask(1, append(messages, &pgproto3.Sync{})...), ","); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	update := &pgproto3.Bind{PreparedStatement: "u", ParameterFormatCodes: []int16{1}, Parameters: [][]byte{one, ten}, ResultFormatCodes: []int16{1}}
	step("1,Z I", &pgproto3.Parse{Name: "u", Query: "UPDATE other SET v = v + $2 WHERE id = $1 RETURNING v"})
	w.ask(1, simple("BEGIN"))
	step("2,D \x00\x00\x00\x0a,UPDATE 1,Z T", update, &pgproto3.Execute{})
	// Bound before, executed after.
	step("1,2,Z T", &pgproto3.Parse{Query: "SELECT v::text FROM other WHERE id = $1"},
		&pgproto3.Bind{DestinationPortal: "p", ParameterFormatCodes: []int16{1}, Parameters: [][]byte{one}})

	rival := &player{t, c.connect(t), true}
	rival.do("BEGIN")
	if got := rival.do(update1); got != "UPDATE 1" {
		t.Fatal(got)
	}
	rival.do("ROLLBACK")

	// The unnamed statement and the portal are still there, and see the update.
	step("D 10,SELECT 1,2,D 10,SELECT 1,Z T", &pgproto3.Execute{Portal: "p"},
		&pgproto3.Bind{ParameterFormatCodes: []int16{1}, Parameters: [][]byte{one}}, &pgproto3.Execute{})
	step("2,D \x00\x00\x00\x14,UPDATE 1,3,Z T", update, &pgproto3.Execute{}, &pgproto3.Close{ObjectType: 'S', Name: "u"})
	if got := strings.Join(w.ask(1, simple("COMMIT")), ","); got != "COMMIT,Z I" {
		t.Error(got)
	}
	if v := c.direct(t, "SELECT v FROM other WHERE id = 1"); v != "20" {
		t.Errorf("v is %s", v)
	}
}

// A pipeline meets a conflict in its middle: what PostgreSQL skipped runs, each
// Execute with its own portal and statement although their names are the same.
func TestGuessInAPipeline(t *testing.T) {
	t.Parallel()
	c := stage(t)
	w := c.raw(t)
	w.ask(1, simple("BEGIN; SELECT v FROM other"))
	c.direct(t, "UPDATE other SET v = 5 WHERE id = 1")
	bind := func(id string) *pgproto3.Bind { return &pgproto3.Bind{Parameters: [][]byte{[]byte(id)}} }
	got := strings.Join(w.ask(1,
		&pgproto3.Parse{Query: "UPDATE other SET v = v + 1 WHERE id = $1 RETURNING v"}, bind("2"), &pgproto3.Execute{},
		bind("1"), &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Close{ObjectType: 'P'},
		bind("3"), &pgproto3.Execute{},
		&pgproto3.Parse{Query: "DELETE FROM other WHERE id > $1"}, bind("7"), &pgproto3.Execute{}, &pgproto3.Sync{}), ",")
	if want := "1,2,D 1,UPDATE 1,2,T v,D 1,UPDATE 1,3,2,D 1,UPDATE 1,1,2,DELETE 2,Z T"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got := strings.Join(w.ask(1, group("COMMIT")...), ","); got != "1,2,E 40001,Z I" {
		t.Error(got)
	}
}

// Errors keep their place in the client's text, whatever travels in front.
func TestErrorPositions(t *testing.T) {
	t.Parallel()
	c := stage(t)
	for _, test := range []struct {
		sql      string
		position int32
	}{
		{"SELECT nosuch FROM other", 8},
		{"BEGIN; SELECT 'é'; SELECT nosuch FROM other", 27},
		{"BEGIN; UPDATE other SET v = 1; UPDATE other SET nosuch = 1", 49},
		{"SELECT 1; SELECT nosuch FROM other", 18},
		{"SELECT nosuch FROM other FOR UPDATE", 8},
	} {
		conn := c.connect(t)
		err := conn.Exec(deadline(t), test.sql).Close()
		if e := pgError(t, err); e.Position != test.position {
			t.Errorf("%s: %s at %d, want %d", test.sql, e.Message, e.Position, test.position)
		}
	}
}
