package lease

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A recordPlace says where a record of a process is in DynamoDB: in which shard, and under which owner name.
type recordPlace struct {
	shard int
	owner string
}

// LockFile is a lock file that proves that a process has ended. The process locks the file before it dials a backend.
// The kernel releases the lock at the end of the process, together with the process's sockets. The file names the
// places of the process's records. The next process that gets the lock may remove these records.
//
// A suspended process holds the lock, and so does a child that inherited the descriptor. Other processes then take
// its slots by time only. The lock belongs to one file on one machine during one start, so the head of the file
// names all three. A copied file proves nothing, because the original may be locked. A deleted or replaced file
// proves nothing either. The file names a record before the record is created.
type LockFile struct {
	path string

	mu   sync.Mutex
	fd   int // -1: not held
	head string
}

const (
	// mostPlaces bounds the places of records that a LockFile names, which may include records of earlier processes.
	mostPlaces = 256
	fileMost   = 64 << 10
	fileEnd    = "end\n"
)

var errFileHeld = errors.New("another process has its lock: it may be suspended, or use the same file for itself")

// NewLockFile returns a LockFile at path, which the method lock opens and locks later.
func NewLockFile(path string) *LockFile { return &LockFile{path: path, fd: -1} }

// lock locks the file without waiting, and returns the places of the records of ended processes. The descriptor is a
// plain number, so that no finalizer closes the file.
func (f *LockFile) lock() ([]recordPlace, error) {
	host := bootID()
	if host == "" {
		return nil, errors.New("this system does not tell its starts apart")
	}
	fd, err := syscall.Open(f.path, syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	head, err := lockRegularFile(fd)
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
	return f.parsePlaces(string(text[:n])), nil
}

// lockRegularFile locks the file with descriptor fd, which must be a regular file. lockRegularFile returns the file's
// device and inode as text.
func lockRegularFile(fd int) (name string, err error) {
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

// parsePlaces returns the record places in the text of a LockFile. If the file is a copy of another one, or if its text
// is incomplete, parsePlaces returns none.
func (f *LockFile) parsePlaces(text string) (places []recordPlace) {
	rest, ours := strings.CutPrefix(text, f.head)
	lines, _, whole := strings.Cut(rest, fileEnd)
	if !ours || !whole {
		return nil
	}
	for line := range strings.Lines(lines) {
		number, owner, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		shard, err := strconv.Atoi(number)
		if ok && err == nil && shard >= 0 && owner != "" {
			places = append(places, recordPlace{shard, owner})
		}
	}
	return places
}

// writePlaces replaces the places of records in the file. It drops the first of more than mostPlaces places. If the
// process is killed during the write, the file has the old or the new ones: parsePlaces stops at the end marker.
func (f *LockFile) writePlaces(places []recordPlace) error {
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

// isLocked reports whether this process holds the file's lock.
func (f *LockFile) isLocked() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fd >= 0
}

// Close releases the lock, as the end of the process does. Sluice never calls Close, because only the kernel knows when
// the process's last socket is closed. Tests call Close to simulate the end of a process.
func (f *LockFile) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd >= 0 {
		syscall.Close(f.fd)
		f.fd = -1
	}
}
