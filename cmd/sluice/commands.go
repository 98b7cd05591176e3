package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newRoot returns the command tree.
func newRoot() *cobra.Command {
	return rootOf(newServe(version()), newCheck(version()), newLint(), newDoctor(), newLease(), newHealthcheck(),
		newInject(version()), newVersion(), newConfigReference())
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
