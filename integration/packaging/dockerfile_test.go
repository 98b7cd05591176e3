package packaging

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// instruction is one of a Dockerfile, with its continued lines as one.
type instruction struct{ word, rest string }

// stage is a stage of a build.
type stage struct {
	name, from string
	steps      []instruction
}

func (s *stage) last(word string) string {
	for _, step := range slices.Backward(s.steps) {
		if step.word == word {
			return step.rest
		}
	}
	return ""
}

func content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// dockerfile reads the Dockerfile: what stands before the first stage, and the stages.
func dockerfile(t *testing.T) (global []instruction, stages []*stage) {
	t.Helper()
	known := []string{"ARG", "FROM", "WORKDIR", "COPY", "RUN", "USER", "LABEL", "ENTRYPOINT", "CMD", "EXPOSE", "ENV"}
	text := strings.ReplaceAll(content(t, "Dockerfile"), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		step := instruction{word, strings.TrimSpace(rest)}
		if !slices.Contains(known, word) {
			t.Errorf("%s: not among the instructions that are used here: %v", line, known)
		}
		switch {
		case word == "FROM":
			f := slices.DeleteFunc(strings.Fields(rest), func(s string) bool { return strings.HasPrefix(s, "--platform=") })
			if len(f) != 3 || f[1] != "AS" {
				t.Fatalf("%s: want FROM image AS name", line)
			}
			stages = append(stages, &stage{name: f[2], from: f[0]})
		case len(stages) == 0:
			global = append(global, step)
		default:
			s := stages[len(stages)-1]
			s.steps = append(s.steps, step)
		}
	}
	return global, stages
}

