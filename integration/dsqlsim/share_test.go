package dsqlsim_test

import (
	"crypto/tls"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// A share of the commits fails; what the client was told, the ledger, and the
// table agree on which.
func TestShareOfCommits(t *testing.T) {
	t.Parallel()
	const n = 300
	c := start(t, nil)
	c.direct(t, "CREATE TABLE t (id int PRIMARY KEY)")
	c.plan(t, dsqlsim.Fault{At: dsqlsim.AtCommit, Action: dsqlsim.Fail, Error: "conflict", Probability: 0.05, Seed: 7})
	run := clients["pgx simple"](t, c)
	told := make(map[string]int)
	for i := range n {
		if got := play(run, []string{"BEGIN", fmt.Sprintf("INSERT INTO t VALUES (%d)", i)}); got != "ok, ok" {
			t.Fatal(got)
		}
		_, err := run("COMMIT")
		told[outcomeOf(err)]++
	}
	if failed := told["40001"]; failed == 0 || failed > n/5 || told["ok"] != n-failed {
		t.Errorf("the client was told %v", told)
	}
	remembered := make(map[string]int)
	for _, e := range c.Ledger(0) {
		if e.Kind == "transaction" {
			remembered[e.Outcome]++
		}
	}
	if remembered["committed"] != told["ok"] || remembered["rolled back"] != told["40001"] {
		t.Errorf("the client was told %v, the ledger says %v", told, remembered)
	}
	if rows := c.direct(t, "SELECT count(*) FROM t"); rows != fmt.Sprint(told["ok"]) {
		t.Errorf("%s rows, and %d commits", rows, told["ok"])
	}
}

// Nobody waits for a stall but the client it is meant for.
func TestStallEndsWithItsClient(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	forever := dsqlsim.Fault{Action: dsqlsim.Stall, Seconds: 3600}
	for _, at := range []dsqlsim.Point{dsqlsim.AtStatement, dsqlsim.Running, dsqlsim.Answered, dsqlsim.AtRow} {
		forever.At = at
		c.plan(t, forever)
		w := c.raw(t)
		w.SendQuery(&pgproto3.Query{String: "SELECT 1"})
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the stall", func() bool { return len(c.Planned()) == 0 })
		_ = w.conn.Close()
		eventually(t, "the end of the session", func() bool { return c.Connections() == 0 })
	}
	// The end of the server is the end of one that has no session yet.
	forever.At = dsqlsim.AtConnect
	c.plan(t, forever)
	conn, err := c.dialTLS(t, true, &tls.Config{RootCAs: c.CAPool(), ServerName: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(plainStartup); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stall", func() bool { return len(c.Planned()) == 0 })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
