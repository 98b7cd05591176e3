package dsqlsim

import (
	"bufio"
	"io"
	"sync"
)

const (
	// inboxBytes bounds the unread bytes that a client may send ahead. The last frame may exceed the bound.
	inboxBytes = 1 << 20
)

// inbox holds the frames that a client has sent and the session has not taken yet. Method readFrames runs on its own
// goroutine; the session's goroutine calls the other methods.
type inbox struct {
	max     int           // bytes of a message; a cluster closes the connection on a longer one (measured 2026-10)
	arrived chan struct{} // holds a token when take may find something
	taken   chan struct{} // holds a token when fill may find room

	mu     sync.Mutex
	frames []frame
	bytes  int
	err    error
}

func newInbox(max int) *inbox {
	return &inbox{max: max, arrived: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

// readFrames reads frames until the client terminates, leaves or breaks the protocol, or done is closed.
func (in *inbox) readFrames(r io.Reader, done <-chan struct{}) {
	buffered := bufio.NewReaderSize(r, 8<<10)
	for {
		f, err := readFrame(buffered, in.max)
		if err == nil && f.kind == 'X' {
			err = errTerminated
		}
		if !in.putFrame(f, err, done) {
			return
		}
	}
}

// putFrame adds a frame or an error to the inbox, and waits while the inbox is full. It reports whether readFrames
// should read on.
func (in *inbox) putFrame(f frame, err error, done <-chan struct{}) bool {
	in.mu.Lock()
	if err != nil {
		in.err = err
	} else {
		in.frames = append(in.frames, f)
		in.bytes += frameHeader + len(f.body)
	}
	full := in.bytes > inboxBytes
	in.mu.Unlock()
	notify(in.arrived)
	for full && err == nil {
		select {
		case <-in.taken:
		case <-done:
			return false
		}
		in.mu.Lock()
		full = in.bytes > inboxBytes
		in.mu.Unlock()
	}
	return err == nil
}

// takeFrames returns all frames that have arrived, without waiting. If no frame has arrived, it returns the error
// that ended the reading, or nil. The caller owns the frames. takeFrames reuses the slice used for later frames, so
// the caller must not touch that slice again.
func (in *inbox) takeFrames(used []frame) ([]frame, error) {
	clear(used)
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.frames) == 0 {
		return used[:0], in.err
	}
	frames := in.frames
	in.frames, in.bytes = used[:0], 0
	notify(in.taken)
	return frames, nil
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
