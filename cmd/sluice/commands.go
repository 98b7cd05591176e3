package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newRoot returns the command tree.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "A Postgres wire proxy in front of Amazon Aurora DSQL",
		Long: "Sluice lets stock Postgres clients work on Amazon Aurora DSQL: they connect to it\n" +
			"on localhost, and each transaction runs on a pooled, IAM-authenticated TLS connection.",
		Args:              noCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true, // run prints them
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(explainFlag)
	root.AddCommand(newServe(), newCheck(), newLint(), newDoctor(), newLease(), newHealthcheck(), newInject(), newVersion(), newConfigReference())
	return root
}

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve clients until SIGTERM",
		Long: "Serve clients until SIGTERM or SIGINT, which let transactions finish (drain.mode,\n" +
			"drain.timeout); a second signal cuts. SIGHUP reloads TLS certificates and users file.\n\n" +
			"Every setting is a key of the YAML file, a variable (DSQL_ and the key in capitals,\n" +
			"_ for .) and a flag. A flag beats a variable, a variable beats the file.",
		Example: "  sluice serve --endpoint <id>.dsql.<region>.on.aws",
		Args:    cobra.NoArgs,
	}
	path := addFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := load(*path, cmd.Flags())
		if err != nil {
			return err
		}
		return serve(cmd.Context(), c, newLogger(c.Log, cmd.ErrOrStderr()))
	}
	return cmd
}

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and print it with the origin of each value",
		Long: "Load the configuration as serve would, print the effective one as YAML, each value\n" +
			"with its origin behind and secrets redacted, and say everything that is wrong with it.",
		Args: cobra.NoArgs,
	}
	path := addFlags(cmd.Flags())
	dial := cmd.Flags().Bool("connect", false, "also dial one backend and run a query on it, saying at which step it fails")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := load(*path, cmd.Flags())
		if err != nil {
			return err
		}
		for _, warning := range c.warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
		}
		return check(cmd.Context(), c, *dial, cmd.OutOrStdout())
	}
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "sluice "+describeBuild())
			return atRuntime(err)
		},
	}
}

func newConfigReference() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "config-reference",
		Short:  "Print the tables of keys and metrics as Markdown",
		Hidden: true, // for docs/configuration.md and docs/metrics.md
		Args:   cobra.NoArgs,
	}
	file := cmd.Flags().String("write", "", "put the tables between the markers of this file instead")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *file != "" {
			return atRuntime(writeReference(*file))
		}
		return atRuntime(printReference(cmd.OutOrStdout()))
	}
	return cmd
}

// addFlags defines --config and a flag for each key of the table that has one.
// It returns where the value of --config will be.
func addFlags(flags *pflag.FlagSet) *string { return addFlagsOf(flags, "") }

// addFlagsOf is addFlags for the keys whose names begin so.
func addFlagsOf(flags *pflag.FlagSet, prefixes ...string) *string {
	path := flags.String("config", "", "YAML configuration file")
	for i := range keys {
		k := &keys[i]
		if k.flag() == "" || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(k.name, p) }) {
			continue
		}
		f := flags.VarPF(&textFlag{kind: k.kind(), text: k.plain(k.def)}, k.flag(), "", k.explain())
		if _, ok := k.def.(bool); ok {
			f.NoOptDefVal = "true"
		}
	}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if whole, ok := flagAliases[name]; ok {
			name = whole
		}
		return pflag.NormalizedName(name)
	})
	flags.SortFlags = false // the table's order goes by subject
	return path
}

// A textFlag takes any text. What it means is decided with the key's other
// sources, so that all problems are told at once and in the same words.
type textFlag struct {
	kind, text string
}

func (f *textFlag) Set(text string) error { f.text = text; return nil }
func (f *textFlag) String() string        { return f.text }

// Type is shown by --help.
func (f *textFlag) Type() string { return f.kind }

// A givenFlag shows viper a flag as text, whatever its type: viper's own
// conversion makes false of "maybe" and 0 of "many".
type givenFlag struct{ *pflag.Flag }

func (f givenFlag) HasChanged() bool    { return f.Changed }
func (f givenFlag) Name() string        { return f.Flag.Name }
func (f givenFlag) ValueString() string { return f.Value.String() }
func (f givenFlag) ValueType() string   { return "string" }

// noCommand refuses arguments where a command was expected.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("unknown command %q%s (see %s --help)", args[0], didYouMean(args[0], names), cmd.CommandPath())
}

// explainFlag adds the flag that was probably meant, and where to read on.
func explainFlag(cmd *cobra.Command, err error) error {
	hint := ""
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = didYouMean("--"+unknown.GetSpecifiedName(), names)
	}
	return fmt.Errorf("%w%s (see %s --help)", err, hint, cmd.CommandPath())
}