func named(stages []*stage, name string) *stage {
	i := slices.IndexFunc(stages, func(s *stage) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return stages[i]
}

// The images that are shipped come from nothing, run nothing as they are built, belong
// to nobody's account, and say what they are.
func TestShippedImages(t *testing.T) {
	t.Parallel()
	_, stages := dockerfile(t)
	if stages[len(stages)-1].name != "sluice" {
		t.Errorf("the image that is built by default is %s", stages[len(stages)-1].name)
	}
	for _, name := range []string{"sluice", "dsqlsim"} {
		s := named(stages, name)
		if s == nil {
			t.Fatalf("no stage %s", name)
		}
		chain := []*stage{s}
		for chain[0].from != "scratch" {
			below := named(stages, chain[0].from)
			if below == nil {
				t.Fatalf("%s comes from %s", name, chain[0].from)
			}
			chain = append([]*stage{below}, chain...)
		}
		whole := &stage{}
		for _, s := range chain {
			whole.steps = append(whole.steps, s.steps...)
		}
		for _, step := range whole.steps {
			if step.word == "RUN" || step.word == "ENV" {
				t.Errorf("%s: %s %s", name, step.word, step.rest)
			}
		}
		if user := whole.last("USER"); user != "65532:65532" {
			t.Errorf("%s runs as %q: Kubernetes believes runAsNonRoot of a number only", name, user)
		}
		var entry []string
		if err := json.Unmarshal([]byte(whole.last("ENTRYPOINT")), &entry); err != nil || !slices.Equal(entry, []string{"/" + name}) {
			t.Errorf("%s: entry point %v (%v): want the program itself, there is no shell", name, entry, err)
		}
		for _, label := range []string{"title", "description", "licenses", "source", `version="${VERSION}"`, `revision="${REVISION}"`} {
			if !strings.Contains(whole.last("LABEL"), "org.opencontainers.image."+label) {
				t.Errorf("%s: no label %s", name, label)
			}
		}
		for _, file := range []string{"ca-certificates.crt", "LICENSE NOTICE THIRD_PARTY_LICENSES"} {
			if !slices.ContainsFunc(whole.steps, func(i instruction) bool { return i.word == "COPY" && strings.Contains(i.rest, file) }) {
				t.Errorf("%s lacks %s", name, file)
			}
		}
	}
}

var reference = regexp.MustCompile(`\$\{([A-Z_]+)`)

// Every variable is declared where it is used, and what is built on is one version.
func TestArguments(t *testing.T) {
	t.Parallel()
	global, stages := dockerfile(t)
	builtIn := []string{"BUILDPLATFORM"}
	base := ""
	for _, g := range global {
		if g.word == "ARG" && strings.HasPrefix(g.rest, "BUILD_IMAGE=") {
			base = strings.TrimPrefix(g.rest, "BUILD_IMAGE=")
			builtIn = append(builtIn, "BUILD_IMAGE")
		}
	}
	if !regexp.MustCompile(`^golang:1\.\d+-[a-z]+$`).MatchString(base) {
		t.Errorf("built on %q: want the official image of one Go and one Debian", base)
	}
	if !strings.Contains(content(t, "Makefile"), "BUILD_IMAGE ?= "+base+"\n") {
		t.Errorf("make builds on another image than %s", base)
	}
	for _, s := range stages {
		for _, m := range reference.FindAllStringSubmatch(s.from, -1) {
			if !slices.Contains(builtIn, m[1]) {
				t.Errorf("%s: FROM knows no %s", s.name, m[1])
			}
		}
		declared := map[string]bool{}
		for _, step := range s.steps {
			for _, m := range reference.FindAllStringSubmatch(step.rest, -1) {
				if used, ok := declared[m[1]]; !ok {
					t.Errorf("%s: %s is used and not declared", s.name, m[1])
				} else if !used {
					declared[m[1]] = true
				}
			}
			if step.word == "ARG" {
				name, _, _ := strings.Cut(step.rest, "=")
				declared[name] = false
			}
		}
		for name, used := range declared {
			if !used {
				t.Errorf("%s: %s is declared and not used", s.name, name)
			}
		}
	}
}

// ignored applies .dockerignore: the last pattern that fits a path, or a folder above
// it, decides.
func ignored(t *testing.T, name string) bool {
	t.Helper()
	out := false
	for line := range strings.Lines(content(t, ".dockerignore")) {
		pattern := strings.TrimSpace(line)
		if pattern == "" || pattern[0] == '#' {
			continue
		}
		pattern, negated := strings.CutPrefix(pattern, "!")
		for at := name; at != "."; at = path.Dir(at) {
			tail, anywhere := strings.CutPrefix(pattern, "**/")
			subject := at
			if anywhere {
				subject = path.Base(at)
			}
			if fits, err := path.Match(tail, subject); err != nil {
				t.Fatalf("%s: %v", pattern, err)
			} else if fits {
				out = !negated
				break
			}
		}
	}
	return out
}

// What the build of the programs reads is let into it, and secrets and the repository's
// history are not.
func TestBuildGetsWhatItNeeds(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps", "-f",
		`{{if .Module}}{{if .Module.Main}}{{range .GoFiles}}{{$.Dir}}/{{.}} {{end}}{{range .CgoFiles}}{{$.Dir}}/{{.}} {{end}}{{range .EmbedFiles}}{{$.Dir}}/{{.}} {{end}}{{end}}{{end}}`,
		"./cmd/sluice", "./cmd/dsqlsim")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"go.mod", "go.sum", "LICENSE", "NOTICE", "THIRD_PARTY_LICENSES", ".ci/build", ".ci/env", ".ci/cc", ".ci/install"}
	for _, file := range strings.Fields(string(out)) {
		rel, err := filepath.Rel(top, file)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, filepath.ToSlash(rel))
	}
	if len(files) < 100 {
		t.Fatalf("only %d files", len(files))
	}
	for _, file := range files {
		if ignored(t, file) {
			t.Errorf(".dockerignore keeps %s from the build, which needs it", file)
		}
	}
	for _, file := range []string{".git/config", "bin/sluice", "README.md", ".env", "integration/temporal/go.mod", "rewrite/guard_test.go",
		"integration/drivers/node/node_modules/pg/index.js", "integration/dsqlsim/testdata/probes.json"} {
		if !ignored(t, file) {
			t.Errorf(".dockerignore lets %s into the build", file)
		}
	}
}
