package constraint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// answer is what a scripted server says to the statements that have some words in them.
type answer struct {
	words string
	rows  [][]string
	err   error
	times int // how often; 0: always
}

// scripted is a server that refuses what DSQL refuses, and answers else by a script.
type scripted struct {
	script []answer
	asked  []string
	paused int
	stop   error // of the first pause
}

var (
	errLost   = errors.New("lost")
	errCancel = errors.New("cancelled")
)

func (s *scripted) Ask(sql string, row func([]string)) error {
	s.asked = append(s.asked, sql)
	for i := range s.script {
		a := &s.script[i]
		if !strings.Contains(sql, a.words) || a.times < 0 {
			continue
		}
		if a.times == 1 {
			a.times = -1 // it has been said
		} else if a.times > 1 {
			a.times--
		}
		if row != nil {
			for _, values := range a.rows {
				row(values)
			}
		}
		return a.err
	}
	return nil
}

func (s *scripted) RefusalFrom(err error) *wire.Error {
	told, _ := err.(*wire.Error)
	return told
}

func (s *scripted) Pause(time.Duration) error {
	s.paused++
	return s.stop
}

func (s *scripted) CheckMayContinue() error { return nil }

// UpdateInBatches is one batch, of three rows.
func (s *scripted) UpdateInBatches(table string, update func(key []string, rows int) string) (int, error) {
	err := s.Ask(update([]string{"id"}, 3), nil)
	if err != nil {
		return 0, err
	}
	return 2, nil
}

func (s *scripted) ChangedNothing(err error) bool { return err != errLost }

func (s *scripted) ConsumeCancel(error) { s.stop = nil }

// has reports whether a statement with those words was asked.
func (s *scripted) has(words string) bool {
	return slices.ContainsFunc(s.asked, func(sql string) bool { return strings.Contains(sql, words) })
}

// work is the work of a statement, at a server that answers by a script and then as usual: the
// table is there, jobs are begun, and completed.
func work(t *testing.T, sql string, script ...answer) (*ConstraintAdder, *scripted) {
	t.Helper()
	config := rewrite.Defaults()
	config.Rules.NotNullCheck = true
	p, err := rewrite.New(config)
	if err != nil {
		t.Fatal(err)
	}
	st := p.Plan([]byte(sql)).SingleStatement()
	if st == nil {
		t.Fatal(sql)
	}
	server := &scripted{script: append(append([]answer{{words: sql, err: &wire.Error{Code: "0A000"}}}, script...),
		answer{words: "c.relkind FROM", rows: [][]string{{"77", "public", "t", "r"}}},
		answer{words: "ASYNC", rows: [][]string{{"job"}}},
		answer{words: "FROM sys.jobs", rows: [][]string{{"completed", ""}}},
		answer{words: "SELECT convalidated", rows: [][]string{{"t"}}},
		answer{words: "SELECT i.indisvalid", rows: [][]string{{"t"}}})}
	return NewConstraintAdder(server, st.Steps.(*alter.AddedConstraints)), server
}

