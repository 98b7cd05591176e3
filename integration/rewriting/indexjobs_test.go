package rewriting

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// framed is a client that sends frames, and reads what is answered.
type framed struct {
	t    *testing.T
	conn *pgconn.HijackedConn
}

func framing(t *testing.T, dsn string) *framed {
	t.Helper()
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.LookupFunc = loopback
	c, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Conn.Close() })
	return &framed{t, h}
}

// send sends requests, which ";;" parts: "Q text", "E text" (Parse, Bind and Execute), "F" (Flush), "S" (Sync).
func (f *framed) send(requests string) {
	f.t.Helper()
	var raw []byte
	for request := range strings.SplitSeq(requests, " ;; ") {
		kind, text, _ := strings.Cut(request, " ")
		var frames []pgproto3.FrontendMessage
		switch kind {
		case "Q":
			frames = append(frames, &pgproto3.Query{String: text})
		case "E":
			frames = append(frames, &pgproto3.Parse{Query: text}, &pgproto3.Bind{}, &pgproto3.Execute{})
		case "F":
			frames = append(frames, &pgproto3.Flush{})
		case "S":
			frames = append(frames, &pgproto3.Sync{})
		case "X":
			frames = append(frames, &pgproto3.Terminate{})
		}
		for _, frame := range frames {
			raw, _ = frame.Encode(raw)
		}
	}
	if _, err := f.conn.Conn.Write(raw); err != nil {
		f.t.Fatal(err)
	}
}

// answers reads up to the frame that ends so: "Z" and a status, or a tag. Errors are code and detail, warnings their
// first words.
func (f *framed) answers(until string) string {
	f.t.Helper()
	if err := f.conn.Conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		f.t.Fatal(err)
	}
	var got []string
	for len(got) == 0 || !strings.HasPrefix(got[len(got)-1], until) {
		m, err := f.conn.Frontend.Receive()
		if err != nil {
			f.t.Fatalf("%v behind %q", err, got)
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			got = append(got, strings.TrimSpace(m.Code+" "+m.Detail))
		case *pgproto3.NoticeResponse:
			if m.Severity == "WARNING" {
				got = append(got, m.Message)
			}
		case *pgproto3.ReadyForQuery:
			got = append(got, "Z"+string(m.TxStatus))
		case *pgproto3.CommandComplete:
			got = append(got, string(m.CommandTag))
		}
	}
	return strings.Join(got, " / ")
}

// indexOf is what the catalog has of the index "awaited": "" for none, else whether it is valid.
func indexOf(t *testing.T, pg *pgtest.Server) string {
	t.Helper()
	return pg.SQL(t, "postgres", "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('awaited')")
}

const unawaited = "the index is built in the background, and nobody waits for it"

