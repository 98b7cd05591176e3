package dialogues

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// Sluice names the statements that it prepares.
	madeName = regexp.MustCompile(`(prepared statement )"sluice_\w*"`)
	bindName = regexp.MustCompile(`(bind message supplies .* prepared statement )"\w*"`)
	// Where a transaction was run again, its generated values are others.
	generated = regexp.MustCompile(`\b1\d{6}\b`)
	position  = regexp.MustCompile(` P=\d+`)
	// An error of a text that may have been planned by an old schema is looked into, and says why it was not.
	notRunAgain = regexp.MustCompile(`^(E S=ERROR C=42(?:P01|703) M=.*) D=Replay refused: [^.]*\. H=.*?( P=\d+)?$`)
	rowID       = regexp.MustCompile(`:\d+`)
)

// plain is an answer without what must differ.
func (w *world) plain(lines []string, f frame, loose bool) []string {
	var out []string
	for _, l := range lines {
		if w.dsql && strings.Contains(l, "M=skipping cleanup for portal") { // a row
			continue
		}
		if w.dsql && strings.HasPrefix(l, "N S=NOTICE ") && strings.HasSuffix(l, "skipping") { // client_min_messages has no effect
			continue
		}
		if w.dsql && len(f.parts) > 1 { // the stand-in runs the statements of a string one by one
			l = position.ReplaceAllString(l, "")
			if strings.Contains(l, "M=SET LOCAL can only be used in transaction blocks") || strings.Contains(l, "M=SET TRANSACTION can only be used in transaction blocks") {
				continue
			}
		}
		if w.dsql { // the stand-in runs the statements of a block in subtransactions
			l = strings.Replace(l, "cannot set transaction read-write mode inside a read-only transaction", "transaction read-write mode must be set before any query", 1)
		}
		if w.parts {
			if ofParts(l) {
				continue
			}
			l = partCursors.ReplaceAllString(position.ReplaceAllString(l, ""), "")
		}
		l = madeName.ReplaceAllString(l, `$1""`)
		l = bindName.ReplaceAllString(l, `$1""`)
		if w.dsql && loose { // a schema that could not be read again
			l = notRunAgain.ReplaceAllString(l, "$1$2")
		}
		if loose && strings.HasPrefix(l, "D ") {
			l = generated.ReplaceAllString(l, "key")
		}
		out = append(out, l)
	}
	return out
}

// leftover is what is in the tables, without generated keys where they may differ.
func leftover(text string, loose bool) string {
	if loose {
		return rowID.ReplaceAllString(text, "")
	}
	return text
}

// A difference is one of the rows of docs/compatibility.md that dialogues meet.
type difference struct {
	row  string // how its row begins
	rare bool   // it need not be met in every long run
	// refused is the error that a client gets where PostgreSQL would go on: the direct
	// run fails there too.
	refused *regexp.Regexp
	// is tells whether an answer differs in this way. lost: the client has lost a
	// transaction before.
	is func(got, want []string, lost bool) bool
}

