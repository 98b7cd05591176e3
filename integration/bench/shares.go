package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// This file measures where Sluice spends CPU time in the workloads with the highest CPU time relative to PgBouncer. A
// Sluice built with a profiler runs each of these workloads once more.

const (
	worstRows = 3
	// mostFunctions is the number of functions listed for each workload. A function with ownShare per cent or more is not
	// listed, because it calls almost all others.
	mostFunctions = 8
	ownShare      = 50.0
	// profileLimit bounds the build of the profiled Sluice, and each wait for a profile.
	profileLimit = 3 * time.Minute
	// profiledSeconds is the length of a profile; on one CPU it gives some 500 samples of the proxy.
	profiledSeconds = 15
)

//go:embed profiled.go.txt
var profiler []byte

// workloadShares are the shares of functions in one workload, in per cent of Sluice's CPU time. The shares are
// cumulative and overlap: a system call by TLS counts for both groups.
type workloadShares struct {
	Title     string         `json:"title"`
	Groups    []profileShare `json:"groups"`
	Functions []profileShare `json:"functions"`
}

type profileShare struct {
	Name    string  `json:"name"`
	Percent float64 `json:"percent"`
}

// shareGroups lists groups of functions whose shares are added up. No function of a group calls another one of the
// same group.
var shareGroups = []struct {
	name string
	of   []string
}{
	{"calls of the kernel", []string{"internal/runtime/syscall/linux.Syscall6"}},
	{"TLS", []string{"crypto/tls.(*Conn).Read", "crypto/tls.(*Conn).Write"}},
	{"scheduler and poller", []string{"runtime.schedule"}},
	{"memory and its collection", []string{"runtime.mallocgc", "runtime.gcBgMarkWorker"}},
}

// worstWorkloads returns the ids of the workloads in which Sluice's CPU time relative to PgBouncer is highest, the
// highest first.
func (r *report) worstWorkloads() []string {
	measured := slices.DeleteFunc(slices.Clone(r.Workloads), func(w workloadResult) bool { return w.CPUToPgBouncer.Rounds == 0 })
	slices.SortStableFunc(measured, func(a, b workloadResult) int { return cmp.Compare(b.CPUToPgBouncer.Median, a.CPUToPgBouncer.Median) })
	var ids []string
	for _, w := range measured[:min(worstRows, len(measured))] {
		ids = append(ids, w.ID)
	}
	return ids
}

// profileWorst profiles Sluice in the workloads with the highest CPU time relative to PgBouncer. It records its
// errors as failures, so that the report has all figures of the other parts.
func (b *bench) profileWorst(ctx context.Context, r *report) error {
	ids := r.worstWorkloads()
	if b.quick || len(ids) == 0 {
		return nil
	}
	bin, err := b.rig.buildProfiled(ctx)
	if err != nil {
		b.recordFailure("shares", sluice, err)
		return nil
	}
	for _, w := range workloads() {
		if !slices.Contains(ids, w.id) {
			continue
		}
		path, err := b.profileWorkload(ctx, bin, &w)
		if err != nil {
			b.recordFailure("shares of "+w.id, sluice, err)
			continue
		}
		text, err := runPprof(ctx, "-top", "-cum", "-nodecount=100000", "-nodefraction=0", filepath.Join(string(bin), "sluice"), path)
		if err != nil {
			b.recordFailure("shares of "+w.id, sluice, err)
			continue
		}
		groups, functions := parseShares(string(text))
		r.Shares = append(r.Shares, workloadShares{w.title, groups, functions})
	}
	return nil
}

// buildProfiled builds a Sluice with a profiler, by an overlay that leaves the source tree unchanged.
func (r *benchServers) buildProfiled(ctx context.Context) (harness.Bin, error) {
	top, err := os.Getwd() // of the module: see main
	if err != nil {
		return "", err
	}
	dir := filepath.Join(r.dir, "profiled")
	source, overlay := filepath.Join(dir, "profiled.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(top, "cmd", "sluice", "profiled.go"): source}})
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for file, content := range map[string][]byte{source: profiler, overlay: text} {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return "", err
		}
	}
	ctx, stop := context.WithTimeout(ctx, profileLimit)
	defer stop()
	if said, err := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", filepath.Join(dir, "sluice"), "./cmd/sluice").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a profiled sluice: %w\n%s", err, said)
	}
	return harness.Bin(dir), nil
}

// profileWorkload runs a workload through a profiled Sluice, and returns the file of the profile.
func (b *bench) profileWorkload(ctx context.Context, bin harness.Bin, w *workload) (string, error) {
	path := filepath.Join(string(bin), w.id+".cpu")
	usual := b.rig.bin
	b.rig.bin = bin
	s, err := b.rig.launchSluice(ctx, b.rig.postgres.Port, harness.Env{"BENCH_CPU_PROFILE": path})
	b.rig.bin = usual
	if err != nil {
		return "", err
	}
	defer s.Stop(syscall.SIGTERM, stopGrace)
	defer func(usual int) { b.seconds = usual }(b.seconds)
	for _, measured := range []bool{false, true} { // the first brings the pool up to its size
		if measured {
			b.seconds = profiledSeconds
			syscall.Kill(s.PID(), syscall.SIGUSR1)
		}
		if _, err := b.runPgbench(ctx, w, s.Port); err != nil {
			return "", err
		}
	}
	syscall.Kill(s.PID(), syscall.SIGUSR1)
	for end := time.Now().Add(profileLimit); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			break
		} else if ctx.Err() != nil || time.Now().After(end) {
			return "", cmp.Or(ctx.Err(), err)
		}
	}
	return path, nil
}

// runPprof returns the output of `go tool pprof`.
func runPprof(ctx context.Context, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, "go", append([]string{"tool", "pprof"}, args...)...).Output()
}

// parseShares parses the lines of `go tool pprof -top -cum`: flat, flat%, sum%, cum, cum%, function.
func parseShares(text string) (groups, functions []profileShare) {
	const own = "github.com/sluice-proxy/sluice/"
	percent := map[string]float64{}
	for line := range strings.Lines(text) {
		columns := strings.Fields(line)
		if len(columns) < 6 || !strings.HasSuffix(columns[4], "%") {
			continue
		}
		part, err := strconv.ParseFloat(strings.TrimSuffix(columns[4], "%"), 64)
		if err != nil {
			continue
		}
		percent[columns[5]] = part
		if name, ours := strings.CutPrefix(columns[5], own); ours && part < ownShare && len(functions) < mostFunctions {
			functions = append(functions, profileShare{name, part})
		}
	}
	for _, g := range shareGroups {
		sum := 0.0
		for _, name := range g.of {
			sum += percent[name]
		}
		groups = append(groups, profileShare{g.name, sum})
	}
	return groups, functions
}

// printShares prints the CPU shares that the run has measured.
func (r *report) printShares(w io.Writer) {
	for _, of := range r.Shares {
		fmt.Fprintf(w, "\nSluice's CPU in %s, in %% (cumulative, so they overlap):", of.Title)
		for _, s := range slices.Concat(of.Groups, of.Functions) {
			fmt.Fprintf(w, " %s %.1f;", s.Name, s.Percent)
		}
		fmt.Fprintln(w)
	}
}
