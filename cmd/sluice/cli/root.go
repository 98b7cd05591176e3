package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

// NewRoot returns the command sluice with the given subcommands.
func NewRoot(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "A Postgres wire proxy in front of Amazon Aurora DSQL",
		Long: "Sluice lets stock Postgres clients work on Amazon Aurora DSQL: they connect to it\n" +
			"on localhost, and each transaction runs on a pooled, IAM-authenticated TLS connection.",
		Args:              RequireSubcommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true, // Execute prints them
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(explainFlagError)
	root.AddCommand(commands...)
	return root
}

// RequireSubcommand returns an error for arguments of a command that only has subcommands.
func RequireSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return fmt.Errorf("unknown command %q%s (see %s --help)", args[0], config.DidYouMean(args[0], names), cmd.CommandPath())
}

// explainFlagError extends an error about an unknown flag: by the most similar flag, and by how to get help.
func explainFlagError(cmd *cobra.Command, err error) error {
	hint := ""
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = config.DidYouMean("--"+unknown.GetSpecifiedName(), names)
	}
	return fmt.Errorf("%w%s (see %s --help)", err, hint, cmd.CommandPath())
}
