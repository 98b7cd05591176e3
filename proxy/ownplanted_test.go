package proxy_test

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/rewrite"
)

var ownLies = flag.Int("own_lies.one_in", 0, "TestOwnTurnsAmongPlanted plays one of so many lies; 0: as many as other long tables")

// ownStep is one statement of a client, which has the clientWord behind it. "%" stands for a number that no
// other step has, of a row of own_rows.
type ownStep struct {
	client int
	sql    string
	ext    bool
}

// stepsOf makes steps of lines: the number of a client, "x" for the extended protocol, and the statement.
func stepsOf(lines string) (steps []ownStep) {
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" {
			who, sql, _ := strings.Cut(line, " ")
			steps = append(steps, ownStep{client: int(who[0] - '0'), sql: sql, ext: strings.HasSuffix(who, "x")})
		}
	}
	return steps
}

// ownScenarios are what clients do for which Sluice has turns of its own.
var ownScenarios = map[string]struct {
	opts  []option
	steps string
	sure  map[string]string // lies, by the beginnings of forms, that are always told
	fails bool              // somebody gets an error for each of them
}{
	"settings": {opts: []option{maxOpen(1)}, steps: `
		1 SET TimeZone TO 'Asia/Tokyo'
		2 SET TimeZone TO 'Asia/Kolkata'
		1 SELECT '2020-01-01 00:00+00'::timestamptz
		2x SELECT '2020-01-01 00:00+00'::timestamptz
		1 BEGIN
		1 RESET TimeZone
		1 SELECT '2020-01-01 00:00+00'::timestamptz
		1 ROLLBACK
		1 SELECT '2020-01-01 00:00+00'::timestamptz
		2 INSERT INTO own_rows VALUES (%, '2020-01-01 00:00')`, sure: map[string]string{"Q SET timezone": rollsBack, "Q RESET timezone": rollsBack}},
	"functions": {opts: []option{maxOpen(2)}, steps: `
		1 SELECT own_sets('Asia/Tokyo')
		2 SELECT '2020-01-01 00:00+00'::timestamptz
		1 SELECT own_temp()
		1 SELECT count(*) FROM own_mine
		2 SELECT to_regclass('own_mine') IS NULL
		2 SELECT '2020-01-01 00:00+00'::timestamptz`},
	"blocks": {opts: []option{asDSQL, fastReplay}, steps: `
		1 BEGIN
		1 INSERT INTO own_rows VALUES (%)
		1 ROLLBACK
		1x START TRANSACTION
		1x INSERT INTO own_rows VALUES (%)
		1 SAVEPOINT a
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT`},
	"savepoints": {opts: []option{asDSQL, withSavepoints}, steps: `
		1 BEGIN
		1 INSERT INTO own_rows VALUES (%)
		1 SAVEPOINT a
		1 INSERT INTO own_rows VALUES (%)
		1 SELECT 1/0
		1 ROLLBACK TO a
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT`},
	"locks": {opts: []option{withLocks, maxOpen(3)}, steps: `
		1 SELECT pg_advisory_lock(7)
		1 INSERT INTO own_rows VALUES (%)
		1x INSERT INTO own_rows VALUES (%)
		2 SELECT pg_try_advisory_lock(7)
		1 BEGIN
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT
		1 SELECT pg_advisory_unlock(7)
		2 SELECT pg_try_advisory_lock(7)
		2 SELECT pg_advisory_unlock(7)`, sure: map[string]string{"Q COMMIT": silence, "E SELECT ? FROM sluice.advisory_locks": otherTag}, fails: true},
	"cursors": {opts: []option{asDSQL, withCursors, fastReplay}, steps: `
		1 BEGIN
		1 DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 9) g
		1 FETCH 2 FROM c
		1 MOVE 2 FROM c
		1 FETCH 2 FROM c
		1 DECLARE h CURSOR WITH HOLD FOR SELECT g FROM generate_series(1, 5) g
		1 FETCH 1 FROM h
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT
		1 FETCH ALL FROM h`},
	"truncate": {opts: []option{asDSQL, fastReplay, func(s *setup) { s.rules = rewrite.Rules{Truncate: rewrite.TruncateDelete} }}, steps: `
		1 INSERT INTO own_rows VALUES (%)
		1 TRUNCATE own_other
		1 BEGIN
		1 TRUNCATE own_other
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT
		1 SELECT count(*) FROM own_other`, sure: map[string]string{"Q DELETE": rollsBack}},
	"parts": {opts: []option{asDSQL, withReplay, withParts}, steps: `
		1 BEGIN
		1 INSERT INTO own_rows VALUES (%)
		1 CREATE TABLE own_made (a int)
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT
		1 BEGIN; DROP TABLE own_made; INSERT INTO own_rows VALUES (%); COMMIT`, sure: map[string]string{"E BEGIN": twoTags}},
	"sequences": {opts: []option{maxOpen(1)}, steps: `
		1 SELECT nextval('own_seq') IS NULL
		2 SELECT nextval('own_seq') IS NULL
		1 SELECT currval('own_seq') IS NULL
		1 BEGIN
		1 INSERT INTO own_rows (id) SELECT % FROM (SELECT nextval('own_seq')) AS n
		1 SELECT currval('own_seq') IS NULL
		1 COMMIT`},
	"mapped": {opts: []option{mapping, fastReplay}, steps: `
		1 INSERT INTO own_rows VALUES (%)
		1 CREATE TABLE own_made (a int)
		2 INSERT INTO own_made VALUES (1)
		1 SELECT * FROM own_made
		2 DROP TABLE own_made`},
	"batches": {opts: []option{inBatches}, steps: `
		1 INSERT INTO own_rows VALUES (%)
		1 DELETE FROM many_rows WHERE a > 0
		1x DELETE FROM many_rows WHERE a > 0
		1 SELECT count(*) FROM many_rows`},
}

