package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/sluice-proxy/sluice/integration/harness"
)

const (
	resultFile = "docs/bench.json"

	// enoughRounds is the least number of rounds for which the bench records a median.
	enoughRounds = 5
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "table" {
		return writeTables(args[1:])
	}
	c, err := parseArgs(args)
	if err != nil {
		return err
	}
	if err := pinToCPU(c.cpu); err != nil {
		return err
	}
	if err := raiseDescriptorLimit(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if c.profile != "" {
		return recordPGOProfile(ctx, c)
	}
	r, err := runBenchmarks(ctx, c)
	if err != nil {
		return err
	}
	if err := r.printReport(out); err != nil {
		return err
	}
	if c.quick {
		recorded, err := readReport(resultFile)
		if err != nil {
			return err
		}
		return r.compareToRecorded(recorded, out)
	}
	if c.out == "" {
		fmt.Fprintf(out, "\nNot written to %s: that takes every workload and %d rounds, or --out.\n", resultFile, enoughRounds)
	} else if err := r.writeJSON(c.out); err != nil {
		return err
	}
	if len(r.Failures) > 0 {
		return fmt.Errorf("%d samples failed", len(r.Failures))
	}
	return nil
}

// config is the parsed command line.
type config struct {
	bin     harness.Bin
	rounds  int
	seconds int
	only    *regexp.Regexp // of workload ids; nil: all
	out     string         // "": nowhere
	cpu     int            // -1: the last one
	quick   bool           // five workloads, compared with the result that is recorded
	profile string         // a file for the profile that Sluice is compiled by, instead of measuring; "": none
}

func parseArgs(args []string) (config, error) {
	var c config
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	bin := flags.String("bin", "bin", "directory of the built sluice")
	flags.IntVar(&c.rounds, "rounds", enoughRounds, "samples of each candidate")
	flags.IntVar(&c.seconds, "seconds", 3, "length of a sample")
	only := flags.String("only", "", "regular expression: measure only these of "+strings.Join(selectableIDs(), ", "))
	flags.StringVar(&c.out, "out", "", "file for the result (default "+resultFile+", if the run is complete)")
	flags.IntVar(&c.cpu, "cpu", -1, "the CPU that everything runs on (default the last)")
	flags.BoolVar(&c.quick, "quick", false, "measure five workloads in about 90 s, and compare them with "+resultFile)
	flags.StringVar(&c.profile, "profile", "", "write the profile that Sluice is compiled by to this file, and measure nothing")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unknown argument %q: there is only the command table", flags.Arg(0))
	}
	if c.rounds < 1 || c.seconds < 1 {
		return config{}, errors.New("--rounds and --seconds are at least 1")
	}
	if *only != "" {
		var err error
		if c.only, err = regexp.Compile(*only); err != nil {
			return config{}, fmt.Errorf("--only: %w", err)
		}
		if !slices.ContainsFunc(selectableIDs(), c.isSelected) {
			return config{}, fmt.Errorf("--only %s: that is none of %s", *only, strings.Join(selectableIDs(), ", "))
		}
	}
	if c.quick {
		c.selectQuick()
	}
	if c.out == "" && c.only == nil && c.rounds >= enoughRounds {
		c.out = resultFile
	}
	c.bin = harness.Bin(*bin)
	return c, nil
}

// selectableIDs returns the ids of all workloads, from which --only selects.
func selectableIDs() []string {
	var all []string
	for _, w := range workloads() {
		all = append(all, w.id)
	}
	for _, f := range features() {
		for _, w := range f.loads {
			all = append(all, w.id)
		}
	}
	for _, w := range mappedWorkloads() {
		all = append(all, w.id)
	}
	return append(all, idIdle, idDelayed, idConflicts, idFaults, idPause)
}

func (c config) isSelected(id string) bool { return c.only == nil || c.only.MatchString(id) }

// filterWorkloads returns those of the workloads that --only selects.
func (c config) filterWorkloads(all []workload) []workload {
	return slices.DeleteFunc(slices.Clone(all), func(w workload) bool { return !c.isSelected(w.id) })
}

// runBenchmarks starts the servers, runs the parts that the configuration selects, and stops the servers.
func runBenchmarks(ctx context.Context, c config) (r *report, err error) {
	b := &bench{config: c, progress: os.Stderr}
	defer func() { err = errors.Join(err, b.rig.stopAll()) }()
	if err := b.rig.startAll(ctx, c.bin); err != nil {
		return nil, err
	}
	if r, err = b.rig.newReport(ctx); err != nil {
		return nil, err
	}
	r.Rounds, r.Seconds = c.rounds, c.seconds
	for _, part := range []struct {
		name    string
		measure func(context.Context, *report) error
	}{{"load", b.measureLoad}, {"shares", b.profileWorst}, {"features", b.measureFeatures}, {"mapping", b.measureMapping}, {idIdle, b.measureIdle}, {idDelayed, b.measureDelayed},
		{idConflicts, b.measureConflicts}, {idFaults, b.measureFaults}, {idPause, b.measurePauses}} {
		err := part.measure(ctx, r)
		if ctx.Err() != nil {
			return nil, cmp.Or(err, ctx.Err())
		}
		if err != nil { // half an hour of the others is worth keeping
			b.recordFailure(part.name, "all", err)
		}
	}
	r.Failures = b.failures
	r.judgeGoals()
	return r, nil
}

// bench is one run of the command.
type bench struct {
	config
	rig      benchServers
	progress io.Writer
	failures []string
}

// recordFailure records a sample that failed. The bench goes on without that sample.
func (b *bench) recordFailure(id, candidate string, err error) {
	b.failures = append(b.failures, fmt.Sprintf("%s, %s: %v", id, candidate, err))
	fmt.Fprintf(b.progress, "%s, %s: %v\n", id, candidate, err)
}
