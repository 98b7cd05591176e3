package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sysctls are settings that a kubelet changes and that are in no namespace.
var sysctls = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}

// hierarchies is the directory of cgroups of version 1. ownGroup is the cluster's group in each hierarchy.
const (
	hierarchies = "/sys/fs/cgroup"
	ownGroup    = "sluice-kubernetes"
)

// host holds the machine's original sysctls, and the cgroups that the cluster has made on the machine.
type host struct {
	sysctls map[string][]byte
	groups  []string
}

func newHost() (*host, error) {
	h := &host{sysctls: make(map[string][]byte)}
	for _, name := range sysctls {
		text, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			return nil, err
		}
		h.sysctls[name] = text
	}
	entries, err := os.ReadDir(hierarchies)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		dir := filepath.Join(hierarchies, entry.Name())
		if _, err := os.Stat(filepath.Join(dir, "tasks")); err != nil {
			continue // not one of version 1
		}
		group := filepath.Join(dir, ownGroup)
		if err := os.Mkdir(group, 0o755); err != nil {
			return h, fmt.Errorf("%w: does another cluster run?", err)
		}
		h.groups = append(h.groups, group)
		// A cpuset group accepts processes only after its processors and memory are set.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := errors.Join(err, os.WriteFile(filepath.Join(group, name), text, 0)); err != nil {
				return h, err
			}
		}
	}
	if len(h.groups) == 0 {
		return h, errors.New("no cgroups of version 1 in " + hierarchies + ": this runs on no other yet")
	}
	return h, nil
}

// restore restores the sysctls, ends the remaining processes in the cgroups and removes the cgroups.
func (h *host) restore() error {
	var errs []error
	for name, text := range h.sysctls {
		now, err := os.ReadFile("/proc/sys/" + name)
		if err == nil && !bytes.Equal(now, text) {
			err = os.WriteFile("/proc/sys/"+name, text, 0)
		}
		errs = append(errs, err)
	}
	for _, group := range h.groups {
		errs = append(errs, remove(group))
	}
	return errors.Join(errs...)
}

// remove ends the processes of a cgroup and of the groups below, and removes these groups.
func remove(group string) (err error) {
	for end := time.Now().Add(stopGrace); time.Now().Before(end); time.Sleep(pollEvery) {
		var all []string
		err = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				all = append(all, path)
			}
			return err
		})
		slices.Reverse(all) // children first
		for _, group := range all {
			if err = os.Remove(group); err != nil {
				kill(group)
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

func kill(group string) {
	text, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