// What servers say of jobs decides what is told, and what is taken back.
func TestJobsOfConstraints(t *testing.T) {
	t.Parallel()
	invalid, unique := answer{words: "SELECT convalidated", rows: [][]string{{"f"}}}, answer{words: "SELECT i.indisvalid", rows: [][]string{{"f"}}}
	denied := &wire.Error{Code: "42501", Message: "permission denied"}
	const check, key = "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)", "ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)"
	for _, test := range []struct {
		name, sql, want, asked string
		script                 []answer
	}{
		{"done", check, "", "VALIDATE", nil},
		{"nobody may ask for jobs", check, "", "SELECT convalidated", []answer{{words: "sys.jobs", err: &wire.Error{Code: "42501"}}}},
		{"nobody may ask for jobs, and it takes long", check, "", "SELECT convalidated", []answer{{words: "sys.jobs", err: denied}, {words: "SELECT convalidated", rows: [][]string{{"f"}}, times: 300}}},
		{"nobody may ask for jobs, and rows are against", check, "23514", `DROP CONSTRAINT "c_sluice_check"`, []answer{{words: "sys.jobs", err: denied}, invalid,
			{words: "pg_get_expr", rows: [][]string{{"(a > 0)"}}}, {words: "WHERE NOT ((a > 0))", rows: [][]string{{"1"}}}}},
		{"nobody may ask for jobs, and it takes too long", check, "55000 Whether a job builds it is not known, since sys.jobs cannot be read: permission denied. Of what the statement adds there stands: constraint \"c_sluice_check\", not validated.",
			"SELECT convalidated", []answer{{words: "sys.jobs", err: denied}, invalid}},
		{"nobody may ask for jobs, of an index that takes long", key, "", "USING INDEX", []answer{{words: "sys.jobs", err: denied}, {words: "SELECT i.indisvalid", rows: [][]string{{"f"}}, times: 300}}},
		{"nobody may ask for jobs, of an index over duplicates", key, "23505 Key (a)=(7) is duplicated.", `DROP INDEX "public"."c_sluice_key"`, []answer{{words: "sys.jobs", err: denied}, unique,
			{words: "GROUP BY", rows: [][]string{{"7", "f", "a"}}}}},
		{"no job", check, "", "SELECT convalidated", []answer{{words: "ASYNC"}}},
		{"it takes a while", check, "", "VALIDATE", []answer{{words: "sys.jobs", rows: [][]string{{"submitted", ""}}, times: 1}, {words: "sys.jobs", rows: [][]string{{"processing", ""}}, times: 2}}},
		{"the catalog is late", check, "", "VALIDATE", []answer{{words: "SELECT convalidated", rows: [][]string{{"f"}}, times: 2}}},
		{"failed", check, "23514 row is violated", `DROP CONSTRAINT "c_sluice_check"`, []answer{{words: "sys.jobs", rows: [][]string{{"failed", "row is violated"}}}, invalid}},
		{"failed, and nobody says why", check, "58000", `DROP CONSTRAINT "c_sluice_check"`, []answer{{words: "sys.jobs", rows: [][]string{{"failed", ""}}}, invalid}},
		{"the rows say why", check, "23514", `DROP CONSTRAINT "c_sluice_check"`, []answer{{words: "sys.jobs", rows: [][]string{{"failed", ""}}}, invalid,
			{words: "pg_get_expr", rows: [][]string{{"(a > 0)"}}}, {words: "WHERE NOT ((a > 0))", rows: [][]string{{"1"}}}}},
		{"the expression fails", check, "22012", `DROP CONSTRAINT "c_sluice_check"`, []answer{{words: "sys.jobs", rows: [][]string{{"failed", ""}}}, invalid,
			{words: "pg_get_expr", rows: [][]string{{"(a > 0)"}}}, {words: "WHERE NOT", err: &wire.Error{Code: "22012"}}}},
		{"rows may not be read", key, "23505 unique violation", `DROP INDEX "public"."c_sluice_key"`, []answer{{words: "sys.jobs", rows: [][]string{{"completed", "unique violation"}}}, unique,
			{words: "GROUP BY", err: &wire.Error{Code: "42501"}}}},
		{"duplicates", key, "23505 Key (a)=(7) is duplicated.", `DROP INDEX "public"."c_sluice_key"`, []answer{{words: "sys.jobs", rows: [][]string{{"completed", "x"}}}, unique,
			{words: "GROUP BY", rows: [][]string{{"7", "f", "a"}}}}},
		{"the job cannot be begun", check, "54000", `DROP CONSTRAINT "c_sluice_check"`, []answer{{words: "VALIDATE", err: &wire.Error{Code: "54000"}}}},
		{"the constraint is refused", key, "0A000", `DROP INDEX "public"."c_sluice_key"`, []answer{{words: "USING INDEX", err: &wire.Error{Code: "0A000"}}, {words: "RENAME TO", err: &wire.Error{Code: "0A000"}}}},
		{"the constraint is refused under each name", key, "0A000", `DROP INDEX "public"."c"`, []answer{{words: "USING INDEX", err: &wire.Error{Code: "0A000"}}}},
		{"the constraint has the index's name only", key, "", `USING INDEX "c"`, []answer{{words: `USING INDEX "c_sluice_key"`, err: &wire.Error{Code: "0A000"}}}},
		{"no constraint is renamed", check, "", "RENAME CONSTRAINT", []answer{{words: "RENAME CONSTRAINT", err: &wire.Error{Code: "0A000"}}}},
		{"another has given it its name", check, "42710", "RENAME CONSTRAINT", []answer{{words: "RENAME CONSTRAINT", err: &wire.Error{Code: "42704"}, times: 1}, {words: "SELECT conname FROM", times: 1},
			{words: "SELECT conname FROM", rows: [][]string{{"c"}}}, {words: `ADD CONSTRAINT "c" CHECK`, err: &wire.Error{Code: "42710"}}}},
		{"the name is taken meanwhile", "ALTER TABLE t ADD CHECK (a > 0)", "", `TO "t_a_check1"`, []answer{{words: "RENAME CONSTRAINT", err: &wire.Error{Code: "42710"}, times: 1}, {words: "SELECT conname FROM", times: 1},
			{words: "SELECT conname FROM", rows: [][]string{{"t_a_check"}}}}},
		{"the index's name is taken meanwhile", "ALTER TABLE t ADD UNIQUE (a)", "", `"t_a_key1" UNIQUE USING INDEX "t_a_sluice_key"`, []answer{{words: "USING INDEX", err: &wire.Error{Code: "42P07"}, times: 1}, {words: "SELECT conname FROM", times: 1},
			{words: "SELECT conname FROM", rows: [][]string{{"t_a_key"}}}}},
		{"lost at its name", check, "08007 Of what the statement adds there may stand: constraint \"c\"; constraint \"c_sluice_check\", not validated.", "RENAME CONSTRAINT", []answer{{words: "RENAME CONSTRAINT", err: errLost}}},
		{"another was faster", key, "42P07", "USING INDEX", []answer{
			{words: "USING INDEX", err: &wire.Error{Code: "55000", Message: "index \"c\" is already associated with a constraint"}},
			{words: "CREATE UNIQUE", rows: [][]string{{"job"}}, times: 1}, {words: "CREATE UNIQUE", err: &wire.Error{Code: "42P07"}}}},
		{"the index is not valid after all", key, "55000", `DROP INDEX "public"."c_sluice_key"`, []answer{{words: "USING INDEX", err: &wire.Error{Code: "55000", Message: "index \"c\" is not valid"}}}},
		{"dropped meanwhile", check, "42704 Another session has dropped it.", "SELECT convalidated", []answer{{words: "SELECT convalidated"}}},
		{"no table", check, "0A000", "c.relkind", []answer{{words: "c.relkind FROM", rows: [][]string{{"77", "public", "t", "v"}}}}},
	} {
		w, server := work(t, test.sql, test.script...)
		err := w.Run()
		if err == errLost {
			err = &wire.Error{Code: "08007"}
		}
		err = w.WithPartialResult(err)
		got := ""
		if told, ok := err.(*wire.Error); ok {
			got = strings.TrimSpace(told.Code + " " + told.Detail)
		} else if err != nil {
			got = err.Error()
		}
		if got != test.want || !server.has(test.asked) {
			t.Errorf("%s: %q, want %q; asked\n%s", test.name, got, test.want, strings.Join(server.asked, "\n"))
		}
		if (test.want == "" || strings.HasPrefix(test.want, "55000 Whether")) && server.has("DROP") {
			t.Errorf("%s: something is dropped", test.name)
		}
	}
}

