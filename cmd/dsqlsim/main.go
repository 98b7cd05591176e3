// Dsqlsim runs a local stand-in for an Aurora DSQL cluster over a PostgreSQL.
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

// Exit codes.
const (
	exitRuntime = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newCommand().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "dsqlsim: %v\n", err)
	if _, ok := errors.AsType[*runtimeError](err); ok {
		os.Exit(exitRuntime)
	}
	os.Exit(exitUsage)
}

// runtimeError is a failure of a server that was configured well.
type runtimeError struct{ error }

func (e *runtimeError) Unwrap() error { return e.error }

func newCommand() *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:   "dsqlsim",
		Short: "A local stand-in for an Aurora DSQL cluster, over a PostgreSQL",
		Long:  longHelp,
		Example: `  dsqlsim --upstream "host=/var/run/postgresql user=postgres" --cert-dir /tmp/dsqlsim

  PGPASSWORD=$(dsqlsim token) psql "host=localdevelopment0000000000.dsql.us-east-1.on.aws \
    hostaddr=127.0.0.1 port=5433 user=admin dbname=postgres \
    sslmode=verify-full sslrootcert=/tmp/dsqlsim/ca.pem"`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), &f) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	f.cluster(root.PersistentFlags())
	f.server(root.Flags())

	token := &cobra.Command{
		Use:   "token",
		Short: "Print a token for the stand-in, as the AWS CLI would for a cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printToken(cmd.OutOrStdout(), &f)
		},
	}
	f.token(token.Flags())
	root.AddCommand(token)
	return root
}

const longHelp = `Dsqlsim answers a Postgres client as an Aurora DSQL cluster would: TLS with SNI
only, an IAM token as password (verified for real, against the key pair given
here), the cluster's limits on connections, its refusals of SQL. A PostgreSQL
behind it supplies everything else. It is for development and tests.

Planned faults are posted to the admin address as a JSON list:

  curl -d '[{"at":"commit","action":"cut"}]' http://127.0.0.1:9433/faults

  at       connect, statement, commit (before it runs);
           answered, committed (PostgreSQL has run it, the client does not know)
  action   fail (with "error": at connect rate, connections, denied, waking-up;
           at statement and commit conflict, schema), cut, stall (with "seconds")
  skip     let that many events pass first        count  happen so often (1)
  session  only on the connection of this number in the ledger

GET /ledger?after=N lists what happened, GET /metrics counts it, GET /livez
answers while the server runs, DELETE /sessions/{id} cuts a connection.`
