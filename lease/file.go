package lease

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A place is where a record may stand.
type place struct {
	shard int
	owner string
}

// File is the only thing that proves a process dead: a file under a lock that this
// process takes before its first permit and that the kernel takes from it when it
// ends, with its sockets. It names the places of the records of whoever holds it.
// Whoever gets the lock may remove them: their process is gone, be it for an hour
// or a second.
//
// A suspended process holds the lock, and so does a child that has inherited the
// descriptor: then nothing is known, and records are reaped by time as ever. The
// lock is of one file on one machine that has not started anew since, hence the
// head names all three: a copy is no evidence, its original may be locked. A file
// that was deleted or replaced is none either. A line stands before its record can.
type File struct {
	path string

	mu   sync.Mutex
	fd   int // -1: not held
	head string
}

const (
	// mostPlaces bounds a file: predecessors that could not leave for theirs.
	mostPlaces = 256
	fileMost   = 64 << 10
	fileEnd    = "end\n"
)

var errFileHeld = errors.New("another process has its lock: it may be suspended, or use the same file for itself")

// NewFile names a file. It opens nothing yet.
func NewFile(path string) *File { return &File{path: path, fd: -1} }

// take takes the lock, and returns the places that predecessors have left. It does
// not wait. The descriptor is a number: no collector may close it.
func (f *File) take() ([]place, error) {
	host := bootID()
	if host == "" {
		return nil, errors.New("this system does not tell its starts apart")
	}
	fd, err := syscall.Open(f.path, syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	head, err := lockRegular(fd)
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	f.mu.Lock()
	f.fd, f.head = fd, fmt.Sprintf("sluice lease 1 %s %s\n", host, head)
	f.mu.Unlock()
	text := make([]byte, fileMost)
	n, err := syscall.Pread(fd, text, 0)
	if err != nil {
		f.Close()
		return nil, err
	}
	return f.parse(string(text[:n])), nil
}

// lockRegular locks a file, and names it among those of the machine.
func lockRegular(fd int) (name string, err error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return "", err
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return "", errors.New("it is no regular file")
	}
	err = syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errFileHeld
	}
	return fmt.Sprintf("%d %d", stat.Dev, stat.Ino), err
}

// parse reads what write wrote to this very file: nothing of another one, and
// nothing of one that is not whole.
func (f *File) parse(text string) (places []place) {
	rest, ours := strings.CutPrefix(text, f.head)
	lines, _, whole := strings.Cut(rest, fileEnd)
	if !ours || !whole {
		return nil
	}
	for line := range strings.Lines(lines) {
		number, owner, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		shard, err := strconv.Atoi(number)
		if ok && err == nil && shard >= 0 && owner != "" {
			places = append(places, place{shard, owner})
		}
	}
	return places
}

// write replaces the places, of which the last are the most important. A process
// that is killed in between leaves the old ones or the new ones: what comes after
// the end is not read.
func (f *File) write(places []place) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := f.head
	for _, p := range places[max(0, len(places)-mostPlaces):] {
		text += fmt.Sprintf("%d %s\n", p.shard, p.owner)
	}
	text += fileEnd
	n, err := syscall.Pwrite(f.fd, []byte(text), 0)
	switch {
	case err != nil:
		return err
	case n < len(text):
		return syscall.ENOSPC
	}
	return syscall.Ftruncate(f.fd, int64(n))
}

// held reports whether this process has the lock.
func (f *File) held() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fd >= 0
}

// Close gives the lock up, as the end of the process does. Sluice never calls it:
// only the kernel knows when the last socket is closed. Tests end processes by it.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd >= 0 {
		syscall.Close(f.fd)
		f.fd = -1
	}
}
