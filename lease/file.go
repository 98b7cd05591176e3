package lease

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A place is the location of a record.
type place struct {
	shard int
	owner string
}

// File proves that a process has ended: the process locks it before its first permit, and the
// kernel releases the lock at the end of the process, with its sockets. The file names the places
// of the process's records. The next process with the lock may remove them.
//
// A suspended process holds the lock, and so does a child that inherited the descriptor. Records
// are then reaped by time. The lock belongs to one file on one machine during one start, so the
// head of the file names all three. A copy proves nothing, because its original may be locked. A
// deleted or replaced file proves nothing either. A line is written before its record.
type File struct {
	path string

	mu   sync.Mutex
	fd   int // -1: not held
	head string
}

const (
	// mostPlaces bounds a file, which may also name records of earlier processes.
	mostPlaces = 256
	fileMost   = 64 << 10
	fileEnd    = "end\n"
)

var errFileHeld = errors.New("another process has its lock: it may be suspended, or use the same file for itself")

// NewFile returns a File at path. It opens nothing yet.
func NewFile(path string) *File { return &File{path: path, fd: -1} }

// take locks the file without waiting, and returns the places of predecessors' records. The
// descriptor is a number, so that no finalizer closes it.
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

// lockRegular locks a regular file and returns its device and inode.
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

// parse returns the places in text. It returns none if another file was copied, or if the text is
// not complete.
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

// write replaces the places; it drops the first ones above mostPlaces. A process killed during the
// write leaves the old places or the new ones, because parse stops at the end marker.
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

// Close releases the lock, as the end of the process does. Sluice never calls it, because only the
// kernel knows when the last socket is closed. Tests use it to end a process.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd >= 0 {
		syscall.Close(f.fd)
		f.fd = -1
	}
}
