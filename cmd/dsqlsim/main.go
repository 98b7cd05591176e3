// Dsqlsim runs a local simulation of an Aurora DSQL cluster in front of a PostgreSQL server.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// These are the exit codes of dsqlsim.
const (
	exitRuntime = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newCommand(os.Args[1:]).ExecuteContext(ctx)
	if err == nil {
		return
	}
	for _, problem := range splitJoinedError(err) {
		fmt.Fprintf(os.Stderr, "dsqlsim: %v\n", problem)
	}
	if _, ok := errors.AsType[*runtimeError](err); ok {
		os.Exit(exitRuntime)
	}
	os.Exit(exitUsage)
}

// runtimeError is a failure of a server whose command line is valid.
type runtimeError struct{ error }

func (e *runtimeError) Unwrap() error { return e.error }

func newCommand(args []string) *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:           "dsqlsim",
		Short:         "A local stand-in for an Aurora DSQL cluster, over a PostgreSQL",
		Long:          longHelp,
		Example:       exampleHelp,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), cmd.OutOrStdout(), &f) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	f.defineClusterFlags(root.PersistentFlags())
	f.defineServerFlags(root.Flags())
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", cmd.Long, cmd.UsageString())
		if cmd == root {
			fmt.Fprint(cmd.OutOrStdout(), planHelp)
		}
	})

	token := &cobra.Command{
		Use:   "token",
		Short: "Print a token for the stand-in, as the AWS CLI would for a cluster",
		Long: `Token prints an IAM token that the stand-in with the same --endpoint and keys
takes as the password of a role.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return printToken(cmd.OutOrStdout(), &f) },
	}
	f.defineTokenFlags(token.Flags())
	root.AddCommand(token, newHealthcheck())
	root.SetArgs(f.dropUnknownArgs(root, args))
	return root
}
