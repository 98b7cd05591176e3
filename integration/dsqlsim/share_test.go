package dsqlsim_test

import (
	"crypto/tls"
	"fmt"
	"slices"
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
	for _, e := range c.EventsAfter(0) {
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
	for _, at := range []dsqlsim.FaultPoint{dsqlsim.AtStatement, dsqlsim.Running, dsqlsim.Answered, dsqlsim.AtRow} {
		forever.At = at
		c.plan(t, forever)
		w := c.raw(t)
		w.SendQuery(&pgproto3.Query{String: "SELECT 1"})
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the stall", func() bool { return len(c.PendingFaults()) == 0 })
		_ = w.conn.Close()
		eventually(t, "the end of the session", func() bool { return c.ConnectionCount() == 0 })
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
	eventually(t, "the stall", func() bool { return len(c.PendingFaults()) == 0 })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A session that ends in the middle of its work: the ledger says "unknown" only where what
// was sent may commit by itself, and "lost" where the end of the transaction is missing.
func TestOutcomeOfAnEndedSession(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	c.direct(t, "CREATE TABLE ended (id int)")
	statement := func(sql string) []pgproto3.FrontendMessage {
		return []pgproto3.FrontendMessage{&pgproto3.Parse{Query: sql}, &pgproto3.Bind{}, &pgproto3.Execute{}}
	}
	begin, insert, sleep, commit := statement("BEGIN"), statement("INSERT INTO ended VALUES (1)"), statement("SELECT pg_sleep(600)"), statement("COMMIT")
	rollback := statement("ROLLBACK")
	flush, sync := []pgproto3.FrontendMessage{&pgproto3.Flush{}}, []pgproto3.FrontendMessage{&pgproto3.Sync{}}
	for name, test := range map[string]struct {
		first, last []pgproto3.FrontendMessage // the answers of the first are read
		want        string
	}{
		"a group, answered in part":           {slices.Concat(insert, flush), slices.Concat(sleep, flush), "lost"},
		"a group of which nothing is":         {nil, slices.Concat(insert, sleep, flush), "lost"},
		"a group to its Sync":                 {slices.Concat(insert, flush), slices.Concat(sleep, sync), "unknown"},
		"a block":                             {slices.Concat(begin, insert, flush), slices.Concat(sleep, flush), "lost"},
		"a block and a Sync":                  {slices.Concat(begin, insert, flush), slices.Concat(sleep, sync), "lost"},
		"a block to its COMMIT":               {slices.Concat(begin, insert, flush), slices.Concat(sleep, commit, flush), "unknown"},
		"a block to its ROLLBACK":             {slices.Concat(begin, insert, flush), slices.Concat(sleep, rollback, flush), "lost"},
		"a block to a COMMIT and a ROLLBACK":  {slices.Concat(begin, insert, flush), slices.Concat(sleep, commit, rollback, flush), "unknown"},
		"a block to a ROLLBACK and a COMMIT":  {slices.Concat(begin, insert, flush), slices.Concat(sleep, rollback, commit, flush), "lost"},
		"a statement":                         {nil, []pgproto3.FrontendMessage{&pgproto3.Query{String: "SELECT pg_sleep(600)"}}, "unknown"},
		"a string":                            {nil, []pgproto3.FrontendMessage{&pgproto3.Query{String: "INSERT INTO ended VALUES (1); SELECT pg_sleep(600)"}}, "lost"}, // it is sent statement by statement
		"a group that a Query ends":           {slices.Concat(insert, flush), []pgproto3.FrontendMessage{&pgproto3.Query{String: "SELECT pg_sleep(600)"}}, "unknown"},
		"a string that begins a block":        {nil, []pgproto3.FrontendMessage{&pgproto3.Query{String: "BEGIN; INSERT INTO ended VALUES (1); SELECT pg_sleep(600)"}}, "lost"},
		"a string in which a block is to end": {nil, []pgproto3.FrontendMessage{&pgproto3.Query{String: "BEGIN; INSERT INTO ended VALUES (1); SELECT pg_sleep(600); COMMIT"}}, "lost"}, // so is this
	} {
		t.Run(name, func(t *testing.T) {
			from := uint64(0)
			if all := c.EventsAfter(0); len(all) > 0 {
				from = all[len(all)-1].Seq
			}
			w := c.raw(t)
			for _, m := range test.first {
				w.Send(m)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			for tags := 0; tags < len(test.first)/3; {
				m, err := w.Receive()
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := m.(*pgproto3.CommandComplete); ok {
					tags++
				}
			}
			for _, m := range test.last {
				w.Send(m)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the sleep", func() bool {
				return c.direct(t, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND state = 'active' AND datname = current_database() AND pid <> pg_backend_pid()") != "0"
			})
			_ = w.conn.Close()
			eventually(t, "the end of the session", func() bool { return c.ConnectionCount() == 0 })
			var got []string
			eventually(t, "the ledger to tell", func() bool {
				got = nil
				events := c.EventsAfter(from)
				for _, e := range events {
					if e.Kind == "transaction" {
						got = append(got, e.Outcome)
					}
				}
				return slices.ContainsFunc(events, func(e dsqlsim.LedgerEvent) bool { return e.Kind == "close" })
			})
			if len(got) != 1 || got[0] != test.want {
				t.Errorf("the ledger says %v, want %s", got, test.want)
			}
			c.direct(t, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND datname = current_database() AND pid <> pg_backend_pid()")
		})
	}
	if rows := c.direct(t, "SELECT count(*) FROM ended"); rows != "0" {
		t.Errorf("%s rows of transactions that were killed", rows)
	}
}