var differences = []difference{
	{row: lostRow, rare: true, is: func(got, want []string, lost bool) bool {
		return lost && hasError(got, "25P02") && hasError(want, "")
	}},
	{row: "A message that deserves two errors |", rare: true, is: func(got, want []string, lost bool) bool {
		return hasError(got, "42P05") && (hasError(want, "42P01") || hasError(want, "42703")) || hasError(got, "25P02") && (hasError(want, "42601") || hasError(want, "22021")) || hasError(got, "25006") && hasError(want, "42P01") ||
			(hasError(got, "0A000") || hasError(got, "25P02") || hasError(got, "42P01")) && hasError(want, "08P01") || theirs.MatchString(strings.Join(got, " ")) && hasError(want, "25006")
	}},
	{row: "A Describe that fails behind its ParameterDescription", rare: true, is: func(got, want []string, _ bool) bool {
		return len(got) == 1 && len(want) == 2 && hasError(got, "57014") && got[0] == want[1] && strings.HasPrefix(want[0], "t ")
	}},
	{row: snapshotRow, rare: true},
	{row: "`ROLLBACK` of a failed block with an open portal", rare: true},
	{row: "`currval`, `lastval` |", refused: regexp.MustCompile(`C=55000 M=.* is not yet defined in this session`)},
	{row: "`COMMIT AND CHAIN`, `ROLLBACK AND CHAIN` |", rare: true, refused: regexp.MustCompile(`C=0A000 M=(unsupported transaction statement: AND CHAIN|AND CHAIN is not supported)`)},
	{row: "A transaction with DDL, where an early commit is not possible", rare: true, refused: regexp.MustCompile(`C=0A000 M=(the transaction drops what holds rows|the transaction cannot be committed in the middle of a pipeline|a transaction with SET LOCAL cannot be committed in parts|ddl and dml are not supported in the same|multiple ddl statements not supported)`)},
	{row: "`ALTER TABLE t ADD COLUMN c type NOT NULL DEFAULT constant` |", rare: true, refused: regexp.MustCompile(`C=0A000 M=ALTER TABLE (cannot be carried out (together with other statements|at a Flush in a transaction block)|ADD COLUMN with constraint not supported)`)},
	{row: "`SAVEPOINT`, `RELEASE` and `ROLLBACK TO` beside other statements", refused: regexp.MustCompile(`C=0A000 M=savepoint commands must not share a string`)},
	{row: "`SAVEPOINT` and `ROLLBACK TO` in a transaction that", rare: true, refused: regexp.MustCompile(`C=0A000 M=.*savepoint "\w+"`)},
	{row: "A prepared statement with constants", rare: true, refused: readAnew},
	{row: "A prepared statement on a backend where a function of any client ran", rare: true, refused: regexp.MustCompile(`C=26000 M=prepared statement "sluice_\w*" does not exist`)},
	{row: staleRow, rare: true, refused: regexp.MustCompile(`C=0A000 M=cached plan must not change result type`)},
	{row: unknownRow, rare: true},
	{row: setInsideRow, rare: true},
	{row: "Startup parameter `standard_conforming_strings=off`", refused: regexp.MustCompile(`C=0A000 M=standard_conforming_strings must be on`)},
	{row: "A statement that DSQL refuses for its form, in a READ ONLY", rare: true, refused: regexp.MustCompile(`C=25006 M=cannot execute ALTER TABLE in a read-only transaction`)},
	{row: "`RESET` of a setting that the startup gave, before other", rare: true, refused: regexp.MustCompile(`C=0A000 M=a RESET to a value of the client's startup`)},
	{row: "`SET TRANSACTION READ ONLY` or `READ WRITE` elsewhere", rare: true, refused: regexp.MustCompile(`C=0A000 M=setting configuration parameter "TRANSACTION" not supported`)},
	{row: "The same `set_config`, where Sluice does not know the value", rare: true, refused: regexp.MustCompile(`C=0A000 M=set_config\(\) cannot tell`)},
	{row: "`LOCK TABLE ... IN ACCESS SHARE MODE` of a table that does not exist, by the extended protocol", rare: true, refused: regexp.MustCompile(`C=42P01 M=relation "[^"]*" does not exist$`)}, // without a position
	{row: "`CLOSE ALL` while portals are open", rare: true, refused: regexp.MustCompile(`C=0A000 M=CLOSE ALL cannot close the portals`)},
	{row: "`DECLARE ... SCROLL` inside a transaction", rare: true, refused: regexp.MustCompile(`C=0A000 M=a cursor WITH HOLD that scrolls`)},
	{row: "`FETCH` and `MOVE` with 0, `FIRST`", rare: true, refused: regexp.MustCompile(`C=0A000 M=cursors go forward only`)},
	{row: "`COMMIT` in a multi-statement query, of a transaction with a cursor", rare: true, refused: regexp.MustCompile(`C=0A000 M=the COMMIT of a transaction with a cursor WITH HOLD`)},
	{row: "Cursor `WITH HOLD` in the binary format", rare: true, refused: regexp.MustCompile(`C=0A000 M=rows of this cursor cannot be had in the binary format`)},
	{row: "Statements about cursors beside other statements", rare: true, refused: regexp.MustCompile(`C=0A000 M=statements about cursors must not share a string`)},
	{row: "`FETCH` by the extended protocol: format of the rows", rare: true, refused: regexp.MustCompile(`C=0A000 M=this cursor can no longer be read in another format`)},
	{row: "Execute of `FETCH` with a limit on rows", rare: true, refused: regexp.MustCompile(`C=0A000 M=FETCH cannot be executed with a limit`)},
	{row: "`current_setting('name')` inside another query", rare: true, refused: regexp.MustCompile(`C=0A000 M=.*current_setting`)},
}