// awaitedIndexes are dialogues with a CREATE INDEX in a transaction: %s is the table, whose rows have duplicates, or
// have none. What is answered then, and whether the index is there in the end.
var awaitedIndexes = []struct{ requests, duplicates, distinct string }{
	{"Q BEGIN ;; Q CREATE UNIQUE INDEX awaited ON %s (a) ;; Q COMMIT", "BEGIN / ZT / CREATE INDEX / ZT / E / ZI", "BEGIN / ZT / CREATE INDEX / ZT / COMMIT / ZI"},
	{"Q BEGIN; CREATE UNIQUE INDEX awaited ON %s (a); COMMIT", "BEGIN / CREATE INDEX / E / ZI", "BEGIN / CREATE INDEX / COMMIT / ZI"},
	{"Q BEGIN; CREATE UNIQUE INDEX awaited ON %s (a) ;; Q END", "BEGIN / CREATE INDEX / ZT / E / ZI", "BEGIN / CREATE INDEX / ZT / COMMIT / ZI"},
	{"E BEGIN ;; E CREATE UNIQUE INDEX awaited ON %s (a) ;; E COMMIT ;; S", "BEGIN / CREATE INDEX / E / ZI", "BEGIN / CREATE INDEX / COMMIT / ZI"},
	{"E BEGIN ;; S ;; E CREATE UNIQUE INDEX awaited ON %s (a) ;; S ;; E COMMIT ;; S", "BEGIN / ZT / CREATE INDEX / ZT / E / ZI", "BEGIN / ZT / CREATE INDEX / ZT / COMMIT / ZI"},
	{"Q BEGIN ;; Q SET LOCAL search_path = public; SELECT 1 ;; Q CREATE UNIQUE INDEX awaited ON %s (a) ;; Q SELECT 2 ;; Q COMMIT",
		"BEGIN / ZT / SET / SELECT 1 / ZT / CREATE INDEX / ZT / SELECT 1 / ZT / E / ZI", "BEGIN / ZT / SET / SELECT 1 / ZT / CREATE INDEX / ZT / SELECT 1 / ZT / COMMIT / ZI"},
	{"Q CREATE UNIQUE INDEX awaited ON %s (a); SELECT 1", "CREATE INDEX / SELECT 1 / E / ZI", "CREATE INDEX / SELECT 1 / ZI"},
	{"E CREATE UNIQUE INDEX awaited ON %s (a) ;; E SELECT 1 ;; S", "CREATE INDEX / SELECT 1 / E / ZI", "CREATE INDEX / SELECT 1 / ZI"},
	{"E CREATE UNIQUE INDEX awaited ON %s (a) ;; F ;; S", "CREATE INDEX / E / ZI", "CREATE INDEX / ZI"},
	{"Q CREATE UNIQUE INDEX awaited ON %s (a); BEGIN; SELECT 1 ;; Q COMMIT", "CREATE INDEX / BEGIN / SELECT 1 / ZT / E / ZI", "CREATE INDEX / BEGIN / SELECT 1 / ZT / COMMIT / ZI"},
	// In a READ ONLY question behind the COMMIT nothing can be taken back.
	{"Q BEGIN; CREATE UNIQUE INDEX awaited ON %s (a); COMMIT; SELECT 1", "BEGIN / CREATE INDEX / W / COMMIT / SELECT 1 / ZI", "BEGIN / CREATE INDEX / W / COMMIT / SELECT 1 / ZI"},
	{"Q BEGIN ;; Q CREATE UNIQUE INDEX awaited ON %s (a) ;; Q ROLLBACK", "BEGIN / ZT / CREATE INDEX / ZT / ROLLBACK / ZI", ""},
	{"Q BEGIN ;; Q CREATE UNIQUE INDEX awaited ON %s (a) ;; Q SELECT 1/0 ;; Q COMMIT", "BEGIN / ZT / CREATE INDEX / ZT / 22012 / ZE / ROLLBACK / ZI", ""},
	{"Q CREATE UNIQUE INDEX awaited ON %s (a); SELECT 1/0", "CREATE INDEX / 22012 / ZI", ""},
}

