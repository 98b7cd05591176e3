package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The map of each package names every file of it.
func TestMapNamesEveryFile(t *testing.T) {
	t.Parallel()
	for dir, doc := range map[string]string{".": "doc.go", "startup": "handshake.go", "settings": "values.go", "wire": "frame.go"} {
		text, err := os.ReadFile(filepath.Join(dir, doc))
		if err != nil {
			t.Fatal(err)
		}
		comment, _, _ := strings.Cut(string(text), "\npackage ")
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name := filepath.Base(f); name != "doc.go" && !strings.HasSuffix(f, "_test.go") && !strings.Contains(comment, name) {
				t.Errorf("%s does not say what %s is for", filepath.Join(dir, doc), name)
			}
		}
	}
}