// readAnew is the refusal of a statement whose constants would be read by other settings.
var readAnew = regexp.MustCompile(`C=0A000 M=(cached plan must not change result type D=Settings by which its constants are read|cannot prepare a statement again under another client_encoding)`)

// lostRow begins the row of what is refused in a lost block.
const lostRow = "Any statement in a block whose backend was lost"

// staleRow begins the row of stale and renew.
const staleRow = "A prepared statement whose result columns"

// unknownRow begins the row of unknownSettings.
const unknownRow = "Settings made in a transaction whose outcome is unknown"

// unknownSettings tells whether a transaction whose outcome nobody knows has changed
// settings: of those Sluice says that they are as before, whatever became of the rest.
func (w *world) unknownSettings(d dialogue, sites []site, told tale) bool {
	for _, at := range sites {
		_, i := frameOf(d, told, at)
		if i < 0 || at.c.answers[at.n].code != "08007" {
			continue
		}
		for k := i; k >= 0; k-- { // back to where its transaction began
			o := told.outcomes[k]
			if o.c != at.c || o.skipped {
				continue
			}
			if k < i && o.to > 0 && o.c.answers[o.to-1].ready == 'I' {
				break
			}
			if changesSettings.MatchString(d.steps[k].String()) {
				w.met[unknownRow]++
				return true
			}
		}
	}
	return false
}

// setInside tells whether the client of a step has had a function set what PostgreSQL does not report, or reset
// its settings: the value lasts to the end of the transaction. So does a reported one where the next transaction was
// chained to it and has lost its backend.
func (w *world) setInside(d dialogue, told tale, step int) bool {
	set, chained, lost := false, false, told.struck || told.struckAt
	for i, o := range told.outcomes[:step+1] {
		text := d.steps[i].String()
		if lost = lost || d.steps[i].ends() > 0; o.c != told.outcomes[step].c {
			continue
		}
		set = set || setsReported.MatchString(text)
		chained = chained || set && strings.Contains(text, "AND CHAIN")
		if setsInside.MatchString(text) || chained && lost {
			w.met[setInsideRow]++
			return true
		}
	}
	return false
}

var setsReported = regexp.MustCompile(`\b[gq]_[abc]\('`)

var setsInside = regexp.MustCompile(`\bg_[abc]\('(extra_float_digits|enable_seqscan|search_path)'|\bq_[abc]\('(RESET ALL|SET (enable_seqscan|search_path))`)

// setInsideRow begins the row of setInside.
const setInsideRow = "Setting that a function's body sets for the session"

var changesSettings = regexp.MustCompile(`\b(SET|RESET|DISCARD ALL|[gl]_[abc]|(?i:set_config))\b`)

// refusal tells whether an answer is a refusal that docs/compatibility.md has.
func (w *world) refusal(lines ...string) bool {
	for _, l := range lines {
		if !strings.HasPrefix(l, "E ") {
			continue
		}
		for _, d := range differences {
			if d.refused != nil && d.refused.MatchString(l) {
				w.met[d.row]++
				return true
			}
		}
	}
	return false
}

// ranOut tells whether an answer is the timeout of a client's statements on DSQL, where
// Sluice keeps the time: what it knows of them then is less than PostgreSQL does. The
// client has set one, in this step or before it: on a busy machine anything takes long.
func (w *world) ranOut(d dialogue, told tale, step int, a *answer) bool {
	if !w.dsql || !slices.ContainsFunc(a.lines, func(l string) bool {
		return strings.Contains(l, "C=57014 M=canceling statement due to statement timeout")
	}) {
		return false
	}
	for i, o := range told.outcomes[:step+1] {
		if o.c == told.outcomes[step].c && slices.ContainsFunc(d.steps[i].frames, func(f frame) bool { return strings.Contains(f.sql(), "'120ms'") }) {
			w.met[ranOutRow]++
			return true
		}
	}
	return false
}

