package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

// limitRow is a row of docs/limits.md about a key: its name and its default.
var limitRow = regexp.MustCompile("(?m)^\\| [^|]+ \\| `([a-z_.]+)` \\| ([^|]+) \\| [^|]+ \\|$")

// TestLimitsSayTheDefaults compares the defaults in docs/limits.md with the table of keys.
func TestLimitsSayTheDefaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := limitRow.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 30 {
		t.Fatalf("docs/limits.md has %d rows about keys", len(rows))
	}
	for _, row := range rows {
		k := config.KeyByName(row[1])
		if k == nil {
			t.Errorf("docs/limits.md: there is no key %s", row[1])
			continue
		}
		if want := readable(k.Default); row[2] != want {
			t.Errorf("docs/limits.md: the default of %s is %s, not %s", row[1], want, row[2])
		}
	}
}

// namedKey is a key in a document, with a value behind it or without.
var namedKey = regexp.MustCompile("`([a-z_]+)\\.([a-z_]+)(?:: ([a-z_-]+))?`")

// TestDifferencesNameKeys looks up the keys, and their values, that the pages about compatibility and limits name.
func TestDifferencesNameKeys(t *testing.T) {
	t.Parallel()
	groups := map[string]bool{}
	for i := range config.Keys {
		group, _, _ := strings.Cut(config.Keys[i].Name, ".")
		groups[group] = true
	}
	found := 0
	for _, document := range allDocuments(t) {
		if !strings.HasPrefix(document, "docs/compatibility") && document != "docs/limits.md" {
			continue
		}
		for _, match := range namedKey.FindAllStringSubmatch(documentNamed(t, document), -1) {
			if !groups[match[1]] {
				continue
			}
			found++
			k := config.KeyByName(match[1] + "." + match[2])
			switch {
			case k == nil:
				t.Errorf("%s: there is no key %s.%s", document, match[1], match[2])
			case match[3] != "" && k.Choices != nil && !slices.Contains(k.Choices, match[3]):
				t.Errorf("%s: %s is no value of %s", document, match[3], k.Name)
			}
		}
	}
	if found < 100 {
		t.Errorf("%d keys are named", found)
	}
}

// readable is a default as people write it: 2 MiB, 20 min, 10 s.
func readable(def any) string {
	switch v := def.(type) {
	case int:
		switch {
		case v >= 1<<20 && v%(1<<20) == 0:
			return fmt.Sprintf("%d MiB", v>>20)
		case v >= 1<<10 && v%(1<<10) == 0:
			return fmt.Sprintf("%d KiB", v>>10)
		}
	case time.Duration:
		if v >= time.Minute && v%time.Minute == 0 {
			return fmt.Sprintf("%d min", v/time.Minute)
		}
		return fmt.Sprintf("%g s", v.Seconds())
	}
	return fmt.Sprint(def)
}