// An index that an earlier statement has begun for a UNIQUE constraint is followed, and dropped where its build
// has failed; where nobody knows whether a job is at it, it is left alone.
func TestIndexOfAnEarlierStatement(t *testing.T) {
	t.Parallel()
	there := func(valid string) answer {
		return answer{words: "c.relname IN", rows: [][]string{{"c_sluice_key", "t", valid, "99"}}}
	}
	running := answer{words: "object_id = 99", rows: [][]string{{"j", "processing"}}}
	ended := answer{words: "job_id = 'j'", rows: [][]string{{"failed", ""}}}
	invalid := answer{words: "SELECT i.indisvalid", rows: [][]string{{"f"}}}
	duplicate := answer{words: "GROUP BY", rows: [][]string{{"7", "f", "a"}}}
	for _, c := range []struct {
		name, want string
		drops      bool
		script     []answer
	}{
		{"valid", "", false, []answer{there("t")}},
		{"it is built by then", "", false, []answer{there("f"), running}},
		{"its build fails", "58000", true, []answer{there("f"), running, ended, invalid}},
		{"its build fails for its rows", "23505", true, []answer{there("f"), running, ended, invalid, duplicate}},
		{"its build fails, and another has dropped it", "58000", true, []answer{there("f"), running, ended, invalid, {words: "DROP INDEX", err: &wire.Error{Code: "42704"}}}},
		{"its build has failed before", "", true, []answer{there("f"), {words: "WHERE indexrelid = 99", rows: [][]string{{"f"}}}}},
		{"its build ends between the looks", "", false, []answer{there("f"), {words: "WHERE indexrelid = 99", rows: [][]string{{"t"}}}}},
		{"it is dropped between the looks", "", false, []answer{there("f")}},
		{"nobody may look for its job", "55000", false, []answer{there("f"), {words: "sys.jobs", err: &wire.Error{Code: "42501"}}}},
		{"its job is asked for in vain", "55000", false, []answer{there("f"), {words: "sys.jobs", err: &wire.Error{Code: "XX000"}}}},
		{"refused once", "", false, []answer{there("f"), {words: "sys.jobs", err: &wire.Error{Code: "XX000"}, times: 1}, running}},
	} {
		w, server := work(t, "ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)", c.script...)
		err := w.WithPartialResult(w.Run())
		told := server.RefusalFrom(err)
		if (told == nil) != (c.want == "") || told != nil && told.Code != c.want || server.has("DROP INDEX") != c.drops || c.drops && told != nil && strings.Contains(told.Detail, "stands") {
			t.Errorf("%s: %v, asked\n%s", c.name, err, strings.Join(server.asked, "\n"))
		}
	}
}

