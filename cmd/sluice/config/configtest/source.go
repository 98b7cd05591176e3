package configtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Endpoint is an endpoint in the form of a real cluster's endpoint, at which no server answers.
const Endpoint = "abcdefghijklmnopqrstuvwxyz.dsql.us-east-1.on.aws"

// A Source is the configuration of one test, with its file, variables and flags.
type Source struct {
	File  string            // YAML; "" for no file
	Env   map[string]string // the DSQL_ variables; no others exist
	Flags []string
}

// Prepare writes the file and sets the variables of the source, and returns the arguments of config.Load and
// config.LoadWithProblems.
func (s Source) Prepare(t *testing.T) (path string, flags *pflag.FlagSet) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, config.EnvPrefix) {
			t.Setenv(name, "") // restores it after the test
			os.Unsetenv(name)
		}
	}
	for name, value := range s.Env {
		t.Setenv(name, value)
	}
	if s.File != "" {
		path = filepath.Join(t.TempDir(), "conf")
		if err := os.WriteFile(path, []byte(s.File), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags = pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Parse(s.Flags); err != nil {
		t.Fatal(err)
	}
	return path, flags
}

// MustLoad loads the configuration of a source, which must have no problems.
func (s Source) MustLoad(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Load(s.Prepare(t))
	if err != nil {
		t.Fatalf("problems:\n%v", err)
	}
	return c
}

// LoadProblems loads a wrong configuration and returns its problems, without the path of its file.
func (s Source) LoadProblems(t *testing.T) []string {
	t.Helper()
	path, flags := s.Prepare(t)
	_, err := config.Load(path, flags)
	bad, ok := errors.AsType[*config.Error](err)
	if !ok {
		t.Fatalf("load: %v, want a *config.Error", err)
	}
	var lines []string
	for _, line := range bad.Problems {
		lines = append(lines, RemovePath(line, path))
	}
	return lines
}

// RemovePath returns a text without the path of a test's file.
func RemovePath(text, path string) string {
	if path == "" {
		return text
	}
	return strings.ReplaceAll(text, path, "FILE")
}

// NonDefaultValue returns a valid value of the key that differs from its default and depends on n. text has the form
// for a variable or a flag.
func NonDefaultValue(k *config.Key, n int) (text string, value any) {
	switch k.Default.(type) {
	case float64:
		return fmt.Sprintf("%.1f", float64(n)+0.5), float64(n) + 0.5
	case int:
		value = 700 + n
	case bool:
		value = !k.Default.(bool)
	case time.Duration:
		value = time.Duration(n+1) * 90 * time.Second
	case []rewrite.LockPolicy:
		value = []rewrite.LockPolicy{{Tables: []string{"queue_*", "s.t"}, Clauses: []string{"share"}, Policy: rewrite.Strip, FencedBy: "id", Name: "x"},
			{Tables: []string{"t"}, Policy: rewrite.Reject}}
	case []string:
		value = []string{fmt.Sprintf("setting_%d", n), "work_mem"}
	case string:
		value = fmt.Sprintf("text_%d", n)
		if k.Choices != nil {
			value = k.Choices[n%len(k.Choices)]
		}
	}
	return k.PlainText(value), value
}
