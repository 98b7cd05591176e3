package finding

import (
	"regexp"
	"testing"
)

// A feature labels a metric, and has a reason and a remedy.
func TestFeaturesAreWhole(t *testing.T) {
	t.Parallel()
	label := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	for _, f := range Features() {
		fact := catalogue[f]
		if fact.reason == "" || !label.MatchString(string(f)) {
			t.Errorf("%s: %+v", f, fact)
		}
		if fact.remedy == "" && f != Discard {
			t.Errorf("%s has no remedy", f)
		}
	}
}
