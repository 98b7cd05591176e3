package dialogues

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The route parts has transactions with DDL committed in parts (ddl.in_transactions). Sluice sends its client a WARNING
// of each early commit, and the direct run commits there: what was committed without one is a difference in what is
// left.

// partsTheme is the theme that every dialogue of that route has.
const partsTheme = "ddl in parts"

func inParts(r route) bool { return r.parts }

// partsText is a statement of the theme.
func partsText(g *drawer) string {
	return pick(g, "CREATE TABLE IF NOT EXISTS x_{X} (n int)", "CREATE TABLE IF NOT EXISTS x_{X} (n int)", "CREATE TABLE x_{X} (n int, k int)", "DROP TABLE IF EXISTS x_{X}", "DROP TABLE x_{X}",
		"ALTER TABLE x_{X} RENAME COLUMN n TO m", "ALTER TABLE x_{X} RENAME COLUMN m TO n", "ALTER TABLE x_{X} ADD COLUMN k int", "ALTER TABLE x_{X} ADD COLUMN k int DEFAULT 7", "ALTER TABLE x_{X} DROP COLUMN k",
		"SELECT count(*) FROM x_{X}", "SELECT n FROM x_{X} ORDER BY n", "INSERT INTO x_{X} (n) VALUES ({N})", "INSERT INTO x_{X} (n) VALUES ({N}) RETURNING n", "UPDATE x_{X} SET n = n + 1000 WHERE n < 1000",
		"DELETE FROM x_{X}", "SET TimeZone TO 'Asia/Tokyo'", "SET LOCAL TimeZone TO 'Europe/Berlin'", "SELECT nosuch")
}

// partsScenes are scenes of the theme: blocks that multi-statement queries and pipelines begin or end.
var partsScenes = []scene{
	{theme: partsTheme, where: inParts, script: `
		{X} [Q CREATE TABLE IF NOT EXISTS x_{X} (n int)]
		{X} [Q <BEGIN; INSERT INTO t_{X} (n) VALUES ({N})~INSERT INTO t_{X} (n) VALUES ({N}); BEGIN~BEGIN; DROP TABLE x_{X}~BEGIN; SET LOCAL TimeZone TO 'Asia/Tokyo'~BEGIN READ ONLY; SELECT 1 AS one>]
		{X} [Q <ALTER TABLE x_{X} ADD COLUMN k int DEFAULT 7~CREATE TABLE IF NOT EXISTS x_{X} (n int)~ALTER TABLE x_{X} RENAME COLUMN n TO m~INSERT INTO x_{X} (n) VALUES ({M})>]
		{X} [Q <COMMIT~ROLLBACK~ROLLBACK>]`},
	{theme: partsTheme, where: inParts, script: `
		{X} [Q BEGIN]
		{X} [Q <CREATE TABLE IF NOT EXISTS x_{X} (n int)~INSERT INTO t_{X} (n) VALUES ({N})>]
		{X} [Q <COMMIT; BEGIN~ROLLBACK; BEGIN~COMMIT; BEGIN READ ONLY; SELECT 1 AS one~SELECT 1 AS one; COMMIT; BEGIN>]
		{X} [Q <INSERT INTO t_{X} (n) VALUES ({M})~CREATE TABLE x_{X} (n int)~DROP TABLE IF EXISTS x_{X}>]
		{X} [Q <SELECT 2 AS two~INSERT INTO x_{X} (n) VALUES (1)>]
		{X} [Q <COMMIT~ROLLBACK~ROLLBACK>]`},
	{theme: partsTheme, where: inParts, script: `
		{X} [P - | BEGIN] [B - | -] [E -] [P - | <CREATE TABLE IF NOT EXISTS x_{X} (n int)~INSERT INTO t_{X} (n) VALUES ({N})>] [B - | -] [E -] [S]
		{X} [P - | <INSERT INTO t_{X} (n) VALUES ({M})~ALTER TABLE x_{X} ADD COLUMN k int>] [B - | -] [E -] [S]
		{X} [P - | <COMMIT~ROLLBACK>] [B - | -] [E -] [P - | <SELECT 1 AS one~BEGIN~INSERT INTO t_{X} (n) VALUES (1)>] [B - | -] [E -] [S]
		{X} [Q <SELECT 2 AS two~DROP TABLE IF EXISTS x_{X}>]
		{X} [Q <COMMIT~ROLLBACK>]`},
	{theme: partsTheme, where: inParts, fault: `[{"at":"<commit~committing~committed>","action":"cut","skip":<0~1~2>}]`, script: `
		{X} [Q BEGIN]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N})]
		{X} [Q CREATE TABLE IF NOT EXISTS x_{X} (n int)]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({M})]
		{X} [Q COMMIT]`},
	{theme: partsTheme, where: inParts, fault: `[{"at":"commit","action":"fail","error":"<conflict~schema>","skip":<0~1~2>}]`, script: `
		{X} [Q <BEGIN~SELECT 1 AS one>; INSERT INTO t_{X} (n) VALUES ({N}); CREATE TABLE IF NOT EXISTS x_{X} (n int); INSERT INTO t_{X} (n) VALUES ({M})]
		{X} [Q COMMIT]`},
}