// What ends the work, in any place, leaves nothing, or is named.
func TestEndsOfTheWork(t *testing.T) {
	t.Parallel()
	const sql = `ALTER TABLE t ADD COLUMN z int UNIQUE, ADD CONSTRAINT c CHECK (a > 0)`
	_, whole := work(t, sql)
	w := NewConstraintAdder(whole, mustConstraints(t, sql))
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	for i, step := range whole.asked[1:] {
		for _, refuses := range []bool{true, false} {
			err := error(errLost)
			if refuses {
				err = &wire.Error{Code: "53100", Message: "full"}
			}
			w, server := work(t, sql, answer{words: step, err: err})
			got := w.Run()
			made, dropped := 0, 0
			for _, asked := range server.asked {
				switch {
				case strings.Contains(asked, "DROP"):
					dropped++
				case asked != sql && (strings.Contains(asked, "ADD ") || strings.Contains(asked, "CREATE ")) && asked != step && !strings.Contains(asked, "USING INDEX"):
					made++
				}
			}
			optional := strings.Contains(step, "sys.jobs") && refuses
			switch {
			case got == nil && !optional:
				t.Errorf("%d, %s: no error", i, step)
			case refuses && got != nil && dropped != made:
				t.Errorf("%d, %s: %d things are made, %d dropped:\n%s", i, step, made, dropped, strings.Join(server.asked, "\n"))
			case !refuses && dropped > 0:
				t.Errorf("%d, %s: something is dropped behind a loss", i, step)
			}
			if !refuses && made > 0 {
				told := w.WithPartialResult(&wire.Error{Code: "08007"}).(*wire.Error)
				if !strings.Contains(told.Detail, `column "z"`) || !strings.Contains(told.Hint, `DROP COLUMN "z"`) {
					t.Errorf("%d, %s: %s %s", i, step, told.Detail, told.Hint)
				}
			}
		}
	}
	// A cancel while a job runs.
	w, server := work(t, "ALTER TABLE t ADD CHECK (a > 0)", answer{words: "sys.jobs", rows: [][]string{{"submitted", ""}}})
	server.stop = errCancel
	if err := w.Run(); err != errCancel || !server.has(`DROP CONSTRAINT "t_a_sluice_check"`) || w.WithPartialResult(err) != errCancel {
		t.Errorf("cancelled: %v, %s", err, strings.Join(server.asked, "\n"))
	}
}

