package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/rewrite"
)

// endpoint has the real form; nothing answers there.
const endpoint = "abcdefghijklmnopqrstuvwxyz.dsql.us-east-1.on.aws"

// A source is one configuration of a test, from its three places.
type source struct {
	file  string            // YAML; "" for no file
	env   map[string]string // the DSQL_ variables; no others exist
	flags []string
}

// ready puts the source in place and returns what load and gather take.
func (s source) ready(t *testing.T) (path string, flags *pflag.FlagSet) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, envPrefix) {
			t.Setenv(name, "") // restores it after the test
			os.Unsetenv(name)
		}
	}
	for name, value := range s.env {
		t.Setenv(name, value)
	}
	if s.file != "" {
		path = filepath.Join(t.TempDir(), "conf")
		if err := os.WriteFile(path, []byte(s.file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags = pflag.NewFlagSet("test", pflag.ContinueOnError)
	addFlags(flags)
	if err := flags.Parse(s.flags); err != nil {
		t.Fatal(err)
	}
	return path, flags
}

// mustLoad loads a source without problems.
func (s source) mustLoad(t *testing.T) *Config {
	t.Helper()
	c, err := load(s.ready(t))
	if err != nil {
		t.Fatalf("problems:\n%v", err)
	}
	return c
}

// problems loads a source that has some, without the path of its file.
func (s source) problems(t *testing.T) []string {
	t.Helper()
	path, flags := s.ready(t)
	_, err := load(path, flags)
	bad, ok := errors.AsType[*ConfigError](err)
	if !ok {
		t.Fatalf("load: %v, want a ConfigError", err)
	}
	var lines []string
	for _, line := range bad.Problems {
		lines = append(lines, nameless(line, path))
	}
	return lines
}

// nameless is a text with the path of a test's file taken out.
func nameless(text, path string) string {
	if path == "" {
		return text
	}
	return strings.ReplaceAll(text, path, "FILE")
}

// other returns a valid value of the key that differs from its default and
// depends on n, in the form that a variable or a flag takes.
func other(k *key, n int) (text string, value any) {
	switch k.def.(type) {
	case float64:
		return fmt.Sprintf("%.1f", float64(n)+0.5), float64(n) + 0.5
	case int:
		value = 700 + n
	case bool:
		value = !k.def.(bool)
	case time.Duration:
		value = time.Duration(n+1) * 90 * time.Second
	case []rewrite.LockPolicy:
		value = []rewrite.LockPolicy{{Tables: []string{"queue_*", "s.t"}, Clauses: []string{"share"}, Policy: rewrite.Strip, FencedBy: "id", Name: "x"},
			{Tables: []string{"t"}, Policy: rewrite.Reject}}
	case []string:
		value = []string{fmt.Sprintf("setting_%d", n), "work_mem"}
	case string:
		value = fmt.Sprintf("text_%d", n)
		if k.choices != nil {
			value = k.choices[n%len(k.choices)]
		}
	}
	return k.plain(value), value
}
