package settings

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// What a transaction stages: each verb, and copies that stay what they are.
func TestStagedSettings(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"a b commit":                                      "a b",
		"a rollback b commit":                             "b",
		"a commit rollback":                               "a",
		"a mark:s b return:s commit":                      "a",
		"a mark:s b return:s c return:s d commit":         "a d",
		"a mark:s b release:s commit":                     "a b",
		"a mark:s b release:s return:s commit":            "a b",
		"mark:s a mark:s b return:s release:s commit":     "a",
		"mark:s a mark:s b release:s return:s commit":     "",
		"mark:s a mark:t b return:s return:t c commit":    "c",
		"mark:s a mark:t b release:s return:t commit":     "a b",
		"mark:s a commit b return:s commit":               "a b",
		"a mark:s local b return:s local commit":          "a",
		"a snapshot b restore c commit":                   "a c",
		"a mark:s b snapshot return:s c restore d commit": "a b d",
	} {
		var x, saved Staged
		var got []string
		for word := range strings.FieldsSeq(script) {
			verb, name, _ := strings.Cut(word, ":")
			switch verb {
			case "commit":
				for _, c := range x.Commit() {
					got = append(got, c.Name)
				}
			case "rollback":
				x.Rollback()
			case "mark":
				x.SetSavepoint(name)
			case "return":
				x.RollBackTo(name)
			case "release":
				x.ReleaseSavepoint(name)
			case "local":
				x.Stage(rewrite.SettingChange{Action: rewrite.SetLocal, Name: "l"})
			case "snapshot":
				saved = x.Snapshot()
			case "restore":
				x = saved.Snapshot()
			default:
				x.Stage(rewrite.SettingChange{Name: word})
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: left %q, want %q", script, got, want)
		}
	}
}
