package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The map in doc.go names every file of the package.
func TestMapNamesEveryFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		named := strings.Contains(string(text), f) || strings.HasPrefix(f, "startup") && strings.Contains(string(text), "startup*.go")
		if !named && f != "doc.go" && !strings.HasSuffix(f, "_test.go") {
			t.Errorf("doc.go does not say what %s is for", f)
		}
	}
}
