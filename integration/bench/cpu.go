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

// tick is the unit of CPU times in /proc, 1/USER_HZ. USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// cpuMeter measures the CPU time of the proxy and of other programs, from startCPUMeter to a call of readUsage.
type cpuMeter struct {
	proxy int // process id, 0 for none

	began time.Time
	counters
}

// counters are CPU times that only grow. idle and stolen count since the start of the machine, own and used since the
// start of the processes.
type counters struct {
	idle, stolen time.Duration // of all CPUs
	own          time.Duration // this process and its descendants
	used         time.Duration // the proxy
}

// cpuUsage is the CPU time between the start of a cpuMeter and a reading of the meter.
type cpuUsage struct {
	proxy   time.Duration // CPU time of the proxy
	foreign float64       // cores that did something else than this bench
	stolen  float64       // cores that the hypervisor did not give
}

func startCPUMeter(proxy int) (*cpuMeter, error) {
	now, err := readCounters(proxy)
	return &cpuMeter{proxy, time.Now(), now}, err
}

// readUsage returns the usage since the meter's start.
func (m *cpuMeter) readUsage() (cpuUsage, error) {
	now, err := readCounters(m.proxy)
	if err != nil {
		return cpuUsage{}, err
	}
	return m.counters.usageUntil(now, time.Since(m.began), onlineCPUs()), nil
}

// usageUntil returns the CPU usage between two readings of the counters, the earlier c and the later now. elapsed is
// the time between the two readings, and cpus is the number of CPUs.
func (c counters) usageUntil(now counters, elapsed time.Duration, cpus int) cpuUsage {
	stolen := now.stolen - c.stolen
	busy := elapsed*time.Duration(cpus) - (now.idle - c.idle) - stolen
	foreign := busy - (now.own - c.own)
	return cpuUsage{
		proxy: now.used - c.used,
		// The difference foreign may be slightly below zero, because the counters are read one after the other.
		foreign: max(0, float64(foreign)/float64(elapsed)),
		stolen:  float64(stolen) / float64(elapsed),
	}
}

func readCounters(proxy int) (c counters, err error) {
	if c.idle, c.stolen, err = unusedCPUTime(); err != nil {
		return counters{}, err
	}
	if c.own, err = processTreeCPUTime(os.Getpid()); err != nil {
		return counters{}, err
	}
	if proxy != 0 {
		c.used, err = processCPUTime(proxy)
	}
	return c, err
}

// processCPUTime returns the CPU time of a process, threads that have ended included.
func processCPUTime(pid int) (time.Duration, error) {
	// The clock's id consists of the inverted process id and CPUCLOCK_SCHED, as clock_getcpuclockid(3) computes it.
	const sched = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &at); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}

// unusedCPUTime returns how long the CPUs, in sum, were idle, and how long the hypervisor withheld them from this
// machine. Processes and interrupts used the rest of the time.
func unusedCPUTime() (idle, stolen time.Duration, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	// The columns of the line in /proc/stat are: cpu user nice system idle iowait irq softirq steal ...
	line, _, _ := bytes.Cut(text, []byte("\n"))
	columns := strings.Fields(string(line))
	if len(columns) < 9 {
		return 0, 0, errors.New("/proc/stat has no sum of CPUs in its first line")
	}
	if idle, err = parseTicks(columns[4], columns[5]); err != nil {
		return 0, 0, err
	}
	stolen, err = parseTicks(columns[8])
	return idle, stolen, err
}

// onlineCPUs returns how many CPUs /proc/stat sums up. runtime.NumCPU would return one, because the process is pinned.
func onlineCPUs() int {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 1
	}
	return bytes.Count(text, []byte("\ncpu"))
}

// processTreeCPUTime returns the CPU time of a process and its descendants, including descendants that have ended and
// were waited for.
func processTreeCPUTime(root int) (time.Duration, error) {
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
		pid, parent, late, err := parseProcStat(string(text))
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
		// A process that ends between the reading of /proc and this call is not counted in this sum. The next sum counts it
		// as an ended child.
		alive, _ := processCPUTime(pid)
		sum += alive + ended[pid]
	}
	return sum, nil
}

// parseProcStat parses /proc/<pid>/stat. It returns the process, its parent, and the CPU time of children that the
// process has waited for.
func parseProcStat(text string) (pid, parent int, late time.Duration, err error) {
	// The process name in parentheses may contain spaces and parentheses.
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
	late, err = parseTicks(columns[13], columns[14]) // cutime, cstime
	return pid, parent, late, err
}

// parseTicks returns the sum of the columns, which are CPU times in /proc in units of tick.
func parseTicks(columns ...string) (time.Duration, error) {
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

// residentKiB returns how much memory of a process is in RAM, in KiB.
func residentKiB(pid int) (float64, error) {
	// smaps_rollup is exact, while the counters in status and statm lag by some pages per thread.
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