func init() {
	scenes = append(scenes, partsScenes...)
}

// partMessage is the WARNING of an early commit, and staysMessage that of what a ROLLBACK leaves.
const (
	partMessage  = "M=a part of the transaction is committed"
	staysMessage = "M=what was committed before stays"
)

// partCursors is the DETAIL and HINT of a cursor that has ended with a part of its transaction.
var partCursors = regexp.MustCompile(` D=A part of the transaction is committed \(ddl\.in_transactions\), and its cursors have ended with it\. H=[^;]*$`)

// ofParts reports whether a line of an answer is about parts that are committed.
func ofParts(line string) bool {
	return strings.HasPrefix(line, "N ") && (strings.Contains(line, partMessage) || strings.Contains(line, staysMessage))
}

// earlyCommits counts, for each early commit of which an answer has a WARNING, the statements that were answered before
// it.
func earlyCommits(lines []string) (behind []int) {
	done := 0
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l, "C "), strings.HasPrefix(l, "I "):
			done++
		case strings.HasPrefix(l, "N ") && strings.Contains(l, partMessage):
			behind = append(behind, done)
		}
	}
	return behind
}

var begins = regexp.MustCompile(`(?i)^\s*(BEGIN|START)\b`)

// pipelineBlock follows whether a client is in a block through the frames that no ReadyForQuery has answered.
type pipelineBlock struct {
	open         bool
	texts, bound map[string]string // by the name of the statement, of the portal
}

func (b *pipelineBlock) sends(f frame) {
	if b.texts == nil {
		b.texts, b.bound = map[string]string{}, map[string]string{}
	}
	switch f.verb {
	case 'P':
		b.texts[f.name] = f.sql()
	case 'B':
		b.bound[f.name] = b.texts[f.from]
	case 'E':
		if text := b.bound[f.name]; begins.MatchString(text) {
			b.open = true
		} else if endsBlock.MatchString(text) {
			b.open = strings.Contains(text, "AND CHAIN")
		}
	}
}

// A committed is a multi-statement query with the early commits in it.
type committed struct {
	parts []string
	own   []bool // of each that is not empty: an early commit
}

// withCommits puts early commits between statements. block: a block is open in front of them.
func withCommits(parts []string, behind []int, block bool) (all committed) {
	ran := 0
	commit := func() {
		for len(behind) > 0 && behind[0] == ran {
			behind = behind[1:]
			all.parts, all.own = append(all.parts, "COMMIT"), append(all.own, true)
			if block {
				all.parts, all.own = append(all.parts, "BEGIN"), append(all.own, true)
			}
		}
	}
	for _, part := range parts {
		commit()
		all.parts = append(all.parts, part)
		if strings.TrimSpace(part) == "" {
			continue
		}
		all.own = append(all.own, false)
		ran++
		switch {
		case begins.MatchString(part):
			block = true
		case endsBlock.MatchString(part):
			block = strings.Contains(part, "AND CHAIN")
		}
	}
	commit()
	return all
}

// strip takes the answers to the early commits out of the direct ones.
func (c committed) strip(lines []string) (out []string) {
	at, from := 0, 0
	for i, l := range lines {
		if !strings.HasPrefix(l, "C ") && !strings.HasPrefix(l, "I ") {
			continue
		}
		if at >= len(c.own) || !c.own[at] {
			out = append(out, lines[from:i+1]...)
		}
		at, from = at+1, i+1
	}
	return append(out, lines[from:]...)
}

// hidden sends frames whose answers nobody compares.
func (c *client) hidden(frames ...frame) error {
	n := len(c.answers)
	err := c.send(frames)
	c.answers = c.answers[:n]
	return err
}

// executed are the frames that run statements, in a pipeline.
func executed(texts ...string) (frames []frame) {
	for i, text := range texts {
		name := fmt.Sprintf("early%d", i)
		frames = append(frames, frame{verb: 'C', kind: 'S', name: name}, frame{verb: 'P', name: name, parts: []string{text}}, frame{verb: 'B', from: name}, frame{verb: 'E'})
	}
	return frames
}

// commitsEarly sends the early commits of which the answer to a frame of the extended protocol has WARNINGs, or to a
// later one of its statement.
func (c *client) commitsEarly(o outcome, frames []frame, k int) error {
	n := 0
	own := func(k int) int { return len(earlyCommits(o.c.answers[o.from+k].lines)) }
	switch f := frames[k]; f.verb {
	case 'Q':
		return nil
	case 'B':
		n = own(k)
		for later := k + 1; later < len(frames) && strings.IndexByte("DE", frames[later].verb) >= 0; later++ {
			n += own(later)
		}
	case 'P', 'S', 'C':
		n = own(k)
	}
	for range n {
		if err := c.hidden(executed("COMMIT", "BEGIN")...); err != nil {
			return err
		}
	}
	return nil
}

