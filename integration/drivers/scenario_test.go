package drivers

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenarioDir holds the scenarios that every driver plays.
const scenarioDir = "testdata/scenarios"

// scenario is one file of them; doc.go has the language.
type scenario struct {
	name  string
	needs []Feature
	steps []step
}

// step is one line.
type step struct {
	session string
	mark    string // "", "*", "&", or a verb: "!wait"
	sql     string
	args    []any
}

// loadScenarios reads all of them, in the order of their names.
func loadScenarios(t *testing.T) []scenario {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(scenarioDir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	var all []scenario
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sc, err := parseScenario(strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, sc)
	}
	return all
}

func parseScenario(name, text string) (scenario, error) {
	sc := scenario{name: name}
	for row := range strings.Lines(text) {
		row = strings.TrimSpace(row)
		if row == "" || row[0] == '#' {
			continue
		}
		if needs, ok := strings.CutPrefix(row, "needs "); ok {
			sc.needs = features(needs)
			continue
		}
		st, err := parseStep(row)
		if err != nil {
			return sc, fmt.Errorf("%s: %w", row, err)
		}
		sc.steps = append(sc.steps, st)
	}
	sc.steps = append(sc.steps, step{session: "a", sql: "ROLLBACK"}, step{session: "a", sql: alive})
	return sc, nil
}

// alive is every scenario's last statement.
const alive = "SELECT 'alive' AS state"

// parseStep reads "session[mark] [!verb] [SQL] [<- arguments]".
func parseStep(row string) (step, error) {
	row, args, _ := strings.Cut(row, " <- ")
	head, rest, _ := strings.Cut(row, " ")
	st := step{session: head[:1], mark: head[1:], sql: strings.TrimSpace(rest)}
	if strings.HasPrefix(st.sql, "!") {
		st.mark, st.sql, _ = strings.Cut(st.sql, " ")
	}
	if !slices.Contains([]string{"", "*", "&", "!cancel", "!wait", "!kill", "!until", "!notified", "!copyin", "!copyfail", "!copyout"}, st.mark) {
		return st, errors.New("no such step")
	}
	var err error
	st.args, err = parseArgs(args)
	return st, err
}

func parseArgs(text string) ([]any, error) {
	if text == "" {
		return nil, nil
	}
	var raw []any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&raw); err != nil {
		return nil, err
	}
	args := make([]any, len(raw))
	for i, v := range raw {
		var err error
		if args[i], err = argument(v); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// argument gives a JSON value the Go type that an application would pass.
func argument(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		return v.Float64()
	case []any:
		if slices.ContainsFunc(v, func(e any) bool { _, ok := e.(json.Number); return ok }) {
			return list[int64](v)
		}
		return list[string](v)
	case map[string]any:
		return object(v)
	}
	return v, nil // string, bool, nil
}

// list is a slice of T, in which NULL is nil.
func list[T any](v []any) ([]*T, error) {
	out := make([]*T, len(v))
	for i, e := range v {
		if e == nil {
			continue
		}
		e, err := argument(e)
		if err != nil {
			return nil, err
		}
		value, ok := e.(T)
		if !ok {
			return nil, fmt.Errorf("mixed array %v", v)
		}
		out[i] = &value
	}
	return out, nil
}

func object(v map[string]any) (any, error) {
	if text, ok := v["bytes"].(string); ok {
		return hex.DecodeString(text)
	}
	if text, ok := v["time"].(string); ok {
		return time.Parse(time.RFC3339Nano, text)
	}
	if of, ok := v["repeat"].([]any); ok && len(of) == 2 {
		n, err := of[1].(json.Number).Int64()
		return strings.Repeat(of[0].(string), int(n)), err
	}
	return nil, fmt.Errorf("unknown argument %v", v)
}

func TestScenarioLanguage(t *testing.T) {
	t.Parallel()
	sc, err := parseScenario("x", `
# a comment
needs temp copy
a   SELECT 1
a*  SELECT $1, '<' <- [1, "x", null, {"bytes": "00ff"}, [1, null]]
b&  SELECT pg_sleep(60)
b !cancel
b  !until SELECT true
c !copyin COPY {t} FROM STDIN <- ["1\tx\n"]
`)
	if err != nil {
		t.Fatal(err)
	}
	one := int64(1)
	want := []step{
		{"a", "", "SELECT 1", nil},
		{"a", "*", "SELECT $1, '<'", []any{one, "x", nil, []byte{0, 255}, []*int64{&one, nil}}},
		{"b", "&", "SELECT pg_sleep(60)", nil},
		{"b", "!cancel", "", nil},
		{"b", "!until", "SELECT true", nil},
		{"c", "!copyin", "COPY {t} FROM STDIN", []any{"1\tx\n"}},
		{"a", "", "ROLLBACK", nil},
		{"a", "", alive, nil},
	}
	if !slices.Equal(sc.needs, []Feature{Temp, Copy}) {
		t.Errorf("needs %v", sc.needs)
	}
	got, _ := json.Marshal(stepsForShow(sc.steps))
	shown, _ := json.Marshal(stepsForShow(want))
	if !bytes.Equal(got, shown) {
		t.Errorf("got  %s\nwant %s", got, shown)
	}
	for _, bad := range []string{"SELECT 1", "a !no SELECT 1", "a SELECT 1 <- [1", `a SELECT $1 <- [{"odd": 1}]`, "a SELECT $1 <- [[1, true]]"} {
		if sc, err := parseScenario("x", bad); err == nil {
			t.Errorf("%q was taken for %v", bad, sc.steps)
		}
	}
}

func stepsForShow(steps []step) [][]any {
	var out [][]any
	for _, s := range steps {
		out = append(out, []any{s.session, s.mark, s.sql, s.args})
	}
	return out
}

func features(names string) []Feature {
	var all []Feature
	for name := range strings.FieldsSeq(names) {
		all = append(all, Feature(name))
	}
	return all
}
