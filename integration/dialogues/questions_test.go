package dialogues

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/asked"
)

// Faults at the questions that Sluice asks by itself. A dialogue with one is drawn as any other, and then given
// steps that make Sluice ask: both by a source of their own, so that the other dialogues stay what they are.

// questionsTheme is what the theme of such a dialogue is called.
const questionsTheme = "questions"

// inQuestions is one dialogue in how many has such a fault.
const inQuestions = 8

// questions are those that Sluice asks for the clients of dialogues.
func questions(r route) (all []string) {
	all = []string{"purity", "purity", "settings", "sequences discarded"}
	if r.replays {
		all = append(all, "groups")
	}
	if !r.dsql {
		return append(all, "functions that leave something", "functions that leave something", "what functions have left", "what functions have left", "numbers of the session's own")
	}
	return append(all, "schema", "schema")
}

// askedOnce are questions that a Sluice hardly ever asks again: it is started again for a fault at them.
var askedOnce = map[string]bool{"groups": true, "purity": true, "functions that leave something": true}

// prompts are steps that make Sluice ask.
var prompts = []scene{
	{script: `
		{X} [Q CREATE TABLE IF NOT EXISTS x_{X} (n int)]
		{X} [Q SELECT count(*) FROM x_{X}]
		{X} [Q DROP TABLE IF EXISTS x_{X}]`, where: onPostgres},
	{script: `
		{X} [Q CREATE OR REPLACE VIEW y_{X} AS SELECT <1~2> AS n]
		{X} [Q SELECT n FROM t_{X} ORDER BY n]
		{X} [Q DROP VIEW IF EXISTS y_{X}]`},
	{script: `
		x sql ALTER TABLE d1 <ADD COLUMN IF NOT EXISTS c int~DROP COLUMN IF EXISTS c>
		{X} [P - | SELECT * FROM d1] [B - | -] [D P -] [E -] [S]
		{X} [Q SELECT 7 AS seven]`},
	{script: `
		{X} [Q <SET TimeZone TO 'Asia/Tokyo'~SET DateStyle TO 'SQL, DMY'~SET search_path TO s1>]
		{Y} [Q {look}]
		{X} [Q {look}]`},
	{script: `
		{X} [Q SELECT nextval('s_{X}') > 0 AS yes]
		{Y} [Q SELECT <lastval()~currval('s_{X}')>]
		{X} [Q BEGIN]
		{X} [Q SELECT nextval('s_{X}') > 0 AS yes]
		{X} [Q SELECT <lastval()~currval('s_{X}')> > 0 AS yes]
		{X} [Q COMMIT]`},
	{where: onPostgres, script: `
		{X} [Q SELECT q_{X}('<CREATE TEMP TABLE IF NOT EXISTS tmp (n int)~PREPARE p2 AS SELECT 6 AS six>') AS q]
		{Y} [Q {look}]
		{Z} connect
		{Z} [Q {look}]
		{X} [Q {look}]`},
	{where: onPostgres, script: `
		{X} [Q SELECT q_{X}('SET <enable_seqscan TO off~TimeZone TO ''Asia/Tokyo''~search_path TO s2>') AS q]
		{X} <connect~quit>
		{Y} [Q {look}]
		{Z} [Q {look}]`},
	{script: `
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N})] [B - | -] [E -] [P - | SELECT count(*) FROM t_{X}] [B - | -] [E -] [S]
		{Y} [Q SELECT count(*) FROM t_{X}]`},
	{script: `
		x replace
		{X} [Q SELECT n FROM t_{X} ORDER BY n]
		{Y} [P - | SELECT $1::int AS p] [B - | - | 5] [D P -] [E -] [S]`},
	// A Describe that its time ends: the name is not there, or is what it was. Without a name, or with the Describe of
	// another, the Parse may be answered from memory, without a look at the table.
	{where: onPostgres, script: `
		{Y} [Q BEGIN; LOCK TABLE u_{X} IN ACCESS EXCLUSIVE MODE]
		{X} [Q SET statement_timeout = '300ms']
		{X} [P e1 | SELECT n FROM u_{X}] [D S e1] [S]
		{X} [Q RESET statement_timeout]
		{Y} [Q ROLLBACK]
		{X} [P e1 | SELECT n FROM u_{X}] [D S e1] [B - | e1] [D P -] [E -] [S]
		{X} [C S e1] [S]`},
	{where: onPostgres, script: `
		{X} [P e2 | SELECT n FROM u_{X}] [S]
		{Y} [Q BEGIN; LOCK TABLE u_{X} IN ACCESS EXCLUSIVE MODE]
		{X} [Q SET statement_timeout = '300ms']
		{X} <[D S e2] [S]~[B - | e2] [D P -] [E -] [S]~[D S e2] [H]>
		{X} [S]
		{X} [Q RESET statement_timeout]
		{Y} [Q ROLLBACK]
		{X} [D S e2] [B - | e2] [D P -] [E -] [S]
		{X} [C S e2] [S]`},
}