var declaresHeld = regexp.MustCompile(`DECLARE (\w+) .*WITH HOLD`)

// endHeld closes the cursors WITH HOLD that a block has declared, behind a ROLLBACK that leaves committed parts: the
// early commits of the direct run have them stay.
func (w *world) endHeld(d dialogue, told tale, i int, c *client) {
	o := told.outcomes[i]
	tells := func(o outcome, words string) bool {
		return slices.ContainsFunc(o.c.answers[o.from:o.to], func(a *answer) bool { return strings.Contains(a.text(), words) })
	}
	if !w.parts || c.status != 'I' || !tells(o, staysMessage) {
		return
	}
	for k := i; k >= 0; k-- { // back to where the block began
		of := told.outcomes[k]
		if of.c != o.c || of.skipped || of.to == 0 {
			continue
		}
		if k < i && o.c.answers[of.to-1].ready == 'I' {
			break
		}
		for _, f := range d.steps[k].frames {
			if m := declaresHeld.FindStringSubmatch(f.sql()); m != nil && tells(of, "C DECLARE CURSOR") {
				n := len(c.answers)
				c.send([]frame{{verb: 'Q', parts: []string{"CLOSE " + m[1]}}})
				c.read()
				c.answers = c.answers[:n]
			}
		}
	}
}

// theirs is the server's refusal of DDL beside something else, in a request that Sluice sends as it is.
var theirs = regexp.MustCompile(`M=(ddl and dml are not supported in the same|multiple ddl statements not supported)`)

// alone reports whether step i is one request: behind other frames of a pipeline no transaction is committed in parts.
func alone(told tale, i int) bool {
	o := told.outcomes[i]
	return o.to-o.from == 1 && (o.from == 0 || o.c.answers[o.from-1].ready != 0)
}

var changesSchema = regexp.MustCompile(`\b(CREATE|ALTER|DROP) `)

// ddlBehind reports whether anybody may have changed the schema before the end of step i: the session at the server
// that meets it knows an older one, also where the client has changed it on another.
func ddlBehind(d dialogue, told tale, i int) bool {
	for k, s := range d.steps[:i] {
		if !told.outcomes[k].skipped && changesSchema.MatchString(s.String()) {
			return true
		}
	}
	return false
}

// leftInParts is what a dialogue of the route leaves in tables of its own, whatever columns they have.
const leftInParts = `SELECT string_agg(c.oid::regclass || ' ' || (SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
	|| ' ' || query_to_xml('SELECT r::text AS r FROM ' || c.oid::regclass || ' r ORDER BY 1', true, true, '')::text, ' ' ORDER BY c.oid::regclass::text)
	FROM pg_class c WHERE relname IN ('x_a', 'x_b', 'x_c')`

// cleanOfParts drops these tables.
const cleanOfParts = "DROP TABLE IF EXISTS s1.x_a, s1.x_b, s1.x_c, s2.x_a, s2.x_b, s2.x_c, postgres.x_a, postgres.x_b, postgres.x_c;"

// leaves is what a dialogue has left in the tables of a database.
func (w *world) leaves(x *target) (string, error) {
	text, err := x.sql(left)
	if err != nil || !w.parts {
		return text, err
	}
	own, err := x.sql(leftInParts)
	return text + " and " + own, err
}

// Early commits stand where their WARNINGs were sent, and their answers are taken out again.
func TestEarlyCommits(t *testing.T) {
	t.Parallel()
	warning := "N S=WARNING C=01000 " + partMessage + ", since"
	behind := earlyCommits([]string{warning, "C CREATE TABLE", "D 1", "C INSERT 0 1", warning, "Z T"})
	if !slices.Equal(behind, []int{0, 2}) {
		t.Fatal(behind)
	}
	got := withCommits([]string{"CREATE TABLE a ()", "", "INSERT 1", "ROLLBACK"}, behind, true)
	if want := []string{"COMMIT", "BEGIN", "CREATE TABLE a ()", "", "INSERT 1", "COMMIT", "BEGIN", "ROLLBACK"}; !slices.Equal(got.parts, want) {
		t.Errorf("%q", got.parts)
	}
	if lines := got.strip([]string{"C COMMIT", "C BEGIN", "C CREATE TABLE", "D 1", "C INSERT 0 1", "C COMMIT", "C BEGIN", "C ROLLBACK", "Z I"}); !slices.Equal(lines, []string{"C CREATE TABLE", "D 1", "C INSERT 0 1", "C ROLLBACK", "Z I"}) {
		t.Errorf("%q", lines)
	}
	if got := withCommits([]string{"BEGIN", "COMMIT", "a"}, []int{0, 1, 2}, false); strings.Join(got.parts, ";") != "COMMIT;BEGIN;COMMIT;BEGIN;COMMIT;COMMIT;a" {
		t.Errorf("%q", got.parts)
	}
}