// withParts has DDL in transactions run in parts.
func withParts(s *setup) { s.rules.InTransactions = rewrite.CommitDrops }

const ownSchema = `
	CREATE TABLE own_rows (id int PRIMARY KEY, v timestamptz);
	CREATE TABLE own_other (a int);
	CREATE TABLE many_rows (a int PRIMARY KEY);
	CREATE SEQUENCE own_seq;
	CREATE FUNCTION own_sets(v text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('TimeZone', v, false) $$;
	CREATE FUNCTION own_temp() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CREATE TEMPORARY TABLE IF NOT EXISTS own_mine (a int); RETURN 1; END $$`

// ownIDs are the numbers of rows.
var ownIDs = regexp.MustCompile(`\b[1-9]\d{6}\b`)

// ownRun is one play of a scenario.
type ownRun struct {
	t       *testing.T
	s       *sluice
	number  *int
	clients map[int]*rawClient
	gone    map[int]bool
	present map[string]string // by numbers of rows: "yes", "no", or "?"
	open    map[int][]string  // those of a client's block
	marks   map[int]int       // how many of them stood in front of its savepoint
}

// play plays steps up to the end, and returns the answers, in which numbers are "%".
func (r *ownRun) play(steps []ownStep) (answers []string) {
	r.clients, r.gone, r.present, r.open, r.marks = map[int]*rawClient{}, map[int]bool{}, map[string]string{}, map[int][]string{}, map[int]int{}
	defer func() {
		for _, c := range r.clients {
			c.conn.Close()
		}
	}()
	for _, step := range steps {
		if r.gone[step.client] {
			answers = append(answers, "EOF")
			continue
		}
		if r.clients[step.client] == nil {
			r.clients[step.client] = dialRaw(r.t, r.s.addr)
		}
		*r.number++
		id := strconv.Itoa(*r.number)
		sql := strings.ReplaceAll(step.sql, "%", id) + " " + clientWord
		script := "Q " + sql + "\n< Z\n"
		if step.ext {
			script = "P - | " + sql + "\nB - | -\nD P -\nE -\nS\n< Z\n"
		}
		got := r.clients[step.client].say(r.t, script)
		r.gone[step.client] = strings.Contains(got, "EOF") || strings.Contains(got, "TIMEOUT")
		if strings.Contains(step.sql, "%") {
			r.note(step, id, got)
		} else {
			r.note(step, "", got)
		}
		answers = append(answers, ownIDs.ReplaceAllString(got, "%"))
	}
	for client := range r.open {
		r.end(client, "no")
	}
	return answers
}

// end says what has become of the rows of a client's block.
func (r *ownRun) end(client int, is string) {
	for _, id := range r.open[client] {
		r.present[id] = is
	}
	delete(r.open, client)
	delete(r.marks, client)
}

// note takes down what a client was told of its row.
func (r *ownRun) note(step ownStep, id, got string) {
	failed, unknown := strings.Contains(got, "E S=") || r.gone[step.client], strings.Contains(got, "C=08007") || !strings.Contains(got, "E S=") && r.gone[step.client]
	rows, in := r.open[step.client]
	is := "yes"
	switch {
	case unknown:
		is = "?"
	case failed:
		is = "no"
	}
	switch verb := strings.Fields(step.sql)[0]; {
	case strings.HasPrefix(step.sql, "BEGIN; "):
		r.present[id] = is
	case strings.HasPrefix(step.sql, "ROLLBACK TO"):
		if !failed {
			r.open[step.client] = rows[:r.marks[step.client]]
			for _, id := range rows[r.marks[step.client]:] {
				r.present[id] = "no"
			}
		}
	case verb == "SAVEPOINT":
		r.marks[step.client] = len(rows)
	case (verb == "BEGIN" || verb == "START") && !failed:
		r.open[step.client] = []string{}
	case verb == "ROLLBACK" && in:
		r.end(step.client, "no")
	case verb == "COMMIT" && in:
		if !failed && strings.Contains(got, "C ROLLBACK") {
			is = "no"
		}
		r.end(step.client, is)
	case unknown && in: // a part of the block may be committed
		r.open[step.client] = append(rows, id)
		r.end(step.client, "?")
	case id == "":
	case in && !failed:
		r.open[step.client] = append(rows, id)
	case in:
		r.present[id] = "no"
	default:
		r.present[id] = is
	}
}

