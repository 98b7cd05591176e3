package config

import (
	"os"
	"strings"
	"testing"
)

func TestDocumentsHaveTheReference(t *testing.T) {
	for table, document := range map[string]string{"config": "docs/configuration.md", "metrics": "docs/metrics.md", "reasons": "docs/replay.md"} {
		text, err := os.ReadFile("../../../" + document)
		if err != nil {
			t.Fatal(err)
		}
		fresh, err := replaceReference(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if begin, _ := tableMarkers(table); fresh != string(text) || !strings.Contains(fresh, begin) {
			t.Errorf("the table of %s is out of date: go run ./cmd/sluice config-reference --write %s", document, document)
		}
	}
}

func TestReferenceStaysBetweenItsMarkers(t *testing.T) {
	t.Parallel()
	const document = "before\n<!-- begin:config -->\nstale\n<!-- end:config -->\nafter\n"
	got, err := replaceReference(document)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got, "stale") || !strings.HasPrefix(got, "before\n<!-- begin:config -->\n| Key |") ||
		!strings.HasSuffix(got, "|\n<!-- end:config -->\nafter\n") {
		t.Errorf("got %q", got)
	}
	if again, err := replaceReference(got); err != nil || again != got {
		t.Errorf("a second time changes it: %q, %v", again, err)
	}
	if _, err := replaceReference("<!-- begin:metrics -->"); err == nil {
		t.Error("a begin without an end was accepted")
	}
}
