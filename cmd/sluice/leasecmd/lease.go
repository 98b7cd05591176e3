package leasecmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/cmd/sluice/daemon"
	"github.com/sluice-proxy/sluice/lease"
)

// commandTimeout bounds the duration of a sluice lease command. The creation of a table takes some seconds.
const commandTimeout = 5 * time.Minute

// NewCommand returns the command lease with its subcommands.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lease",
		Short: "Manage the DynamoDB table by which sidecars share the cluster's limits",
		Args:  cli.RequireSubcommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLeaseInit(), newLeaseStatus(), newLeaseReset(), newLeaseMigrate())
	return cmd
}

func newLeaseInit() *cobra.Command {
	return runOnTable(&cobra.Command{
		Use:   "init",
		Short: "Create the table and write the configured limits to it",
		Long: "Create the table, billed on demand, and write the configured limits of the cluster to it.\n" +
			"Run it again after a change of the limits; sidecars may run meanwhile, and follow the table\n" +
			"within a heartbeat. The format of a table does not change (see sluice lease migrate).\n" +
			"If init is interrupted, or other limits are set at the same time, run it again.",
		Example: "  sluice lease init --endpoint <id>.dsql.<region>.on.aws --distributed-conn-lease-table sluice",
	}, func(ctx context.Context, t *lease.Table, c *config.Config, cmd *cobra.Command) error {
		did, err := t.Init(ctx, c.Lease)
		for _, line := range did {
			fmt.Fprintln(cmd.OutOrStdout(), line)
		}
		return err
	})
}

func newLeaseStatus() *cobra.Command {
	return runOnTable(&cobra.Command{
		Use:   "status",
		Short: "Show which process holds which slots",
		Long: "Show the limits in the table, the free slots of each shard, and the holders of the others.\n" +
			"The exit code is 1, with a line for each problem, when a shard's numbers disagree, or when\n" +
			"the shards have other limits than the settings, as after an interrupted init.",
	}, func(ctx context.Context, t *lease.Table, c *config.Config, cmd *cobra.Command) error {
		s, err := t.Status(ctx)
		if err != nil {
			return err
		}
		return printStatus(cmd.OutOrStdout(), s)
	})
}

func newLeaseReset() *cobra.Command {
	var yes, dead *bool
	var owners *[]string
	cmd := runOnTable(&cobra.Command{
		Use:   "reset",
		Short: "Repair the table, after a confirmation",
		Long: "Finish an interrupted init, make the numbers of each shard agree, reset impossible ticket\n" +
			"times, and remove the owners named by --owner. Name only owners whose process has certainly\n" +
			"ended: their slots are free at once, and a running process closes all its backends.\n" +
			"--dead lists unchanged records and asks, on the terminal only, whether their processes have\n" +
			"ended. The exit code is 1 when a problem remains.",
	}, func(ctx context.Context, t *lease.Table, c *config.Config, cmd *cobra.Command) error {
		if *dead {
			terminal, err := openTerminal()
			if err != nil {
				return err
			}
			defer terminal.Close()
			return removeDeadRecords(cmd.Context(), t, c.Lease, terminal) // without commandTimeout: it waits for a person
		}
		s, err := t.Status(ctx)
		if err != nil {
			return err
		}
		for _, owner := range *owners {
			if !slices.ContainsFunc(s.Shards, func(shard lease.Shard) bool { return shard.Owners[owner] != "" }) {
				fmt.Fprintf(cmd.OutOrStdout(), "owner %s: not in the table\n", owner)
			}
		}
		return confirmAndRepair(ctx, t, t.Repairs(s, *owners), *yes, cmd.InOrStdin(), cmd.OutOrStdout())
	})
	yes = cmd.Flags().Bool("yes", false, "do not ask")
	owners = cmd.Flags().StringSlice("owner", nil, "remove this owner, by its name in status")
	dead = cmd.Flags().Bool("dead", false, "list the records that do not change, and ask on the terminal whether to remove them")
	cmd.MarkFlagsMutuallyExclusive("dead", "yes")
	cmd.MarkFlagsMutuallyExclusive("dead", "owner")
	return cmd
}

func newLeaseMigrate() *cobra.Command {
	var yes *bool
	cmd := runOnTable(&cobra.Command{
		Use:   "migrate",
		Short: "Bring a table of an older version to this version's format, after a confirmation",
		Long: "Give each shard of a table of format 1 its own partition key, so that DynamoDB accepts\n" +
			"more than 1,000 write units per second. Sidecars run meanwhile and close nothing. Give them\n" +
			"the policy of this version first, then upgrade and restart all of them. While the table has\n" +
			"records of sidecars that cannot follow, migrate names them and changes nothing. Afterwards\n" +
			"older versions cannot use the table, and there is no way back. If it is interrupted, run it\n" +
			"again.",
	}, func(ctx context.Context, t *lease.Table, c *config.Config, cmd *cobra.Command) error {
		s, err := t.Status(ctx)
		if err != nil {
			return err
		}
		if s.Settings.Format < lease.Format && !*yes {
			fmt.Fprintf(cmd.OutOrStdout(), "%s get keys of their own: older versions of Sluice cannot use the table any more\n", cli.FormatCount(s.Settings.Shards, "shard"))
			if err := askConfirmation(cmd.InOrStdin(), cmd.OutOrStdout()); err != nil {
				return err
			}
		}
		did, err := t.Migrate(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), did)
		return err
	})
	yes = cmd.Flags().Bool("yes", false, "do not ask")
	return cmd
}