// wrong is what the server has against what clients were told; "" for nothing.
func (r *ownRun) wrong(rows string) string {
	have := map[string]bool{}
	for _, id := range strings.Fields(rows) {
		have[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(r.present)) {
		if is := r.present[id]; id != "" && is != "?" && have[id] != (is == "yes") {
			return fmt.Sprintf("row %s: told %s, there %v", id, is, have[id])
		}
	}
	return ""
}

// No turn and no question of Sluice's own concludes anything from an answer that it has not asked for: where
// a server answers otherwise, clients get an error, or what they get where it answers as asked, what they
// are told of their writes holds, and nobody meets the lie later.
func TestOwnTurnsAmongPlanted(t *testing.T) {
	t.Parallel()
	oneIn := *ownLies
	if oneIn == 0 {
		oneIn = proxy.OneIn
	}
	for name, scenario := range ownScenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", ownSchema)
			p := ownPlay{t: t, pg: pg, opts: scenario.opts, steps: stepsOf(scenario.steps), number: 1000000}
			l, r := p.start()
			p.want = r.play(p.steps)
			for i, got := range p.want {
				if strings.Contains(got, "E S=") && !strings.Contains(p.steps[i].sql, "1/0") && name != "sequences" {
					t.Fatalf("%s: %s", p.steps[i].sql, got)
				}
			}
			told, cases, sure := 0, 0, 0
			for _, form := range l.forms() {
				for _, lie := range ownLieKinds {
					always := false
					for of, is := range scenario.sure {
						always = always || is == lie && strings.HasPrefix(form, of)
					}
					if cases++; cases%oneIn != 0 && !always || lie == wrongEnd && strings.Contains(form, "DELETE") { // that stands for a client's statement
						continue
					}
					told++
					switch lied, failed := p.lies(form, lie); {
					case !lied:
						told--
					case always && scenario.fails && !failed:
						t.Errorf("%q, %s: nobody has an error", form, lie)
					case always:
						sure++
					}
				}
			}
			if sure < len(scenario.sure) {
				t.Errorf("of %d lies that are always told there were %d", len(scenario.sure), sure)
			}
			t.Logf("%d lies told, of %d cases, about %d texts", told, cases, len(l.forms()))
		})
	}
}

// ownPlay plays a scenario again and again.
type ownPlay struct {
	t      *testing.T
	pg     postgres
	opts   []option
	steps  []ownStep
	number int
	want   []string // the answers where no lie is told
}

// resets has the tables as they are in front of a scenario.
func (p *ownPlay) resets() {
	p.pg.SQL(p.t, "postgres", "DROP TABLE IF EXISTS own_made; DELETE FROM own_other; INSERT INTO own_other VALUES (1); DELETE FROM many_rows; INSERT INTO many_rows SELECT generate_series(1, 3)")
}

// start starts a Sluice behind a liar that tells no lie.
func (p *ownPlay) start() (*liar, *ownRun) {
	p.resets()
	l := startLiar(p.t, p.pg.addr)
	return l, &ownRun{t: p.t, number: &p.number, s: startSluice(p.t, p.pg, append(slices.Clone(p.opts), l.option)...)}
}

// lies plays the scenario with a lie, and once more without one. lied: the text of
// that form was sent. failed: a client had an error where none is without the lie.
func (p *ownPlay) lies(form, lie string) (lied, failed bool) {
	l, r := p.start()
	l.arm(form, lie)
	got := r.play(p.steps)
	if lied := l.arm("", ""); !lied {
		return false, false
	}
	told := ""
	for i := range got {
		if got[i] != p.want[i] {
			if failed, told = true, got[i]; !strings.Contains(told, "E S=") && !strings.Contains(told, "EOF") {
				p.t.Errorf("%q, %s:\n%s: %s\nwant %s", form, lie, p.steps[i].sql, got[i], p.want[i])
			}
			break
		}
	}
	if why := r.wrong(p.pg.SQL(p.t, "postgres", "SELECT string_agg(id::text, ' ') FROM own_rows")); why != "" {
		p.t.Errorf("%q, %s: %s\n%s", form, lie, why, strings.Join(got, ""))
	}
	p.resets()
	if later := r.play(p.steps); !slices.Equal(later, p.want) {
		p.t.Errorf("behind %q, %s, which was told as %q:\n%s\nwant %s", form, lie, told, strings.Join(later, ""), strings.Join(p.want, ""))
	}
	return true, failed
}
