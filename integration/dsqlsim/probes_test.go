package dsqlsim_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// wantedShare is the least share of the recorded cases that must be answered as
// a cluster answered them.
const wantedShare = 0.95

// probeAge stands for the age limit of a transaction, which the recording of it
// needed five minutes to reach.
const probeAge = time.Second

// agedParam is a parameter that makes a statement last for longer.
const agedParam = "{past the age limit}"

// probeFile is testdata/probes.json, which says where its facts come from.
type probeFile struct {
	Setup  []string
	Groups []struct {
		Name  string
		Cases []probe
	}
}

// probe is one recorded case: steps in order, or sessions side by side.
type probe struct {
	Name       string
	Simple     bool // in the simple query protocol
	Steps      []probeStep
	Sessions   [][]string
	Recordings [][][]probeAnswer
}

type probeStep struct {
	SQL           string
	Session, Role string
	Params        []string
	Times         int
	Want          probeAnswer
}

// probeAnswer is what one step was answered. Nil fields were not recorded.
type probeAnswer struct {
	Code, Message string
	Tags, Columns []string
	Rows          [][]string
}

// differs tells how got differs from the recording, "" if it does not.
func (want probeAnswer) differs(got probeAnswer) string {
	switch {
	case want.Code != got.Code || want.Message != got.Message:
		return fmt.Sprintf("got %q %q, want %q %q", got.Code, got.Message, want.Code, want.Message)
	case want.Tags != nil && !slices.Equal(want.Tags, got.Tags):
		return fmt.Sprintf("got tags %q, want %q", got.Tags, want.Tags)
	case want.Columns != nil && !slices.Equal(want.Columns, got.Columns):
		return fmt.Sprintf("got columns %q, want %q", got.Columns, want.Columns)
	case want.Rows != nil && !slices.EqualFunc(want.Rows, got.Rows, slices.Equal):
		return fmt.Sprintf("got rows %q, want %q", got.Rows, want.Rows)
	}
	return ""
}