// plantQuestions is a dialogue of the seed with a fault at one of Sluice's questions, or as it was.
func plantQuestions(d dialogue, seed uint64, n int, r route, classes map[string]int) dialogue {
	g := &drawer{route: r, Rand: rand.New(rand.NewPCG(seed, uint64(n)|1<<48)), classes: classes}
	if !g.one(inQuestions) {
		return d
	}
	g.count("theme " + questionsTheme)
	at, what := "statement", `"action":"cut"`
	switch g.IntN(8) {
	case 0, 1, 2:
		what = fmt.Sprintf(`"action":"fail","error":%q`, pick(g, "conflict", "conflict", "schema", "timeout", "refused"))
	case 3:
		at = "answered"
	case 4:
		what = `"action":"fail","error":"timeout"`
	case 5:
		what = `"action":"stall","seconds":0.3`
		if g.one(10) {
			what = `"action":"stall","seconds":5.6` // more than Sluice waits
		}
	}
	question := pick(g, questions(r)...)
	f := fmt.Sprintf(`{"question":%q,"at":%q,%s,"skip":%d,"count":%d}`, question, at, what, g.IntN(3)/2, pick(g, 1, 2, 3, 6))
	g.count("fault at " + question)
	if d.fault == "" {
		d.fault = "[" + f + "]"
	} else {
		d.fault = strings.TrimSuffix(d.fault, "]") + "," + f + "]"
	}
	before := epilogueOf(d.steps)
	for i := range 1 + g.IntN(3) {
		d.steps, before = g.insert(d.steps, before, 7000+2*i, question == "settings" && strings.Contains(what, "fail"))
	}
	return d
}

// epilogueOf is where the epilogue of a dialogue begins.
func epilogueOf(steps []step) int {
	return slices.IndexFunc(steps, func(s step) bool { return s.op == "end" }) - 3
}

// suits reports whether steps that make Sluice ask fit into a dialogue: where functions deallocate what a backend has,
// behind Sluice alone, no function prepares anything.
func (g *drawer) suits(s scene, steps []step) bool {
	return (s.where == nil || s.where(g.route)) && !(strings.Contains(s.script, "PREPARE") && slices.ContainsFunc(steps, func(s step) bool { return strings.Contains(s.String(), " z_") }))
}

// insert puts steps that make Sluice ask somewhere into a dialogue, in front of the step with that number, and returns
// where: steps that only mean something together are not parted by others. A client whose settings may be refused
// gets no timeout, and so must not be made to wait for a lock.
func (g *drawer) insert(steps []step, before, number int, refused bool) (all []step, at int) {
	s := prompts[g.IntN(len(prompts))]
	for !g.suits(s, steps) || refused && strings.Contains(s.script, "LOCK TABLE") {
		s = prompts[g.IntN(len(prompts))]
	}
	for at < len(steps) && steps[at].op == "connect" {
		at++
	}
	at += g.IntN(max(1, before-at))
	x := pick(g, "a", "b")
	y := strings.Trim("ab", x)
	z := "c"
	if !slices.ContainsFunc(steps[:at], func(s step) bool { return s.who == z }) {
		z = y
	}
	text := alternatives.ReplaceAllStringFunc(s.script, func(all string) string { return pick(g, strings.Split(all[1:len(all)-1], "~")...) })
	text = strings.NewReplacer("{X}", x, "{Y}", y, "{Z}", z, "{N}", strconv.Itoa(number), "{M}", strconv.Itoa(number+1)).Replace(text)
	script := ""
	for _, who := range []string{x, y} {
		script += who + " [S]\n" + who + " [Q ROLLBACK]\n"
	}
	d, err := parseDialogue(script + text)
	if err != nil {
		panic(err)
	}
	return slices.Insert(slices.Clone(steps), at, d.steps...), at
}

