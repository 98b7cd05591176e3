package leasecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/lease"
)

// silentBeats is the number of heartbeats without a change after which reset --dead lists a record. The record of a
// healthy sidecar changes with each heartbeat.
const silentBeats = 3

// openTerminal opens the user's terminal. Scripts, jobs of Kubernetes and pipelines have no terminal.
func openTerminal() (io.ReadWriteCloser, error) {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, errors.New("--dead asks on the terminal, and there is none: whether a process is gone is for a person to find out (kubectl exec -it, ssh -t)")
	}
	return terminal, nil
}

// removeDeadRecords lists on the terminal the lease records that do not change. It asks there whether their
// processes have ended, and removes the records. A record that changes meanwhile is not removed.
func removeDeadRecords(ctx context.Context, t *lease.Table, c lease.Config, terminal io.ReadWriter) error {
	before, err := t.Status(ctx)
	if err != nil {
		return err
	}
	watch := silentBeats*c.Heartbeat + 2*c.CallTimeout
	fmt.Fprintf(terminal, "looking for %v which records change: a sidecar writes its own every %v (distributed.heartbeat)\n", watch, c.Heartbeat)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(watch):
	}
	after, err := t.Status(ctx)
	if err != nil {
		return err
	}
	silent := after.UnchangedOwners(before)
	if len(silent) == 0 {
		_, err = fmt.Fprintln(terminal, "every record has changed or is gone: nobody looks dead")
		return err
	}
	if err := printSilentProcesses(terminal, after, silent); err != nil {
		return err
	}
	return confirmAndRepair(ctx, t, t.Repairs(after, silent), false, terminal, terminal)
}

// printSilentProcesses writes the slots (units of the connection count) of each process whose records do not change,
// and the effect of removing them.
func printSilentProcesses(out io.Writer, s lease.Status, silent []string) error {
	held, changed := map[string]int{}, false
	var processes []string
	for _, shard := range s.Shards {
		for owner, text := range shard.Owners {
			if !slices.Contains(silent, owner) {
				changed = true
				continue
			}
			process, _, _ := strings.Cut(owner, ".")
			if _, there := held[process]; !there {
				processes = append(processes, process)
			}
			r, _ := lease.ParseRecord(text) // an unreadable record holds nothing
			held[process] += r.Slots
		}
	}
	slices.Sort(processes)
	sum := 0
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROCESS\tHOLDS\t")
	for _, process := range processes {
		sum += held[process]
		fmt.Fprintf(w, "%s\t%d\t\n", process, held[process])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s with %d slots look dead. So do those that are cut off from the table, and suspended ones.\n"+
		"What one that lives holds would go to others while its backends are open: the cluster would be over its\n"+
		"limit, and the sidecar closes all it has when it learns of it. Say yes only if you know that the\n"+
		"processes are gone. The log of each has its name (msg=lease, owner=).\n", cli.FormatCount(len(processes), "sidecar"), sum)
	if err == nil && !changed {
		_, err = fmt.Fprint(out, "Not one record has changed. If sidecars have a longer distributed.heartbeat than this command, those that live\n"+
			"look dead as well: run it with theirs.\n")
	}
	return err
}
