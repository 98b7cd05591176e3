package daemon

import (
	"github.com/spf13/cobra"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

// NewServe returns the command sluice serve.
func NewServe(version string) *cobra.Command {
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
	path := config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config.Load(*path, cmd.Flags())
		if err != nil {
			return err
		}
		return serve(cmd.Context(), c, version, NewLogger(c.Log, cmd.ErrOrStderr()))
	}
	return cmd
}
