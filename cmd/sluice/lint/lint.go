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

// NewCommand returns the command lint.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint FILE...|DIR...|-",
		Short: "Say what DSQL would refuse of SQL files, migrations or a log of statements",
		Long: "Read SQL files, or PostgreSQL's log of statements, and say what Aurora DSQL would refuse,\n" +
			"what Sluice does about it under this configuration, and what is left to people.\n" +
			"- is standard input. The exit code is 1 when something is left to people.\n\n" +
			"Of a folder every *.sql in it is read, in the order of the tool that runs it, and in\n" +
			"the transaction that it runs a file in: dbmate, Drizzle, Flyway, golang-migrate, goose\n" +
			"and Prisma are known. Files that are no SQL are named as not read.\n\n" +
			"With --fix the files are written as Sluice sends them to DSQL, with a comment in front\n" +
			"of each statement that is changed, or left to people; all else stays as it is, and a\n" +
			"file that is fixed is not changed again. - is written to standard output, and the\n" +
			"report to standard error. Line numbers are those of the fixed files.",
		Example: "  sluice lint schema/*.sql\n" +
			"  sluice lint --format json - < statements.log\n" +
			"  sluice lint db/migrate\n" +
			"  sluice lint --fix db/migrate\n" +
			"  sluice lint --fix - < schema.sql > dsql.sql",
		Args: cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	path := config.AddFlagsOf(flags, "rewrite.", "ddl.")
	format := flags.String("format", "text", "form of the report: text or json")
	fix := flags.Bool("fix", false, "write the files as Sluice sends them to DSQL, with comments that say what was changed and what is left to people")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *format != "text" && *format != "json" {
			return fmt.Errorf("--format: %q: want text or json", *format)
		}
		planner, err := lintPlanner(*path, flags)
		if err != nil {
			return err
		}
		return lintAll(cmd, planner, args, *format, *fix)
	}
	return cmd
}

// lintAll reads every input before it writes any file.
func lintAll(cmd *cobra.Command, planner *rewrite.Planner, args []string, format string, fix bool) error {
	report := lintReport{Findings: []lintFinding{}, NotRead: []string{}, fix: fix}
	for _, name := range args {
		if err := report.read(planner, name, cmd.InOrStdin()); err != nil {
			return err
		}
	}
	w := cmd.OutOrStdout()
	for _, f := range report.fixed {
		if err := f.write(cmd.OutOrStdout()); err != nil {
			return cli.AtRuntime(err)
		}
		if f.name == "-" {
			w = cmd.ErrOrStderr()
		}
	}
	if err := report.write(w, format); err != nil {
		return cli.AtRuntime(err)
	}
	if n := report.forPeople(); n > 0 {
		return cli.AtRuntime(fmt.Errorf("%s for people to look at", cli.Plural(n, "finding")))
	}
	return nil
}

// lintPlanner makes a planner of the rewrite section alone: no cluster is needed
// to lint. What DSQL refuses is told even where nothing is rewritten.
func lintPlanner(path string, flags *pflag.FlagSet) (*rewrite.Planner, error) {
	l := config.Gather(path, flags)
	c := l.Config
	var problems []string
	for _, problem := range l.Problems {
		if l.Unreadable || strings.HasPrefix(problem, "rewrite.") {
			problems = append(problems, problem)
		}
	}
	if problems = append(problems, c.Problems(c.Rewrite.Validate())...); len(problems) > 0 {
		return nil, &config.Error{Problems: problems}
	}
	c.Rewrite.Rules.Dialect = true
	c.Rewrite.Rules.Role = c.Backend.User
	return rewrite.New(c.Rewrite.Config)
}