// mayTell are the errors that a fault at a question may be to a client, by their SQLSTATEs: of all others it sees
// nothing (question.All). Where more backends are lost in a row than Sluice tries, the loss is one. A client of the
// dialogue that sends the text of a question itself has the fault at its own statement.
func (d dialogue) mayTell(f planned, dsql bool) (states []string) {
	lost := f.Action == "cut" || f.Action == "stall" && f.Seconds > 5
	if (lost || f.Action == "fail") && d.sends(f.Question) && (dsql || f.Question != "settings") { // the planter knows those of settings (clientsSet)
		return []string{cmp.Or(stateOf[f.Error], "08006")}
	}
	switch f.Question {
	case "numbers of the session's own":
		if lost {
			return []string{"08006"}
		}
		return []string{stateOf[f.Error]}
	case "schema":
		if lost && f.Count > 2 { // 40001: a return to a savepoint for which no attempt was made in time
			return []string{"08006", "53300", "40001"}
		}
		if f.Error == "timeout" || f.Error == "refused" {
			return []string{"53300"}
		}
	case "settings":
		if f.Error == "refused" || dsql && !lost { // there a client's own SET LOCAL looks like it
			return []string{stateOf[f.Error]}
		}
	}
	if lost && f.Count > 2 { // 53300: a client that connects meanwhile
		return []string{"08006", "53300"}
	}
	return nil
}

// outlasts reports whether a fault holds a question up for longer than a client's statement may take, where Sluice
// keeps the time of both.
func (f planned) outlasts(d dialogue) bool {
	return f.Action == "stall" && f.Seconds > 5 && strings.Contains(d.String(), "statement_timeout = ")
}

// sends reports whether a client sends the text of that question itself.
func (d dialogue) sends(question string) bool {
	return slices.ContainsFunc(d.steps, func(s step) bool {
		return slices.ContainsFunc(s.frames, func(f frame) bool {
			return slices.ContainsFunc(f.parts, func(sql string) bool { return asked.QuestionOf(sql) == question })
		})
	})
}

// budget is how many errors of which SQLSTATE the faults of a dialogue may be to its clients.
func (w *world) budget(d dialogue, told tale) map[string]int {
	most := map[string]int{}
	for _, f := range d.faults() {
		switch {
		case f.Question != "":
			for _, state := range d.mayTell(f, w.dsql) {
				switch {
				case !told.struckAt:
				case state == "53300" && f.Question == "schema" && f.Action == "fail": // each text that needs the answer, until the pause is over
					most[state] += len(told.outcomes)
				default:
					most[state] += max(1, f.Count)
				}
			}
		case !told.struck:
		case f.Action == "fail":
			most["40001"]++
		default:
			most["08006"]++
		}
	}
	return most
}

// tellsFault reports whether a fault at a question may be an error of that SQLSTATE to a client.
func (w *world) tellsFault(d dialogue, told tale, state string) bool {
	return state != "" && told.struckAt && slices.ContainsFunc(d.faults(), func(f planned) bool {
		return f.Question != "" && (slices.Contains(d.mayTell(f, w.dsql), state) || state == "57014" && w.dsql && f.outlasts(d))
	})
}

// stateIn is the SQLSTATE of an error as it is shown, or "".
func stateIn(shown string) string {
	_, rest, _ := strings.Cut(shown, " C=")
	state, _, _ := strings.Cut(rest, " ")
	return state
}