// runOnTable completes a subcommand of sluice lease for the configured table. runOnTable requires an endpoint and a
// table.
func runOnTable(cmd *cobra.Command, do func(context.Context, *lease.Table, *config.Config, *cobra.Command) error) *cobra.Command {
	cmd.Args = cobra.NoArgs
	path := config.AddFlags(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) { // --help shows the relevant flags only
		f.Hidden = f.Name != "config" && !strings.HasPrefix(f.Name, "backend-") && !strings.HasPrefix(f.Name, "distributed-")
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config.Load(*path, cmd.Flags())
		if err != nil {
			return err
		}
		if c.Lease.Table == "" && c.Lease.RateTable == "" {
			return &config.Error{Problems: []string{"distributed.conn_lease_table: empty: name the table (" + c.SourceOf("distributed.conn_lease_table") + ")"}}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), commandTimeout)
		defer cancel()
		chain, err := daemon.LoadAWSConfig(ctx, c, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		t := lease.NewTable(c.Lease, chain)
		defer t.Close()
		return cli.AsRuntimeError(do(ctx, t, c, cmd))
	}
	return cmd
}

// printStatus writes a table of the lease's owners and a line for each problem. printStatus returns an error if there
// are problems.
func printStatus(out io.Writer, s lease.Status) error {
	free, owners := 0, 0
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SHARD\tOWNER\tHELD\tIN ALL\tREAPED AFTER\t")
	for i, shard := range s.Shards {
		free += shard.Free
		for _, owner := range slices.Sorted(maps.Keys(shard.Owners)) {
			owners++
			r, err := lease.ParseRecord(shard.Owners[owner])
			if err != nil {
				fmt.Fprintf(w, "%d\t%s\tunreadable\t\t\t\n", i, owner)
				continue
			}
			waiting := ""
			if r.Waiting {
				waiting = "waits for more"
			}
			fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\t%s\n", i, owner, r.Slots, r.Total, config.FormatDuration(r.ReapAfter), waiting)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d slots free, in %s, held by %s; %d tickets per second, %d at once, given out %v ahead\n",
		free, s.Settings.Limit, cli.FormatCount(s.Settings.Shards, "shard"), cli.FormatCount(owners, "record"),
		s.Settings.Rate, s.Settings.Burst, max(0, s.Queue.Round(time.Millisecond)))
	if s.Settings.Format < lease.Format {
		fmt.Fprintf(out, "format %d, with all items under one partition key: see sluice lease migrate\n", s.Settings.Format)
	}
	return printProblems(out, s)
}

// printProblems writes a line for each problem of the lease table. If there are problems, the returned error says how
// many, and names the remedy.
func printProblems(out io.Writer, s lease.Status) error {
	found := s.Problems()
	for _, line := range found {
		fmt.Fprintln(out, line)
	}
	if len(found) > 0 {
		return fmt.Errorf("%s with the table: sluice lease reset repairs it", cli.FormatCount(len(found), "problem"))
	}
	return nil
}

// askConfirmation asks for a yes. askConfirmation returns an error for any other answer.
func askConfirmation(in io.Reader, out io.Writer) error {
	fmt.Fprint(out, "do it? yes or no: ")
	answer, _ := bufio.NewReader(in).ReadString('\n') // no answer means no
	if strings.TrimSpace(answer) != "yes" {
		return fmt.Errorf("nothing was done: confirm with yes, or with --yes")
	}
	return nil
}

// confirmAndRepair lists the repairs of the lease table, asks for confirmation, performs the repairs, and checks the
// result.
func confirmAndRepair(ctx context.Context, t *lease.Table, repairs []lease.Repair, yes bool, in io.Reader, out io.Writer) error {
	if len(repairs) == 0 {
		_, err := fmt.Fprintln(out, "nothing to repair")
		return err
	}
	for _, r := range repairs {
		fmt.Fprintln(out, r.Text)
	}
	if !yes {
		if err := askConfirmation(in, out); err != nil {
			return err
		}
	}
	for _, r := range repairs {
		if err := t.Repair(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", r.Text, err)
		}
	}
	after, err := t.Status(ctx)
	if err == nil {
		err = printProblems(out, after)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "done")
	return err
}
