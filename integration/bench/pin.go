package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// pinToCPU restricts this process and its future children to one CPU: the given one, or the last of those allowed.
// Threads of the Go runtime already run, so pinToCPU executes the program again under the same process id. In the
// second process pinToCPU returns.
func pinToCPU(cpu int) error {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return fmt.Errorf("which CPUs are allowed: %w", err)
	}
	if cpu < 0 {
		cpu = highestCPU(&allowed)
	}
	if !allowed.IsSet(cpu) {
		return fmt.Errorf("CPU %d is not one that may be used", cpu)
	}
	if allowed.Count() == 1 {
		return nil
	}
	runtime.LockOSThread() // affinity is a thread's, and exec keeps the caller's
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	return fmt.Errorf("start again on CPU %d: %w", cpu, syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// highestCPU returns the highest CPU of a set that is not empty.
func highestCPU(set *unix.CPUSet) int {
	cpu := 0
	for found := 0; found < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			found++
		}
	}
	return cpu - 1
}

// raiseDescriptorLimit lets this process and its children open as many files as the machine allows. A thousand clients
// need a thousand files on both sides. Go raises the limit of its own process only, and restores it for children,
// unless the program has set the limit.
func raiseDescriptorLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	return nil
}
