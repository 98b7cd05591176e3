package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SourceChange replaces a text of a source file. File is a path from the module's root; Old must be in the file exactly
// once.
type SourceChange struct{ File, Old, New string }

// WriteOverlay writes the changed files into dir, and returns the file for the go command's flag -overlay.
func WriteOverlay(dir string, changes ...SourceChange) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	texts := map[string]string{}
	for _, c := range changes {
		path := filepath.Join(root, filepath.FromSlash(c.File))
		text, ok := texts[path]
		if !ok {
			source, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			text = string(source)
		}
		if n := strings.Count(text, c.Old); n != 1 {
			return "", fmt.Errorf("%s holds %d times, want once: %s", c.File, n, c.Old)
		}
		texts[path] = strings.Replace(text, c.Old, c.New, 1)
	}
	replace := map[string]string{}
	for path, text := range texts {
		changed := filepath.Join(dir, fmt.Sprintf("mutant%d.go", len(replace)))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// BuildWithOverlay builds the program sluice with an overlay into dir.
func BuildWithOverlay(dir, overlay string) (Bin, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	return Bin(dir), goBuild(root, dir, []string{"sluice"}, "-overlay", overlay)
}

// BuildMutant builds a sluice that differs from the source in one file, a path from the module's root. changes are
// pairs of an old text, which must be in the file exactly once, and a new text. Tests use a mutant to show that they
// notice a mistake, without hooks in the source.
func BuildMutant(tb testing.TB, file string, changes ...string) Bin {
	tb.Helper()
	var list []SourceChange
	for i := 0; i+1 < len(changes); i += 2 {
		list = append(list, SourceChange{file, changes[i], changes[i+1]})
	}
	dir := tb.TempDir()
	overlay, err := WriteOverlay(dir, list...)
	if err != nil {
		tb.Fatalf("make a mutant: %v", err)
	}
	bin, err := BuildWithOverlay(dir, overlay)
	if err != nil {
		tb.Fatalf("build a mutant: %v", err)
	}
	return bin
}
