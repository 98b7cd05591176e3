package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// report is the JSON of sluice doctor.
type report struct {
	Endpoint      string `json:"endpoint"`
	ServerVersion string `json:"server_version"`
	Questions     []struct {
		Name, Question, Answer, So string
		Found                      []string
	}
	Settings   []struct{ Key, Value, Configured string }
	LeftBehind []string `json:"left_behind"`
}

// answer is that to a question.
func (r *report) answer(name string) string {
	for _, q := range r.Questions {
		if q.Name == name {
			return q.Answer
		}
	}
	return "not asked"
}

// ward is a stand-in over a PostgreSQL, and a role that it is asked by.
type ward struct {
	pg  *pgtest.Server
	sim *harness.DSQLSim
	env harness.Env
}

func newWard(t *testing.T, args ...string) *ward {
	t.Helper()
	w := &ward{pg: pgtest.Start(t)}
	w.sim = harness.StartDSQLSim(t, harness.DSQLSimConfig{Upstream: w.pg, Args: args})
	w.env = w.sim.Env()
	return w
}

// start starts the program.
func (w *ward) start(t *testing.T, args ...string) *harness.Program {
	t.Helper()
	return harness.Start(t, filepath.Join(string(harness.Binaries(t)), "sluice"), t.TempDir(), w.env, append([]string{"doctor"}, args...)...)
}

// ended waits for the program's end.
func ended(t *testing.T, p *harness.Program) (code int, said string) {
	t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(3 * time.Minute):
		t.Fatalf("it goes on:\n%s", p.Log())
	}
	return p.ExitCode(), p.Log()
}

// asked runs the program to its end, with the report that it prints.
func (w *ward) asked(t *testing.T) (code int, r report, said string) {
	t.Helper()
	code, said = ended(t, w.start(t, "--format=json"))
	text := said
	if at := strings.LastIndex(text, "\n}\n"); at >= 0 {
		text = text[strings.Index(text, "{\n") : at+2]
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("no report: %v\n%s", err, said)
	}
	return code, r, said
}

// left are the schemas that are there and were not before.
func (w *ward) left(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(w.pg.SQL(t, "postgres", "SELECT string_agg(nspname, ' ') FROM pg_namespace WHERE nspname LIKE 'sluice%'"))
}

// What a cluster answers, as far as it is known, and one that lacks encode() and decode().
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		args     []string
		env      harness.Env
		code     int
		settings string
		answers  map[string]string
	}{
		{"strict", nil, nil, 0, "rewrite.bytea=hex rewrite.bytea_check=true rewrite.add_column=true rewrite.numeric=wide", nil},
		{"without encode", []string{"--without-encode"}, nil, 1, "rewrite.bytea=hex-cast rewrite.bytea_check=true rewrite.add_column=true rewrite.numeric=wide", nil},
		{"without encode, and configured so", []string{"--without-encode"}, harness.Env{"DSQL_REWRITE_BYTEA": "hex-cast"}, 0,
			"rewrite.bytea=hex-cast rewrite.bytea_check=true rewrite.add_column=true rewrite.numeric=wide", nil},
		{"old locking", []string{"--old-locking"}, nil, 0, "rewrite.bytea=hex rewrite.bytea_check=true rewrite.add_column=true rewrite.numeric=wide", map[string]string{"for_update": "no"}},
		{"no sequence is a default", []string{"--without-sequence-defaults"}, nil, 0, "rewrite.bytea=hex rewrite.bytea_check=true rewrite.add_column=true rewrite.numeric=wide", map[string]string{"serial": "no"}},
		{"no sequence is owned", []string{"--without-sequence-owners"}, nil, 0, "rewrite.bytea=hex rewrite.bytea_check=true rewrite.add_column=true rewrite.numeric=wide", map[string]string{"serial": "no"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t, test.args...)
			w.env = w.env.With(test.env)
			code, r, said := w.asked(t)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			for name, want := range map[string]string{"encode": "yes", "index": "yes", "for_update": "yes", "lock_outside": "no", "key_size": "yes", "check": "yes",
				"upsert_key": "yes", "add_column": "no", "numeric": "yes", "serial": "yes", "generated_key": "yes"} {
				if other := test.answers[name]; other != "" {
					want = other
				}
				if got := r.answer(name); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			var settings []string
			for _, s := range r.Settings {
				settings = append(settings, s.Key+"="+s.Value)
			}
			if got := strings.Join(settings, " "); got != test.settings {
				t.Errorf("settings %s, want %s", got, test.settings)
			}
			if left := w.left(t); left != "" || len(r.LeftBehind) > 0 {
				t.Errorf("left behind: %q, told: %q", left, r.LeftBehind)
			}
			if t.Failed() || testing.Verbose() {
				t.Log(said)
			}
		})
	}
}

