package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// serverHome is the directory with all files of a server. An flock on the directory ties it to this process: the
// kernel releases the lock when the process ends. (The same lock keeps systemd-tmpfiles from ageing the files of a
// long run.)
type serverHome struct {
	path string
	lock *os.File
}

// homePrefix returns the prefix of the names of server directories. Each user has another prefix, so that no user
// finds directories which he may not open.
func homePrefix() string { return "sluice-pg-" + strconv.Itoa(os.Getuid()) + "-" }

// memoryDir is a directory of Linux's file system in memory. A database cluster is a thousand files. Copying these
// files into memory takes a tenth of the time of copying them to disk.
const memoryDir = "/dev/shm"

// hasMemoryRoom reports whether a directory is in memory and has room for a dozen test servers. A cluster takes 40 MB,
// and its WAL 128 MB.
func hasMemoryRoom(dir string) bool {
	const magic, needed = 0x01021994, 2 << 30 // TMPFS_MAGIC of linux/magic.h
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Type != magic || fs.Bavail*uint64(fs.Bsize) < needed {
		return false
	}
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(info)) {
		var kB uint64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kB); n == 1 {
			return kB<<10 >= 2*needed
		}
	}
	return false
}

// newServerHome makes a server's directory below base. This process locks the directory, and the account acc owns it.
func newServerHome(base string, acc osAccount) (*serverHome, error) {
	for {
		path, err := os.MkdirTemp(base, homePrefix())
		if err != nil {
			return nil, err
		}
		lock, err := lockDirectory(path, syscall.LOCK_EX)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a sweep took it before it was locked
		}
		if err != nil {
			return nil, errors.Join(err, os.Remove(path))
		}
		d := &serverHome{path: path, lock: lock}
		if err := acc.giveFile(path); err != nil {
			return nil, errors.Join(err, d.remove())
		}
		return d, nil
	}
}

// remove deletes the server's home with its content, and then releases the lock.
func (d *serverHome) remove() error {
	return errors.Join(os.RemoveAll(d.path), d.lock.Close())
}

// lockDirectory opens the directory path and locks it by flock, with the operation how. It returns fs.ErrNotExist if
// another process has removed the directory meanwhile. With LOCK_NB it returns EWOULDBLOCK if a living process holds
// the lock.
func lockDirectory(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	held, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	current, err := os.Lstat(path)
	if err != nil || !os.SameFile(held, current) {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, fs.ErrNotExist)
	}
	return f, nil
}

// removeDeadHomes removes the server directories below base whose owners (test processes) have ended. It also ends
// servers that still run in them. Directories of living owners remain.
func removeDeadHomes(base string, acc osAccount) error {
	homes, err := filepath.Glob(filepath.Join(base, homePrefix()+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range homes {
		lock, err := lockDirectory(path, syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		// Every user can write to the temporary directory, so removeDeadHomes trusts the owner of a directory and not its
		// name.
		if info, err := lock.Stat(); err == nil && isOwnedBy(info, os.Getuid(), acc.uid) {
			stopLeftover(path)
			errs = append(errs, os.RemoveAll(path))
		}
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

func isOwnedBy(info fs.FileInfo, uids ...int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	for _, uid := range uids {
		if int(stat.Uid) == uid {
			return true
		}
	}
	return false
}

// stopLeftover ends a postmaster that still runs in home, although the process that started it has ended. The kernel
// has sent that postmaster a signal, so it is still ending, or stuck.
func stopLeftover(home string) {
	pid := postmasterPID(home)
	if pid <= 0 || !isServerIn(pid, home) {
		return
	}
	// The postmaster gets SIGQUIT, with which it releases its shared memory. SIGKILL would leak that memory.
	_ = syscall.Kill(pid, syscall.SIGQUIT)
	for end := time.Now().Add(stopGrace); time.Now().Before(end) && isServerIn(pid, home); {
		time.Sleep(pollEvery)
	}
	if isServerIn(pid, home) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// postmasterPID returns the process id in the pid file, 0 if there is none.
func postmasterPID(home string) int {
	text, err := os.ReadFile(filepath.Join(home, dataName, "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	pid, _ := strconv.Atoi(string(bytes.TrimSpace(line)))
	return pid
}

// isServerIn reports whether pid is a server started in home. It compares the command line (-D home/data), because the
// system may use the pid of an ended server again.
func isServerIn(pid int, home string) bool {
	cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && bytes.Contains(cmdline, []byte(filepath.Join(home, dataName)))
}