func mustConstraints(t *testing.T, sql string) *alter.AddedConstraints {
	t.Helper()
	w, _ := work(t, sql)
	return w.AddedConstraints
}

// Names are PostgreSQL's, also where many are taken.
func TestNamesThatAreTaken(t *testing.T) {
	t.Parallel()
	var rows [][]string
	for i := range 40 {
		name := "t_a_check"
		if i > 0 {
			name += fmt.Sprint(i)
		}
		rows = append(rows, []string{name, "f", "CHECK ((a > 0))"})
	}
	w, server := work(t, "ALTER TABLE t ADD CHECK (a > 0)", answer{words: "SELECT conname", rows: rows[:16], times: 1},
		answer{words: "SELECT conname", rows: rows[16:32], times: 1}, answer{words: "SELECT conname", rows: rows[32:]})
	if err := w.Run(); err != nil || !server.has(`RENAME CONSTRAINT "t_a_sluice_check" TO "t_a_check40"`) {
		t.Errorf("%v\n%s", err, strings.Join(server.asked, "\n"))
	}
}

// A server that is lost while things are taken back is an unknown outcome.
func TestLossWhileTakingBack(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"DROP CONSTRAINT", "DROP COLUMN", "z\" IS NOT NULL"} {
		w, server := work(t, "ALTER TABLE t ADD COLUMN z int, ADD CHECK (a > 0)", answer{words: "VALIDATE", err: &wire.Error{Code: "23514"}}, answer{words: step, err: errLost})
		if err := w.Run(); err != errLost {
			t.Errorf("%s: %v\n%s", step, err, strings.Join(server.asked, "\n"))
		}
		if told := w.WithPartialResult(&wire.Error{Code: "08007"}).(*wire.Error); !strings.Contains(told.Detail, `may stand: `) || !strings.Contains(told.Detail, `column "z"`) {
			t.Errorf("%s: %s", step, told.Detail)
		}
	}
	// What a cancel has kept from being made is nobody's to drop.
	w, server := work(t, "ALTER TABLE t ADD CHECK (a > 0)", answer{words: "NOT VALID", err: errCancel})
	if err := w.Run(); err != errCancel || server.has("DROP") {
		t.Errorf("%v\n%s", err, strings.Join(server.asked, "\n"))
	}
}

// DROP NOT NULL takes the CHECK that stands for it away, and no other.
func TestDropNotNull(t *testing.T) {
	t.Parallel()
	checks := answer{words: "p.conkey", rows: [][]string{{"t_a_sluice_not_null", "CHECK ((a IS NOT NULL))"}, {"t_a_sluice_not_null1", "CHECK ((a IS NOT NULL)) NOT VALID"},
		{"t_a_sluice_not_null2", "CHECK ((a > 0))"}, {"t_a_not_null", "CHECK ((a IS NOT NULL))"}}}
	for _, refuses := range []bool{false, true} {
		w, server := work(t, "ALTER TABLE t ALTER a DROP NOT NULL")
		server.script = append([]answer{checks}, server.script[1:]...) // the server takes the statement
		if refuses {
			server.script = append([]answer{{words: "DROP CONSTRAINT", err: &wire.Error{Code: "40001"}}}, server.script...)
		}
		err := w.WithPartialResult(w.Run())
		told, failed := err.(*wire.Error)
		switch {
		case failed != refuses, refuses && !strings.Contains(told.Hint, `DROP CONSTRAINT "t_a_sluice_not_null".`):
			t.Errorf("refuses %t: %v", refuses, err)
		case !server.has(`DROP CONSTRAINT "t_a_sluice_not_null"`), !refuses && !server.has(`DROP CONSTRAINT "t_a_sluice_not_null1"`), server.has("t_a_sluice_not_null2"), server.has(`"t_a_not_null`):
			t.Errorf("refuses %t:\n%s", refuses, strings.Join(server.asked, "\n"))
		}
	}
}
