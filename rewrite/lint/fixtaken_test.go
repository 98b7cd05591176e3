package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// What sluice lint --fix leaves without an error, the stand-in takes, and what it leaves to
// people as one, the stand-in refuses: so far as a statement by itself tells.
func TestFixedFilesAreTaken(t *testing.T) {
	t.Parallel()
	config := rewrite.Defaults()
	config.Rules.Bytea = rewrite.ByteaHex
	p := planner(t, config)
	sim := dialect.New(dialect.Options{Copy: true, ByteaKeys: true})
	taken, refused := 0, 0
	err := filepath.WalkDir("../../cmd/sluice/lint/testdata/migrations", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".sql" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fixed, err := FixFile(p.NewLinter(), SourceFile{Path: path, Text: string(text)})
		if err != nil {
			return err
		}
		// Drizzle's marks end statements, with a semicolon or without.
		for s := range parse.SplitScript(strings.ReplaceAll(fixed.Text, "--> statement-breakpoint", ";")) {
			lacks, carried := "", false
			for _, f := range p.NewLinter().LintStatements(s.SQL) {
				if f.Severity == finding.Error {
					lacks = string(f.Feature)
				}
				carried = carried || f.Feature == finding.AddConstraint && f.Outcome == finding.Rewritten // by the relay, in steps
			}
			read := sim.Analyze(s.SQL)
			if read.Unread || len(read.Statements) != 1 {
				t.Errorf("%s: %q is not read", path, s.SQL)
				continue
			}
			switch refusal := read.Statements[0].Refusal; {
			case refusal == nil && lacks != "":
				t.Errorf("%s: %q is taken, and left to people as %s", path, s.SQL, lacks)
			case refusal != nil && strings.HasPrefix(refusal.Message, "setting configuration parameter"):
				// A session of Sluice has more settings than one of DSQL: lint looks at statements.
			case refusal != nil && carried:
			case refusal != nil && lacks == "":
				t.Errorf("%s: %q is refused: %s", path, s.SQL, refusal.Message)
			case refusal != nil:
				refused++
			default:
				taken++
			}
		}
		return nil
	})
	if err != nil || taken < 40 || refused < 8 {
		t.Errorf("%v, %d taken, %d refused", err, taken, refused)
	}
}