// unhurried is what frames are directly where Sluice keeps the time: what was not ended
// by it there is not to be ended here.
func (w *world) unhurried(frames []frame) []frame {
	if !w.dsql {
		return frames
	}
	frames = slices.Clone(frames)
	for i := range frames {
		f := &frames[i]
		f.parts = slices.Clone(f.parts)
		for k := range f.parts {
			f.parts[k] = strings.ReplaceAll(f.parts[k], "pg_sleep(0.35)", "pg_sleep(0)")
		}
	}
	return frames
}

// ranOutRow begins the row of ranOut.
const ranOutRow = "`statement_timeout` |"

// snapshotRow begins the row of earlySnapshot.
const snapshotRow = "`BEGIN ISOLATION LEVEL ...` and `SET TRANSACTION ISOLATION LEVEL ...`"

// earlySnapshot tells whether only PostgreSQL has refused to set a level, behind what
// Sluice answers: from there on the two are in other transactions.
func earlySnapshot(got, want []string) bool {
	return !hasError(got, "") && slices.ContainsFunc(want, func(l string) bool {
		return strings.Contains(l, "C=25001 M=SET TRANSACTION ISOLATION LEVEL must be called")
	})
}

// hasError tells whether an answer is an error, of that SQLSTATE if one is given.
func hasError(lines []string, code string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "E ") && strings.Contains(l, "C="+code) })
}

// tolerated tells whether an answer differs as docs/compatibility.md says it may. sites
// are where transactions were lost.
func (w *world) tolerated(got, want []string, sites []site, c *client) bool {
	lost := slices.ContainsFunc(sites, func(at site) bool { return at.c == c })
	for _, d := range differences {
		if d.is != nil && d.is(got, want, lost) {
			w.met[d.row]++
			return true
		}
	}
	return false
}

// page is one page of docs/compatibility.md, or that page itself.
type page struct{ name, text string }

// pages reads all pages that list differences.
func pages(t *testing.T) []page {
	t.Helper()
	files, err := filepath.Glob("../../docs/compatibility/*.md")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../../docs/compatibility.md")
	var all []page
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page{filepath.Base(file), string(text)})
	}
	return all
}

// TestDifferencesAreListed compares the list here with the one that people read.
func TestDifferencesAreListed(t *testing.T) {
	listed := pages(t)
	for _, d := range append(differences, difference{row: ranOutRow}) {
		n := 0
		for _, p := range listed {
			n += strings.Count(p.text, "\n| "+d.row)
		}
		if n != 1 {
			t.Errorf("docs/compatibility has %d rows that begin with %q, want 1", n, d.row)
		}
	}
}

// TestRowsOfDifferences compares the form of the pages: the index links each, a row has four cells, says once what it
// is about, and ends with a SQLSTATE or with words that stand for one.
func TestRowsOfDifferences(t *testing.T) {
	index, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, p := range pages(t) {
		if p.name == "compatibility.md" {
			continue
		}
		if !strings.Contains(string(index), "(compatibility/"+p.name+")") {
			t.Errorf("docs/compatibility.md does not link %s", p.name)
		}
		if len(p.text) > mostOfPage {
			t.Errorf("%s has %d bytes, want %d at most", p.name, len(p.text), mostOfPage)
		}
		for line := range strings.Lines(p.text) {
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| What |") {
				continue
			}
			cells := strings.Split(strings.TrimSpace(strings.ReplaceAll(line, `\|`, "")), " | ")
			if len(cells) != 4 {
				t.Errorf("%s: %d cells, want 4: %s", p.name, len(cells), line)
				continue
			}
			if at := seen[cells[0]]; at != "" && !strings.HasPrefix(cells[0], "| The same") {
				t.Errorf("%s and %s have one row: %s", at, p.name, cells[0])
			}
			seen[cells[0]] = p.name
			if !stateCell.MatchString(cells[3]) {
				t.Errorf("%s: no SQLSTATE: %s", p.name, cells[3])
			}
		}
	}
}

// mostOfPage is how many bytes a page may have, so that somebody reads it.
const mostOfPage = 12_000

// stateCell is the last cell of a row.
var stateCell = regexp.MustCompile(`^((none|as PostgreSQL|as the error|PostgreSQL [0-9A-Z]{5}|[0-9A-Z]{5})(, |; )?)+ \|$`)
