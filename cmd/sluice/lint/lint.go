package lint

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/rewrite"
)

// NewCommand returns the command sluice lint, which checks and fixes SQL files.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint FILE...|DIR...|-",
		Short: "Report what DSQL would refuse in SQL files, migrations or a log of statements",
		Long: "Read SQL files, or PostgreSQL's log of statements. Report which statements Aurora DSQL would\n" +
			"refuse, what Sluice does about them under this configuration, and which ones a person must\n" +
			"change. - is standard input. The exit code is 1 when a person must change a statement.\n\n" +
			"A folder stands for every *.sql in it, in the order of the migration tool, and in the\n" +
			"transactions of that tool: dbmate, Drizzle, Flyway, golang-migrate, goose and Prisma are\n" +
			"known. The report names files that are not SQL as not read.\n\n" +
			"With --fix the files are written as Sluice sends them to DSQL. A comment precedes each\n" +
			"statement that was changed, or that a person must change; the rest stays unchanged. A fixed\n" +
			"file is not changed again. - is written to standard output, and the report to standard error.\n" +
			"Line numbers are those of the fixed files.",
		Example: "  sluice lint schema/*.sql\n" +
			"  sluice lint --format json - < statements.log\n" +
			"  sluice lint db/migrate\n" +
			"  sluice lint --fix db/migrate\n" +
			"  sluice lint --fix - < schema.sql > dsql.sql",
		Args: cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	path := config.AddFlagsWithPrefix(flags, "rewrite.", "ddl.")
	format := flags.String("format", "text", "form of the report: text or json")
	fix := flags.Bool("fix", false, "write the files as Sluice sends them to DSQL, with comments on changed statements and on those that a person must change")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *format != "text" && *format != "json" {
			return fmt.Errorf("--format: %q: want text or json", *format)
		}
		planner, err := newLintPlanner(*path, flags)
		if err != nil {
			return err
		}
		return lintAll(cmd, planner, args, *format, *fix)
	}
	return cmd
}

// lintAll lints all inputs. lintAll reads every input before it writes any file.
func lintAll(cmd *cobra.Command, planner *rewrite.Planner, args []string, format string, fix bool) error {
	report := lintReport{Findings: []lintFinding{}, NotRead: []string{}, fix: fix}
	for _, name := range args {
		if err := report.lintPath(planner, name, cmd.InOrStdin()); err != nil {
			return err
		}
	}
	w := cmd.OutOrStdout()
	for _, f := range report.fixed {
		if err := f.write(cmd.OutOrStdout()); err != nil {
			return cli.AsRuntimeError(err)
		}
		if f.name == "-" {
			w = cmd.ErrOrStderr()
		}
	}
	if err := report.writeReport(w, format); err != nil {
		return cli.AsRuntimeError(err)
	}
	if n := report.countNeedingPerson(); n > 0 {
		return cli.AsRuntimeError(fmt.Errorf("%s for people to look at", cli.FormatCount(n, "finding")))
	}
	return nil
}

// newLintPlanner returns a planner for the section rewrite of the configuration, because lint needs no cluster. The
// planner also reports statements that DSQL refuses and Sluice does not rewrite.
func newLintPlanner(path string, flags *pflag.FlagSet) (*rewrite.Planner, error) {
	l := config.LoadWithProblems(path, flags)
	c := l.Config
	var problems []string
	for _, problem := range l.Problems {
		if l.Unreadable || strings.HasPrefix(problem, "rewrite.") {
			problems = append(problems, problem)
		}
	}
	if problems = append(problems, c.FormatProblems(c.Rewrite.Validate())...); len(problems) > 0 {
		return nil, &config.Error{Problems: problems}
	}
	c.Rewrite.Rules.Dialect = true
	c.Rewrite.Rules.Role = c.Backend.User
	return rewrite.New(c.Rewrite.Config)
}