// A CREATE UNIQUE INDEX of a transaction is awaited behind its COMMIT: over duplicates that fails, and no index is
// left.
func TestIndexJobsOfTransactions(t *testing.T) {
	t.Parallel()
	pg, _, sluice := plainAndSluice(t, nil)
	pg.SQL(t, "postgres", "CREATE TABLE doubled (id int PRIMARY KEY, a int); INSERT INTO doubled VALUES (1, 7), (2, 7); CREATE TABLE single (id int PRIMARY KEY, a int); INSERT INTO single VALUES (1, 7), (2, 8)")
	words := strings.NewReplacer(" E ", " 23505 Key (a)=(7) is duplicated. ", " W ", " "+unawaited+" ")
	for _, c := range awaitedIndexes {
		for table, want := range map[string]string{"doubled": c.duplicates, "single": c.distinct} {
			if want == "" {
				continue
			}
			client := framing(t, sluice.DSN("postgres"))
			requests := strings.ReplaceAll(c.requests, "%s", table)
			// Of each request the answer is read before the next is sent: a client may wait for it.
			var got []string
			var sent []string
			for request := range strings.SplitSeq(requests, " ;; ") {
				switch sent = append(sent, request); request[0] {
				case 'F':
					client.send(strings.Join(sent, " ;; "))
					got, sent = append(got, client.answers("CREATE INDEX")), nil
				case 'Q', 'S':
					client.send(strings.Join(sent, " ;; "))
					got, sent = append(got, client.answers("Z")), nil
				}
			}
			if got := strings.Join(got, " / "); got != words.Replace(want) {
				t.Errorf("%s\n got %q\nwant %q", requests, got, words.Replace(want))
			}
			// An index whose job nobody awaits is left as it is.
			is, wants := indexOf(t, pg), "t"
			if strings.Contains(want, " E ") || strings.Contains(want, "ROLLBACK") || strings.Contains(want, "22012") {
				wants = ""
			}
			if is != wants && !strings.Contains(want, " W ") {
				t.Errorf("%s: the index is %q, want %q", requests, is, wants)
			}
			pg.SQL(t, "postgres", "DROP INDEX IF EXISTS awaited")
		}
	}
	// What the transaction has SET is not in force behind an error.
	client := framing(t, sluice.DSN("postgres"))
	client.send("Q BEGIN; SET search_path = pg_catalog; CREATE UNIQUE INDEX awaited ON public.doubled (a); COMMIT")
	if got := client.answers("Z"); !strings.HasSuffix(got, "is duplicated. / ZI") {
		t.Errorf("with a SET: %q", got)
	}
	client.send("Q SELECT 'found' FROM doubled WHERE id = 1")
	if got := client.answers("Z"); got != "SELECT 1 / ZI" {
		t.Errorf("behind a SET that was undone: %q", got)
	}
}

// A CREATE INDEX that is cancelled while its job is at work, or that times out, leaves no index, and the client is
// answered only then.
func TestIndexJobsCancelled(t *testing.T) {
	t.Parallel()
	pg, _, sluice := plainAndSluice(t, nil, "--job-delay", "10m")
	pg.SQL(t, "postgres", "CREATE TABLE single (id int PRIMARY KEY, a int); INSERT INTO single VALUES (1, 7), (2, 8)")
	for _, requests := range []string{"Q CREATE INDEX awaited ON single (a)", "Q CREATE UNIQUE INDEX awaited ON single (a)", "E CREATE INDEX awaited ON single (a) ;; S",
		"Q BEGIN ;; Q CREATE INDEX awaited ON single (a) ;; Q COMMIT", "Q BEGIN; CREATE INDEX awaited ON single (a); COMMIT"} {
		for _, how := range []string{"cancel", "timeout"} {
			client := framing(t, sluice.DSN("postgres"))
			all := strings.Split(requests, " ;; ")
			if how == "timeout" {
				client.send("Q SET statement_timeout = '500ms'")
				client.answers("Z")
			}
			if len(all) == 3 {
				for _, request := range all[:2] {
					client.send(request)
					client.answers("Z")
				}
				all = all[2:]
			}
			client.send(strings.Join(all, " ;; "))
			if how == "cancel" {
				submitted(t, pg)
				if err := cancelling(t, sluice.DSN("postgres"), client.conn); err != nil {
					t.Fatal(err)
				}
			}
			if got := client.answers("Z"); !strings.HasSuffix(got, "57014 / ZI") {
				t.Errorf("%s, %s: %q", requests, how, got)
			}
			if is := indexOf(t, pg); is != "" {
				t.Errorf("%s, %s: the index is there: %q", requests, how, is)
				pg.SQL(t, "postgres", "DROP INDEX awaited")
			}
		}
	}
	// The index of somebody else, which IF NOT EXISTS has found, is not dropped.
	first := framing(t, sluice.DSN("postgres"))
	first.send("Q CREATE INDEX awaited ON single (a)")
	submitted(t, pg)
	second := framing(t, sluice.DSN("postgres"))
	second.send("Q SET statement_timeout = '300ms' ;; Q CREATE INDEX IF NOT EXISTS awaited ON single (a)")
	second.answers("Z")
	if got := second.answers("Z"); !strings.HasSuffix(got, "57014 / ZI") || indexOf(t, pg) != "f" {
		t.Errorf("IF NOT EXISTS, timed out: %q, the index is %q", got, indexOf(t, pg))
	}
	left(t, sluice, 0)
}

