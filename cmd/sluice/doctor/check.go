package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/daemon"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// NewCheck returns the command sluice check, which checks a configuration.
func NewCheck(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration and print it with the origin of each value",
		Long: "Load the configuration as serve does, and print it as YAML with the origin of each value.\n" +
			"Secrets are redacted. Every fault is reported.",
		Args: cobra.NoArgs,
	}
	path := config.AddFlags(cmd.Flags())
	dial := cmd.Flags().Bool("connect", false, "also dial one backend and run a query on it; an error names the failed step")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config.Load(*path, cmd.Flags())
		if err != nil {
			return err
		}
		for _, warning := range c.Warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
		}
		return runCheck(cmd.Context(), c, version, *dial, cmd.OutOrStdout())
	}
	return cmd
}

// runCheck prints the effective configuration and builds a daemon with it. If dial is set, runCheck also opens one
// backend and uses it.
func runCheck(ctx context.Context, c *config.Config, version string, dial bool, out io.Writer) error {
	if _, err := io.WriteString(out, c.YAML()); err != nil {
		return cli.AsRuntimeError(err)
	}
	log := slog.New(slog.DiscardHandler)
	d, err := daemon.Build(ctx, c, version, log)
	if err != nil {
		return err
	}
	d.Close()
	if !dial {
		return nil
	}
	chain, err := daemon.BackendAWSConfig(ctx, c, log)
	if err != nil {
		return err
	}
	dialer, err := daemon.NewDialer(c, chain, nil)
	if err != nil {
		return err
	}
	result, err := testConnection(ctx, dialer.Dial, c.Backend.Timeout)
	if err != nil {
		return cli.AsRuntimeError(err)
	}
	_, err = fmt.Fprintf(out, "# connect: ok, %s\n", result)
	return cli.AsRuntimeError(err)
}

// stepQuery is the step of a connection check after the steps of a dial: a query.
const stepQuery reservoir.DialStep = "query"

// stepHints maps the step at which a connection check failed to a hint.
var stepHints = map[reservoir.DialStep]string{
	reservoir.StepDNS:         "is the name in backend.endpoint or backend.address right, and does this machine's resolver know it?",
	reservoir.StepTCP:         "is backend.port right, and do routes and security groups (PrivateLink: backend.address) let this machine through?",
	reservoir.StepTLS:         "is backend.endpoint the name in the server's certificate, and backend.ca_file its authority?",
	reservoir.StepCredentials: "the AWS default chain found none that work: environment, shared files, web identity, container or instance role",
	reservoir.StepToken:       "is backend.region, or the region in backend.endpoint, right?",
	reservoir.StepAuth:        "may these credentials connect as backend.user (IAM dsql:DbConnectAdmin for admin, else dsql:DbConnect and AWS IAM GRANT), and is this machine's clock right? For postgres: backend.password",
	reservoir.StepStartup:     "the server took the credentials and refused the session",
	stepQuery:                 "the session was open and the query failed",
}

// testConnection opens one backend, runs a query on it and closes it. The error names the failed step, for example the
// TLS handshake.
func testConnection(ctx context.Context, dial reservoir.DialFunc, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	conn, err := dial(ctx, nil)
	if err != nil {
		if failed, ok := errors.AsType[*reservoir.DialError](err); ok {
			return "", stepError(failed.Step, err)
		}
		return "", stepError(reservoir.StepStartup, err)
	}
	defer func() {
		_, _ = conn.Net.Write([]byte{'X', 0, 0, 0, 4}) // Terminate; its error does not matter
		_ = conn.Net.Close()
	}()
	dialled := time.Since(began)
	deadline, _ := ctx.Deadline()
	if err := conn.Net.SetDeadline(deadline); err != nil {
		return "", stepError(stepQuery, err)
	}
	began = time.Now()
	if err := runQuery(conn.Net, "SELECT 1", func(string) {}); err != nil {
		return "", stepError(stepQuery, err)
	}
	answered := time.Since(began)
	var mapped []string
	if err := runQuery(conn.Net, mappedColumnsSQL, func(name string) { mapped = append(mapped, strings.TrimSuffix(name, schema.MappedSuffix)) }); err != nil {
		return "", stepError(stepQuery, err)
	}
	result := fmt.Sprintf("server_version %s, connected in %s, SELECT 1 in %s", conn.Params["server_version"],
		dialled.Round(time.Millisecond), answered.Round(time.Microsecond))
	if len(mapped) > 0 {
		result += "\n# bytea columns that are stored as text (rewrite.bytea): " + strings.Join(mapped, ", ")
	}
	return result, nil
}

// mappedColumnsSQL is the query for the columns that store hexadecimal digits of bytea as text.
const mappedColumnsSQL = "SELECT n.nspname || '.' || c.relname || '.' || a.attname FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid" +
	" JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 25" +
	" AND pg_catalog.right(a.attname, 10) = '" + schema.MappedSuffix + "' ORDER BY 1"

func stepError(step reservoir.DialStep, err error) error {
	hint := stepHints[step]
	if hint != "" {
		hint = "\n  " + hint
	}
	return fmt.Errorf("connect failed at step %s: %w%s", step, err, hint)
}
