package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	sqlfile "github.com/sluice-proxy/sluice/rewrite/lint"
)

// lintReport is the report of sluice lint in the form of its JSON.
type lintReport struct {
	Statements int           `json:"statements"`
	Findings   []lintFinding `json:"findings"`
	// NotRead lists the files in the given folders that are not SQL.
	NotRead []string `json:"not_read"`

	fix   bool
	fixed []fixedFile
}

type lintFinding struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Severity  string `json:"severity"`
	Status    string `json:"status"`
	Rule      string `json:"rule"`
	Feature   string `json:"feature"`
	Outcome   string `json:"outcome"`
	Operation string `json:"operation,omitempty"`
	Reason    string `json:"reason"`
	Action    string `json:"action"`
	Remedy    string `json:"remedy,omitempty"`
}

// addFindings adds the findings of one SQL file to the report.
func (r *lintReport) addFindings(name string, linted sqlfile.FileResult) {
	r.Statements += linted.Statements
	for _, f := range linted.Findings {
		r.Findings = append(r.Findings, lintFinding{
			File: name, Line: f.Line, Severity: f.Severity.String(), Status: f.Status.String(), Rule: f.Rule.String(),
			Feature: string(f.Feature), Outcome: f.Outcome.String(), Operation: f.Operation,
			Reason: f.Reason, Action: f.Action, Remedy: f.Remedy,
		})
	}
}

// countNeedingPerson returns the number of findings that a person should check.
func (r *lintReport) countNeedingPerson() int { return r.countByStatus(sqlfile.People) }

func (r *lintReport) countByStatus(status sqlfile.FindingStatus) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Status == status.String() {
			n++
		}
	}
	return n
}

func (r *lintReport) writeReport(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	var b strings.Builder
	for i := range r.Findings {
		f := &r.Findings[i]
		by := "Sluice"
		if f.Status == sqlfile.Fixed.String() {
			by = "fixed"
		}
		fmt.Fprintf(&b, "%s:%d: %s: %s (%s): %s\n    %s: %s\n", f.File, f.Line, f.Severity, f.Feature, f.Rule, f.Reason, by, f.Action)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "    remedy: %s\n", f.Remedy)
		}
	}
	for _, name := range r.NotRead {
		fmt.Fprintf(&b, "%s: not read: no SQL\n", name)
	}
	fmt.Fprintf(&b, "%s, %s, ", cli.FormatCount(r.Statements, "statement"), cli.FormatCount(len(r.Findings), "finding"))
	if r.fix {
		fmt.Fprintf(&b, "%d fixed, ", r.countByStatus(sqlfile.Fixed))
	}
	fmt.Fprintf(&b, "%d for people", r.countNeedingPerson())
	if n := len(r.NotRead); n > 0 {
		fmt.Fprintf(&b, "; %s not read", cli.FormatCount(n, "file"))
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}