// The job of a client that has left is awaited for as long as client.commit_grace says: an index that is not valid by
// then is dropped if it is UNIQUE.
func TestIndexJobsWithoutClient(t *testing.T) {
	t.Parallel()
	for _, world := range []struct {
		delay, grace, unique, plain string // what is left of the index over rows without duplicates
	}{{"700ms", "10s", "t", "t"}, {"10m", "300ms", "", "f"}} {
		pg, _, sluice := plainAndSluice(t, harness.Env{"DSQL_CLIENT_COMMIT_GRACE": world.grace}, "--job-delay", world.delay)
		pg.SQL(t, "postgres", "CREATE TABLE doubled (id int PRIMARY KEY, a int); INSERT INTO doubled VALUES (1, 7), (2, 7); CREATE TABLE single (id int PRIMARY KEY, a int); INSERT INTO single VALUES (1, 7), (2, 8)")
		for _, how := range []string{"X", "FIN", "RST"} {
			for statement, want := range map[string]string{"UNIQUE INDEX awaited ON doubled (a)": "", "UNIQUE INDEX awaited ON single (a)": world.unique, "INDEX awaited ON single (a)": world.plain} {
				for _, requests := range []string{"Q CREATE %s", "Q BEGIN; CREATE %s; COMMIT"} {
					client := framing(t, sluice.DSN("postgres"))
					client.send(fmt.Sprintf(requests, statement))
					submitted(t, pg)
					switch how {
					case "X":
						client.send("X")
					case "RST":
						if err := client.conn.Conn.(*net.TCPConn).SetLinger(0); err != nil {
							t.Fatal(err)
						}
					}
					if err := client.conn.Conn.Close(); err != nil {
						t.Fatal(err)
					}
					for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
						text, err := sluice.Metrics(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						if n, found := harness.SumMetric(t, text, "dsql_clients", ""); found && n == 0 {
							break
						}
						if time.Now().After(end) {
							t.Fatalf("%s, %s: the session goes on", requests, how)
						}
					}
					if is := indexOf(t, pg); is != want {
						t.Errorf("job of %s, grace of %s, %s, %s: the index is %q, want %q", world.delay, world.grace, fmt.Sprintf(requests, statement), how, is, want)
					}
					pg.SQL(t, "postgres", "DROP INDEX IF EXISTS awaited")
				}
			}
		}
		left(t, sluice, 0)
	}
}

// submitted waits until a job is at work.
func submitted(t *testing.T, pg *pgtest.Server) {
	t.Helper()
	for end := time.Now().Add(limit); pg.SQL(t, "postgres", "SELECT count(*) FROM sys.jobs j JOIN pg_index i ON i.indexrelid = j.object_id WHERE NOT i.indisvalid") == "0"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no job is at work")
		}
	}
}

// cancelling sends a cancel for what a connection runs.
func cancelling(t *testing.T, dsn string, h *pgconn.HijackedConn) error {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(config.Port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := (&pgproto3.CancelRequest{ProcessID: h.PID, SecretKey: slices.Clone(h.SecretKey)}).Encode(nil)
	if err == nil {
		_, err = conn.Write(raw)
	}
	return err
}

// left compares how many indexes were left.
func left(t *testing.T, sluice *harness.Sluice, want float64) {
	t.Helper()
	text, err := sluice.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, found := harness.SumMetric(t, text, "dsql_indexes_left_total", ""); !found || n != want {
		t.Errorf("%v indexes are left, want %v", n, want)
	}
}
