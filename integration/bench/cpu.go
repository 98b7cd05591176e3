package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// meter measures who uses the machine's CPUs between its start and read.
type meter struct {
	proxy int // process id, 0 for none

	began time.Time
	counters
}

// counters are CPU times that only ever grow.
type counters struct {
	idle, stolen time.Duration // of all CPUs
	own          time.Duration // this process and its descendants
	used         time.Duration // the proxy
}

// usage is what a meter has read.
type usage struct {
	proxy   time.Duration // CPU time of the proxy
	foreign float64       // cores that did something else than this bench
	stolen  float64       // cores that the hypervisor did not give
}

func startMeter(proxy int) (*meter, error) {
	now, err := readCounters(proxy)
	return &meter{proxy, time.Now(), now}, err
}

// read returns the usage since the start.
func (m *meter) read() (usage, error) {
	now, err := readCounters(m.proxy)
	if err != nil {
		return usage{}, err
	}
	return m.counters.until(now, time.Since(m.began), onlineCPUs()), nil
}

// until is the usage between two readings.
func (c counters) until(now counters, elapsed time.Duration, cpus int) usage {
	stolen := now.stolen - c.stolen
	busy := elapsed*time.Duration(cpus) - (now.idle - c.idle) - stolen
	foreign := busy - (now.own - c.own)
	return usage{
		proxy: now.used - c.used,
		// The counters are read one after the other: a little below zero is zero.
		foreign: max(0, float64(foreign)/float64(elapsed)),
		stolen:  float64(stolen) / float64(elapsed),
	}
}

func readCounters(proxy int) (c counters, err error) {
	if c.idle, c.stolen, err = unusedTime(); err != nil {
		return counters{}, err
	}
	if c.own, err = familyTime(os.Getpid()); err != nil {
		return counters{}, err
	}
	if proxy != 0 {
		c.used, err = processTime(proxy)
	}
	return c, err
}

// processTime is the CPU time of a process, threads that have ended included.
func processTime(pid int) (time.Duration, error) {
	// clock_getcpuclockid(3): the process id inverted, then CPUCLOCK_SCHED.
	const sched = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &at); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}

// unusedTime is how long the CPUs, in sum, have had nothing to do, and how long
// something to do while the hypervisor ran somebody else. The rest of the time
// went to processes and interrupts.
func unusedTime() (idle, stolen time.Duration, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	// cpu user nice system idle iowait irq softirq steal ...
	line, _, _ := bytes.Cut(text, []byte("\n"))
	columns := strings.Fields(string(line))
	if len(columns) < 9 {
		return 0, 0, errors.New("/proc/stat has no sum of CPUs in its first line")
	}
	if idle, err = ticks(columns[4], columns[5]); err != nil {
		return 0, 0, err
	}
	stolen, err = ticks(columns[8])
	return idle, stolen, err
}

// onlineCPUs is how many CPUs /proc/stat sums up. runtime.NumCPU would say one.
func onlineCPUs() int {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 1
	}
	return bytes.Count(text, []byte("\ncpu"))
}

// familyTime is the CPU time of a process and of all below it, those that have
// ended and were waited for included.
func familyTime(root int) (time.Duration, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	children := make(map[int][]int)
	ended := make(map[int]time.Duration) // CPU time of each process's late children
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		pid, parent, late, err := parseStat(string(text))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		children[parent] = append(children[parent], pid)
		ended[pid] = late
	}
	var sum time.Duration
	for family := []int{root}; len(family) > 0; {
		pid := family[0]
		family = append(family[1:], children[pid]...)
		// One that ends just now is missed here and counted the next time.
		alive, _ := processTime(pid)
		sum += alive + ended[pid]
	}
	return sum, nil
}

// parseStat reads /proc/<pid>/stat: the process, its parent, and the CPU time
// of children that it has waited for.
func parseStat(text string) (pid, parent int, late time.Duration, err error) {
	// The name in parentheses may hold anything.
	head, rest, found := strings.Cut(text[:strings.LastIndexByte(text, ')')+1], " (")
	columns := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if !found || rest == "" || len(columns) < 15 {
		return 0, 0, 0, errors.New("not in the form of proc(5)")
	}
	if pid, err = strconv.Atoi(head); err != nil {
		return 0, 0, 0, err
	}
	if parent, err = strconv.Atoi(columns[1]); err != nil { // the fourth of all
		return 0, 0, 0, err
	}
	late, err = ticks(columns[13], columns[14]) // cutime, cstime
	return pid, parent, late, err
}

// ticks is the sum of times as /proc prints them.
func ticks(columns ...string) (time.Duration, error) {
	var sum time.Duration
	for _, column := range columns {
		n, err := strconv.ParseInt(column, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// residentKiB is how much memory of a process is in RAM.
func residentKiB(pid int) (float64, error) {
	// Not status or statm: their counter lags behind by some pages per thread.
	path := "/proc/" + strconv.Itoa(pid) + "/smaps_rollup"
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if size, found := strings.CutPrefix(line, "Rss:"); found {
			return strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(size), "kB")), 64)
		}
	}
	return 0, errors.New(path + " has no Rss")
}
