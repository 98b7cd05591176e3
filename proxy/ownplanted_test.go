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
)

var ownLies = flag.Int("own_lies.one_in", 0, "TestOwnTurnsAmongPlanted plays one of so many lies; 0: as many as other long tables")

// ownIDs are the numbers of rows.
var ownIDs = regexp.MustCompile(`\b[1-9]\d{6}\b`)

// ownRun is one play of a scenario.
type ownRun struct {
	t       *testing.T
	s       *sluice
	params  map[string]string // of the clients' startups
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
			r.clients[step.client], _ = startRaw(r.t, r.s.addr, r.params)
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
		oneIn := oneIn
		if oneIn > 1 {
			oneIn *= max(1, scenario.rare)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", ownSchema)
			p := ownPlay{t: t, pg: pg, scenario: &scenario, steps: stepsOf(scenario.steps), number: 1000000}
			l, r := p.start()
			p.want = r.play(p.steps)
			for i, got := range p.want {
				if strings.Contains(got, "E S=") && (scenario.errs == "" || !strings.Contains(p.steps[i].sql, scenario.errs)) {
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
					lied, failed := false, false
					t.Run(lie, func(t *testing.T) { // ends the servers of that lie
						p.t = t
						lied, failed = p.lies(form, lie)
					})
					switch {
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
	t        *testing.T
	pg       postgres
	scenario *ownScenario
	steps    []ownStep
	number   int
	want     []string // the answers where no lie is told
}

// resets has the tables as they are in front of a scenario.
func (p *ownPlay) resets() {
	p.pg.SQL(p.t, "postgres", "DROP TABLE IF EXISTS own_made; DELETE FROM own_other; INSERT INTO own_other VALUES (1); DELETE FROM many_rows; INSERT INTO many_rows SELECT generate_series(1, 3)")
	if p.scenario.alters {
		p.pg.SQL(p.t, "postgres", ownAltered)
	}
}

// start starts a Sluice behind a liar that tells no lie.
func (p *ownPlay) start() (*liar, *ownRun) {
	p.resets()
	l := startLiar(p.t, p.pg.addr)
	s := startSluice(p.t, p.pg, append(slices.Clone(p.scenario.opts), l.option)...)
	if p.scenario.begins != nil {
		p.scenario.begins(p.t, s)
	}
	return l, &ownRun{t: p.t, number: &p.number, s: s, params: p.scenario.params}
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
	if p.scenario.alters {
		errs := slices.DeleteFunc(slices.Clone(got), func(answer string) bool { return !strings.Contains(answer, "E S=") })
		for name := range strings.FieldsSeq(p.pg.SQL(p.t, "postgres", ownLeft)) {
			if !strings.Contains(strings.Join(errs, ""), name) {
				p.t.Errorf("%q, %s: %s is left, and no error names it\n%s", form, lie, name, strings.Join(got, ""))
			}
		}
	}
	p.resets()
	if later := r.play(p.steps); !slices.Equal(later, p.want) {
		p.t.Errorf("behind %q, %s, which was told as %q:\n%s\nwant %s", form, lie, told, strings.Join(later, ""), strings.Join(p.want, ""))
	}
	return true, failed
}