func readProbes(t *testing.T) *probeFile {
	t.Helper()
	b, err := os.ReadFile("testdata/probes.json")
	if err != nil {
		t.Fatal(err)
	}
	var p probeFile
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

// Every recorded answer of a real cluster, but for the exceptions that
// probeExceptions explains.
func TestProbes(t *testing.T) {
	t.Parallel()
	file := readProbes(t)
	c := start(t, func(config *dsqlsim.Config) { config.JobDelay = 5 * time.Second })
	// The same database, for transactions that grow old.
	aging := start(t, func(config *dsqlsim.Config) {
		config.Limits.TransactionAge = probeAge
		config.Upstream = strings.Replace(config.Upstream, "dbname=", "dbname="+c.database+" application_name=", 1)
	})
	// A role belongs to all databases; no other test has one of this name.
	c.direct(t, "CREATE ROLE spike_app")
	t.Cleanup(func() { c.direct(t, "DROP OWNED BY spike_app; DROP ROLE spike_app") })
	admin := c.connect(t)
	for _, sql := range file.Setup {
		if got := runStep(t, admin, false, sql, nil); got.Code != "" {
			t.Fatalf("%s: %s", sql, got.Message)
		}
	}
	cases, matched := 0, 0
	for _, group := range file.Groups {
		right := 0
		for i := range group.Cases {
			p := &group.Cases[i]
			on := c
			if p.ages() {
				on = aging
			}
			wrong := on.play(t, p)
			reason, excepted := probeExceptions[p.Name]
			switch {
			case wrong == "" && excepted:
				t.Errorf("%s: is right, but excepted: %s", p.Name, reason)
			case wrong == "":
				right++
			case excepted:
				t.Logf("%s: %s\n  excepted: %s", p.Name, wrong, reason)
			default:
				t.Errorf("%s: %s", p.Name, wrong)
			}
		}
		t.Logf("%-16s %3d of %3d", group.Name, right, len(group.Cases))
		cases, matched = cases+len(group.Cases), matched+right
	}
	share := float64(matched) / float64(cases)
	t.Logf("%-16s %3d of %3d, %.1f %%", "all", matched, cases, 100*share)
	if share < wantedShare {
		t.Errorf("%.3f of the cases match, want %.2f", share, wantedShare)
	}
}

func TestProbeExceptionsAreCases(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, group := range readProbes(t).Groups {
		for _, p := range group.Cases {
			known[p.Name] = true
		}
	}
	for name, reason := range probeExceptions {
		if !known[name] || reason == "" {
			t.Errorf("%s: no such case, or no reason", name)
		}
	}
}

// ages tells whether the case is about the age of a transaction.
func (p *probe) ages() bool {
	return slices.ContainsFunc(p.Steps, func(s probeStep) bool { return slices.Contains(s.Params, agedParam) })
}

// play runs one case and tells what differs from every recording of it.
func (c *cluster) play(t *testing.T, p *probe) string {
	t.Helper()
	conns := make(map[string]*pgconn.PgConn)
	conn := func(session, role string) *pgconn.PgConn {
		if conns[session] == nil {
			conns[session] = c.connectAs(t, cmp.Or(role, "admin"))
		}
		return conns[session]
	}
	defer func() {
		for _, each := range conns {
			runStep(t, each, false, "ROLLBACK", nil)
			_ = each.Close(context.Background())
		}
	}()
	if p.Sessions != nil {
		return p.race(t, conn("1", ""), conn("2", ""))
	}
	for i, step := range p.Steps {
		for n := range max(step.Times, 1) {
			got := runStep(t, conn(step.Session, step.Role), p.Simple, step.SQL, step.values(n))
			if wrong := step.Want.differs(got); wrong != "" {
				return fmt.Sprintf("step %d: %s", i+1, wrong)
			}
		}
	}
	return ""
}

// race lets two sessions take their steps by turns.
func (p *probe) race(t *testing.T, conns ...*pgconn.PgConn) string {
	t.Helper()
	got := make([][]probeAnswer, len(p.Sessions))
	for i := range p.Sessions[0] {
		for s, steps := range p.Sessions {
			got[s] = append(got[s], runStep(t, conns[s], false, steps[i], nil))
		}
	}
	return p.compare(got)
}

// compare looks for a recording that equals got. Who loses is by chance, so the
// sessions may change places, but for what their statements answer: the outcome
// of the last step is what is exchanged.
func (p *probe) compare(got [][]probeAnswer) string {
	wrong := ""
	for _, recorded := range p.Recordings {
		for _, exchanged := range []bool{false, true} {
			wrong = ""
			for s := range recorded {
				last := len(recorded[s]) - 1
				from := s
				if exchanged {
					from = len(recorded) - 1 - s
				}
				for i := range recorded[s] {
					want := recorded[s][i]
					if i == last {
						want = recorded[from][i]
					}
					if d := want.differs(got[s][i]); d != "" {
						wrong = fmt.Sprintf("session %d, step %d: %s", s+1, i+1, d)
					}
				}
			}
			if wrong == "" {
				return ""
			}
		}
	}
	return wrong
}

// values are the parameters of the n-th repetition.
func (s *probeStep) values(n int) []string {
	var values []string
	for _, v := range s.Params {
		var size int
		switch {
		case v == "{n}":
			v = fmt.Sprint(n)
		case v == agedParam:
			v = fmt.Sprint((probeAge * 3 / 2).Seconds())
		case strings.HasPrefix(v, "{random "):
			_, _ = fmt.Sscanf(v, "{random %d}", &size)
			v = randomText(size)
		}
		values = append(values, v)
	}
	return values
}

// runStep runs one statement, or several in the simple protocol.
func runStep(t *testing.T, conn *pgconn.PgConn, simple bool, sql string, params []string) probeAnswer {
	t.Helper()
	var results []*pgconn.Result
	var err error
	if simple {
		results, err = conn.Exec(deadline(t), sql).ReadAll()
	} else {
		var values [][]byte
		for _, v := range params {
			values = append(values, []byte(v))
		}
		result := conn.ExecParams(deadline(t), sql, values, nil, nil, nil).Read()
		results, err = []*pgconn.Result{result}, result.Err
	}
	if err != nil {
		e, ok := errors.AsType[*pgconn.PgError](err)
		if !ok {
			t.Fatalf("%s: %v", sql, err)
		}
		return probeAnswer{Code: e.Code, Message: e.Message}
	}
	var a probeAnswer
	for _, r := range results {
		a.Tags = append(a.Tags, r.CommandTag.String())
		for _, f := range r.FieldDescriptions {
			a.Columns = append(a.Columns, f.Name)
		}
		for _, row := range r.Rows {
			var values []string
			for _, v := range row {
				values = append(values, string(v))
			}
			a.Rows = append(a.Rows, values)
		}
	}
	return a
}

// connectAs connects as a role.
func (c *cluster) connectAs(t *testing.T, role string) *pgconn.PgConn {
	t.Helper()
	config := c.config(t)
	config.User = role
	config.Password = token(t, role, endpoint, region, accessKey, secretKey, 15*time.Minute)
	conn, err := pgconn.ConnectConfig(deadline(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// randomText is a text that does not compress.
func randomText(size int) string {
	b := make([]byte, size/2+1)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)[:size]
}
