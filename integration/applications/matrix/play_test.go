package matrix

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Sizes of the long steps are those of the table, in the short form, too: what is refused depends on
// them.
const (
	bulkRows   = 5000
	streamRows = 10000
	writers    = 16
)

// playLimit is how long one phase of an application may take. They take seconds.
const playLimit = 3 * time.Minute

// answer is what a step said.
type answer struct {
	ok        bool
	values    string // of a step that succeeded
	code      string
	message   string
	statement string // that was refused, as the recorder knows it
	needs     string // the step that failed before it
	took      time.Duration
	refused   []refusal // all, those that the application expected included
}

// String is the answer as a log shows it.
func (a answer) String() string {
	switch {
	case a.ok:
		return "ok " + a.values
	case a.needs != "":
		return "needs " + a.needs
	default:
		return fmt.Sprintf("%s %s <- %s", a.code, a.message, shape(a.statement))
	}
}

// play goes through one phase of a tool, and adds what its steps said to answers.
func (t *tool) play(tb testing.TB, p phase, via *recorder, url string, answers map[string]answer) (version string) {
	tb.Helper()
	if !slices.ContainsFunc(features, func(f feature) bool { return f.phase == p && t.has(f) }) {
		return ""
	}
	ctx, cancel := context.WithTimeout(tb.Context(), playLimit)
	defer cancel()
	transactions := 4
	if *full {
		transactions = 40
	}
	command := append(t.program(tb), string(p), url, strconv.Itoa(bulkRows), strconv.Itoa(streamRows), strconv.Itoa(writers), strconv.Itoa(transactions))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	helpers, err := filepath.Abs("python/lib")
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Env = append(environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+helpers, "PYTHONWARNINGS=ignore")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	via.take()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if v, ok := strings.CutPrefix(line, "tool "); ok {
			version = v
		} else if name, a, ok := parse(line); ok {
			a.took, began = time.Since(began), time.Now()
			answers[name] = a.explained(via.take())
		} else {
			tb.Errorf("%s %s: no line of an application: %q", t.name, p, line)
		}
	}
	if err := cmd.Wait(); err != nil {
		tb.Errorf("%s %s: %v\n%s", t.name, p, err, errs.String())
	}
	t.complete(p, answers)
	if errs.Len() > 0 && tb.Failed() {
		tb.Logf("%s %s:\n%s", t.name, p, errs.String())
	}
	return version
}

// environ is the caller's environment without what steers PostgreSQL's clients or the interpreters.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "PG") || strings.HasPrefix(pair, "PYTHON") || strings.HasPrefix(pair, "RUBY") || strings.HasPrefix(pair, "NODE_") || strings.HasPrefix(pair, "DJANGO") || strings.HasPrefix(pair, "DATABASE_URL=")
	})
}

// parse reads a line of a step.
func parse(line string) (name string, a answer, ok bool) {
	rest, found := strings.CutPrefix(line, "step ")
	name, said, cut := strings.Cut(rest, ": ")
	if !found || !cut || !slices.ContainsFunc(features, func(f feature) bool { return f.name == name }) {
		return "", answer{}, false
	}
	if values, ok := strings.CutPrefix(said, "ok "); ok || said == "ok" {
		return name, answer{ok: true, values: values}, true
	}
	failure, ok := strings.CutPrefix(said, "error ")
	code, message, _ := strings.Cut(failure, " ")
	return name, answer{code: code, message: message}, ok
}

// explained is the answer with the statement that was refused. Applications expect some errors, and
// some errors follow from others: the first counts that PostgreSQL has no reason for in any step, or
// else the first that the application was told.
func (a answer) explained(refused []refusal) answer {
	if a.ok {
		return a
	}
	a.refused = refused
	at := slices.IndexFunc(refused, func(r refusal) bool { return slices.Contains(foreign, r.code) })
	if at < 0 {
		at = slices.IndexFunc(refused, func(r refusal) bool { return r.code == a.code })
	}
	if at >= 0 {
		a.code, a.message, a.statement = refused[at].code, refused[at].message, refused[at].statement
	}
	return a
}

// foreign are SQLSTATEs that no step gets of PostgreSQL: of what a cluster lacks, of conflicts, and of limits.
var foreign = []string{"0A000", "40001", "54000"}

// complete adds what no line told of: steps behind one that failed.
func (t *tool) complete(p phase, answers map[string]answer) {
	failed := ""
	for _, f := range features {
		if f.phase != p || !t.has(f) {
			continue
		}
		a, told := answers[f.name]
		needs := f.needs
		if p != use {
			needs = failed
		}
		if needs != "" && !answers[needs].ok && t.has(featureNamed(needs)) {
			answers[f.name] = answer{needs: needs}
		} else if !told {
			answers[f.name] = answer{code: "-", message: "no word of this step"}
		}
		if !a.ok && failed == "" {
			failed = f.name
		}
	}
}

func featureNamed(name string) feature {
	for _, f := range features {
		if f.name == name {
			return f
		}
	}
	return feature{}
}

// Names that tools make up differ from run to run.
var madeUp = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]*|[0-9a-f]{12,}|[0-9]{5,}`)

// shape is a statement, or a message, as the table shows it.
func shape(statement string) string {
	text := madeUp.ReplaceAllString(strings.Join(strings.Fields(statement), " "), "N")
	if runes := []rune(text); len(runes) > 160 {
		text = string(runes[:160]) + " …"
	}
	return text
}