// A signal ends the asking, in the middle of whatever statement, and what was made is removed.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	for sig, moments := range map[syscall.Signal][]string{
		syscall.SIGINT:  {"CREATE SCHEMA", "FOR UPDATE", "EXPLAIN"},
		syscall.SIGTERM: {"CREATE TABLE", "COMMIT", "ON CONFLICT", "DROP SCHEMA"},
	} {
		for _, moment := range moments {
			w.sim.Admin(t, "POST", "/faults", `[{"at":"statement","action":"stall","contains":"`+moment+`","seconds":2}]`)
			p := w.start(t)
			for len(w.sim.Admin(t, "GET", "/faults", "")) > 10 { // until it has happened
				time.Sleep(20 * time.Millisecond)
				select {
				case <-p.Exited():
					t.Fatalf("%s never came:\n%s", moment, p.Log())
				default:
				}
			}
			p.Signal(sig)
			code, said := ended(t, p)
			if left := w.left(t); left != "" || code != 1 && moment != "DROP SCHEMA" || !strings.Contains(said, "interrupted") && moment != "DROP SCHEMA" {
				t.Errorf("%v at %s: exit code %d, left behind %q, and said\n%s", sig, moment, code, left, said)
			}
		}
	}
}

// A connection that is lost ends the asking, and another one removes what was made.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	for _, lost := range []struct{ at, moment string }{
		{"statement", "SELECT pg_catalog.encode"}, {"running", "CREATE SCHEMA"}, {"statement", "CREATE SCHEMA"}, {"answered", "CREATE SCHEMA"}, {"statement", "CREATE TABLE"}, {"running", "EXPLAIN"},
		{"answered", "FOR UPDATE"}, {"answered", "varchar(255)"}, {"running", "ON CONFLICT"}, {"statement", "DROP SCHEMA"}, {"answered", "DROP SCHEMA"},
	} {
		w.sim.Admin(t, "POST", "/faults", `[{"at":"`+lost.at+`","action":"cut","contains":"`+lost.moment+`"}]`)
		code, said := ended(t, w.start(t))
		atEnd := lost.moment == "DROP SCHEMA"
		// Of a statement that the cluster may go on with nobody knows that it never comes.
		unsure := lost.moment == "CREATE SCHEMA" && lost.at == "statement"
		if left := w.left(t); left != "" || (code == 1) == atEnd || strings.Contains(said, "connection was lost") == atEnd || strings.Contains(said, "left behind") != unsure {
			t.Errorf("cut at %s of %s: exit code %d, left behind %q, and said\n%s", lost.at, lost.moment, code, left, said)
		}
		if got := w.sim.Admin(t, "GET", "/faults", ""); len(got) > 10 {
			t.Errorf("nothing was cut at %s of %s", lost.at, lost.moment)
			w.sim.Admin(t, "DELETE", "/faults", "")
		}
	}
}

// Where nothing can be removed any more, the statement is told that does it, and it does.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.sim.Admin(t, "POST", "/faults", `[{"at":"statement","action":"stall","contains":"FOR UPDATE","seconds":3}]`)
	p := w.start(t)
	for len(w.sim.Admin(t, "GET", "/faults", "")) > 10 {
		time.Sleep(20 * time.Millisecond)
	}
	w.sim.Stop(syscall.SIGKILL, 10*time.Second)
	code, said := ended(t, p)
	name := w.left(t)
	if code != 1 || name == "" || !strings.Contains(said, "left behind in the cluster; to remove it run:\n  DROP SCHEMA IF EXISTS "+name+" CASCADE;\n") {
		t.Fatalf("exit code %d, left behind %q, and said\n%s", code, name, said)
	}
	w.pg.SQL(t, "postgres", "DROP SCHEMA IF EXISTS "+name+" CASCADE;")
	if left := w.left(t); left != "" {
		t.Errorf("left behind %q", left)
	}
}

// What cannot be asked is told, with what to do.
func TestNoSchemaToBeHad(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.pg.SQL(t, "postgres", "CREATE ROLE app LOGIN")
	for _, test := range []struct {
		name, sql string
		env       harness.Env
		want      []string
	}{
		{"no right", "", harness.Env{"DSQL_BACKEND_USER": "app"}, []string{"42501", `backend.user: "app"`, `GRANT CREATE ON DATABASE postgres TO "app"`}},
		{"ten schemas", strings.Repeat("CREATE SCHEMA IF NOT EXISTS s%; ", 9), nil, []string{"54000", "a cluster takes ten schemas"}},
	} {
		for n := range 9 {
			test.sql = strings.Replace(test.sql, "%", string(rune('0'+n)), 1)
		}
		w.pg.SQL(t, "postgres", test.sql+" SELECT 1")
		other := &ward{pg: w.pg, sim: w.sim, env: w.env.With(test.env)}
		code, said := ended(t, other.start(t))
		for _, want := range test.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q is not said", test.name, want)
			}
		}
		if left := w.left(t); code != 1 || left != "" || !strings.Contains(said, "1. Does the cluster make hexadecimal digits") {
			t.Errorf("%s: exit code %d, left behind %q, and said\n%s", test.name, code, left, said)
		}
	}
}

// At a cluster that refuses numeric(128,38) columns are to be numeric(38,18).
func TestNumericThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.pg.SQL(t, "postgres", `CREATE FUNCTION narrow() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		IF current_query() LIKE '%numeric(128,38)%' THEN RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'a precision of 128 is not supported'; END IF;
		END $$; CREATE EVENT TRIGGER narrow ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION narrow()`)
	code, r, said := w.asked(t)
	var settings []string
	for _, s := range r.Settings {
		settings = append(settings, s.Key+"="+s.Value)
	}
	if r.answer("numeric") != "no" || !slices.Contains(settings, "rewrite.numeric=38,18") || code != 1 || !strings.Contains(said, "a precision of 128 is not supported") {
		t.Errorf("exit code %d, numeric: %s, settings %q\n%s", code, r.answer("numeric"), settings, said)
	}
}
