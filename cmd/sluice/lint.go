package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/rewrite"
)

func newLint() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint FILE...|-",
		Short: "Say what DSQL would refuse of SQL files or a log of statements",
		Long: "Read SQL files, or PostgreSQL's log of statements, and say what Aurora DSQL would refuse,\n" +
			"what Sluice does about it under this configuration, and what is left to people.\n" +
			"- is standard input. The exit code is 1 when something is left to people.",
		Example: "  sluice lint schema/*.sql\n  sluice lint --format json - < statements.log",
		Args:    cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	path := addFlagsOf(flags, "rewrite.", "ddl.")
	format := flags.String("format", "text", "form of the report: text or json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *format != "text" && *format != "json" {
			return fmt.Errorf("--format: %q: want text or json", *format)
		}
		planner, err := lintPlanner(*path, flags)
		if err != nil {
			return err
		}
		report := lintReport{Findings: []lintFinding{}}
		for _, name := range args {
			text, err := readInput(name, cmd.InOrStdin())
			if err != nil {
				return err
			}
			report.read(planner, name, text)
		}
		if err := report.write(cmd.OutOrStdout(), *format); err != nil {
			return atRuntime(err)
		}
		if n := report.forPeople(); n > 0 {
			return atRuntime(fmt.Errorf("%s for people to look at", plural(n, "finding")))
		}
		return nil
	}
	return cmd
}

// lintPlanner makes a planner of the rewrite section alone: no cluster is needed
// to lint. What DSQL refuses is told even where nothing is rewritten.
func lintPlanner(path string, flags *pflag.FlagSet) (*rewrite.Planner, error) {
	l := gather(path, flags)
	c := l.config
	var problems []string
	for _, problem := range l.problems {
		if l.unreadable || strings.HasPrefix(problem, "rewrite.") {
			problems = append(problems, problem)
		}
	}
	if problems = append(problems, c.problems(c.Rewrite.Validate())...); len(problems) > 0 {
		return nil, &ConfigError{Problems: problems}
	}
	c.Rewrite.Rules.Dialect = true
	return rewrite.New(c.Rewrite)
}

func readInput(name string, stdin io.Reader) (string, error) {
	if name == "-" {
		text, err := io.ReadAll(stdin)
		return string(text), err
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

// lintReport is what lint says, in the form of its JSON.
type lintReport struct {
	Statements int           `json:"statements"`
	Findings   []lintFinding `json:"findings"`
}

type lintFinding struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Severity  string `json:"severity"`
	Rule      string `json:"rule"`
	Feature   string `json:"feature"`
	Outcome   string `json:"outcome"`
	Operation string `json:"operation,omitempty"`
	Reason    string `json:"reason"`
	Action    string `json:"action"`
	Remedy    string `json:"remedy,omitempty"`

	people bool
}

// read lints one input.
func (r *lintReport) read(planner *rewrite.Planner, name, text string) {
	statements := rewrite.Script(text)
	if isStatementLog(text) {
		statements = logged(text)
	}
	linter := planner.Linter()
	for s := range statements {
		r.Statements++
		for _, f := range linter.Read(s.SQL) {
			r.Findings = append(r.Findings, lintFinding{
				File: name, Line: s.Line + strings.Count(s.SQL[:min(f.At, len(s.SQL))], "\n"),
				Severity: f.Severity.String(), Rule: f.Rule.String(), Feature: string(f.Feature), Outcome: f.Outcome.String(),
				Operation: f.Operation, Reason: f.Reason, Action: f.Action, Remedy: f.Remedy,
				people: f.Severity > rewrite.Info,
			})
		}
	}
}

// forPeople counts what is not handled without a difference.
func (r *lintReport) forPeople() int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].people {
			n++
		}
	}
	return n
}

func (r *lintReport) write(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	var b strings.Builder
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(&b, "%s:%d: %s: %s (%s): %s\n    Sluice: %s\n", f.File, f.Line, f.Severity, f.Feature, f.Rule, f.Reason, f.Action)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "    remedy: %s\n", f.Remedy)
		}
	}
	fmt.Fprintf(&b, "%s, %s, %d for people\n", plural(r.Statements, "statement"), plural(len(r.Findings), "finding"), r.forPeople())
	_, err := io.WriteString(w, b.String())
	return err
}
