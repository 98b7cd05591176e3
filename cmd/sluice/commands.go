package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/daemon"
	"github.com/sluice-proxy/sluice/cmd/sluice/doctor"
	"github.com/sluice-proxy/sluice/cmd/sluice/injectcmd"
	"github.com/sluice-proxy/sluice/cmd/sluice/leasecmd"
	"github.com/sluice-proxy/sluice/cmd/sluice/lint"
)

// newRoot returns the command sluice with all subcommands.
func newRoot() *cobra.Command {
	return cli.NewRoot(daemon.NewServe(version()), doctor.NewCheck(version()), lint.NewCommand(), doctor.NewDoctor(), leasecmd.NewCommand(), daemon.NewHealthcheck(),
		injectcmd.NewCommand(version()), newVersion(), newConfigReference())
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "sluice "+describeBuild())
			return cli.AsRuntimeError(err)
		},
	}
}

func newConfigReference() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "config-reference",
		Short:  "Print the tables of keys, metrics and refused replays as Markdown",
		Hidden: true, // for docs/configuration.md, docs/metrics.md and docs/replay.md
		Args:   cobra.NoArgs,
	}
	file := cmd.Flags().String("write", "", "put the tables between the markers of this file instead")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *file != "" {
			return cli.AsRuntimeError(config.WriteReference(*file))
		}
		return cli.AsRuntimeError(config.PrintReference(cmd.OutOrStdout()))
	}
	return cmd
}
