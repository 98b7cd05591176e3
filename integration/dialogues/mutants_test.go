package dialogues

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/harness"
)

var (
	mutantsFlag = flag.String("dialogues.mutants", "quick", "which mutants: quick, all, or a part of the file's name")
	exploreFlag = flag.Bool("dialogues.explore", false, "try whether dialogues notice all mutants, and run no other test")
	depthFlag   = flag.Int("dialogues.depth", 1500, "how many dialogues of a route may pass before they do not notice a mutant")
)

// A mutant is the source with one fix taken out: a file of mutants/ says which texts
// are replaced, and who must notice.
//
//	# one line: what is taken out
//	# expect: dialogues              and, or: TestName in ./package
//	# why: ...                       where dialogues are not expected to: what keeps them from it
//	# route: dsql                    where dialogues are to notice it; none: anywhere
//	# theme: settings                only dialogues with this theme are played; none: all of the seed
//	== proxy/settings.go
//	--
//	old text, once in that file
//	++
//	new text
type mutant struct {
	name, about string
	dialogues   bool   // must differ
	test, dir   string // the test that must fail
	route       string
	theme, why  string
	changes     []harness.SourceChange
}

// quickMutants run in every test, the others by make mutants.
var quickMutants = []string{"15-savepoint-settings"}

func readMutant(file string) (m mutant, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return m, err
	}
	m.name = strings.TrimSuffix(filepath.Base(file), ".txt")
	var source string
	var part *[]string
	var old, replacement []string
	end := func() {
		if part != nil {
			m.changes = append(m.changes, harness.SourceChange{File: source, Old: strings.Join(old, "\n"), New: strings.Join(replacement, "\n")})
		}
		old, replacement, part = nil, nil, nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "== "):
			end()
			source = strings.TrimSpace(line[3:])
		case line == "--":
			end()
			part = &old
		case line == "++" && part == &old:
			part = &replacement
		case part != nil:
			*part = append(*part, line)
		case strings.HasPrefix(line, "# expect:"):
			what := strings.TrimSpace(line[len("# expect:"):])
			if test, dir, ok := strings.Cut(what, " in "); ok {
				m.test, m.dir = test, dir
			} else if m.dialogues = what == "dialogues"; !m.dialogues {
				return m, fmt.Errorf("%s expects %q: want dialogues, or TestName in ./package", file, what)
			}
		case strings.HasPrefix(line, "# route:"):
			m.route = strings.TrimSpace(line[len("# route:"):])
		case strings.HasPrefix(line, "# theme:"):
			m.theme = strings.TrimSpace(line[len("# theme:"):])
		case strings.HasPrefix(line, "# why:"):
			m.why = strings.TrimSpace(line[len("# why:"):])
		case strings.HasPrefix(line, "#") && m.about == "":
			m.about = strings.TrimSpace(line[1:])
		}
	}
	end()
	if !m.dialogues && m.test == "" || len(m.changes) == 0 {
		return m, fmt.Errorf("%s: want a line \"# expect:\" and at least one change", file)
	}
	if m.test != "" && !hasTest(m.dir, m.test) {
		return m, fmt.Errorf("%s: %s has no %s", file, m.dir, m.test)
	}
	if !m.dialogues && m.why == "" {
		return m, fmt.Errorf("%s: want \"# expect: dialogues\", or a line \"# why:\" that says what keeps them from noticing", file)
	}
	if m.theme != "" && m.theme != questionsTheme && !slices.ContainsFunc(themes, func(t theme) bool { return t.name == m.theme }) {
		return m, fmt.Errorf("%s: no theme is called %q", file, m.theme)
	}
	return m, nil
}

// hasTest reports whether a package, by its directory below the module's root, has a test.
func hasTest(dir, name string) bool {
	files, _ := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "func "+name+"(t ")
	})
}

// TestMutants finds that each fix that is taken out is noticed.
func TestMutants(t *testing.T) {
	files, err := filepath.Glob("mutants/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	var table []string
	for _, file := range files {
		m, err := readMutant(file)
		if err != nil {
			t.Error(err)
			continue
		}
		overlay, err := harness.WriteOverlay(t.TempDir(), m.changes...)
		if err != nil { // every one of them, in every test: the source has moved on
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if !m.chosen() {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			by, err := m.noticed(t, overlay)
			if err != nil {
				t.Error(err)
				by = "NOT NOTICED"
			}
			table = append(table, fmt.Sprintf("%-50s %s", m.name, by))
		})
	}
	t.Logf("%d mutants:\n%s", len(table), strings.Join(table, "\n"))
}

func (m mutant) chosen() bool {
	switch *mutantsFlag {
	case "all":
		return true
	case "quick":
		return slices.Contains(quickMutants, m.name)
	}
	return strings.Contains(m.name, *mutantsFlag)
}

// noticed says who notices the mutant; everybody who must has to.
func (m mutant) noticed(t *testing.T, overlay string) (string, error) {
	var by []string
	if m.dialogues || *exploreFlag {
		found, err := m.differs(t, overlay)
		if err != nil {
			return "", err
		}
		if found != "" {
			by = append(by, found)
		} else if m.dialogues {
			return "", fmt.Errorf("%d dialogues of each route do not notice: %s", *depthFlag, m.about)
		}
	}
	if m.test != "" && !*exploreFlag {
		if err := m.fails(overlay); err != nil {
			return "", err
		}
		by = append(by, m.test+" in "+m.dir)
	}
	return strings.Join(by, "; "), nil
}

// differs says where and after how many dialogues the mutant differs from PostgreSQL.
func (m mutant) differs(t *testing.T, overlay string) (by string, err error) {
	bin, err := harness.BuildWithOverlay(t.TempDir(), overlay)
	if err != nil {
		return "", err
	}
	for _, r := range routes {
		if by != "" || m.route != "" && m.route != r.name {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, r, bin)
			played := 0
			for n := range *depthFlag {
				d, met := draw(*seedFlag, n, r)
				if m.theme != "" && met["theme "+m.theme] == 0 {
					continue
				}
				played++
				if diff, _, err := w.check(d); err != nil || diff != "" && !ignored(diff) {
					by = fmt.Sprintf("dialogue %d of seed %d on route %s, after %d were played", n, *seedFlag, r.name, played)
					t.Logf("%s: %s %v", m.about, diff, err)
					return
				}
			}
		})
	}
	return by, nil
}

// fails runs the test that must fail. To hang is to fail, too. A test that plays a sample of its cases plays all of
// them before it counts as one that passes.
func (m mutant) fails(overlay string) error {
	err := m.failsWith(overlay, "")
	if err != nil {
		err = m.failsWith(overlay, "all")
	}
	return err
}

// failsWith runs the test with CASES set to cases.
func (m mutant) failsWith(overlay, cases string) error {
	cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-timeout=4m", "-overlay", overlay, "-run", "^"+m.test+"$", m.dir)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), harness.OverlayVariable+"="+overlay, "CASES="+cases)
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return fmt.Errorf("%s passes: %s\n%s", m.test, m.about, out)
	case !strings.Contains(string(out), "--- FAIL") && !strings.Contains(string(out), "panic: test timed out"):
		return fmt.Errorf("%s did not run: %w\n%s", m.test, err, out)
	}
	return nil
}
