package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// presence is how a client stands that is not read from, since its turn waits.
type presence uint8

const (
	// here: it may wait for its answer, also with its half of the stream closed; or
	// it has sent more that is to be run.
	here presence = iota
	// leaving: Terminate is the next that it sent.
	leaving
	// gone: its connection is broken.
	gone
)

// presence looks, without waiting, at what the client has sent and at its socket.
// It reads ahead, and therefore is not for places that are about to read the client.
func (s *session) presence() presence {
	c := &s.client
	eof := c.raw.Peek() == rawconn.Closed
	for !s.t.midClient {
		if c.buffered() > 0 {
			if first, some := c.terminates(); first {
				return leaving
			} else if some {
				return here
			}
			if c.w == len(c.buf) {
				break
			}
		}
		n, err := s.readAhead()
		if n == 0 {
			if err != nil && !isTimeout(err) {
				eof = true
				c.failed = c.failed || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
			}
			break
		}
	}
	c.failed = c.failed || c.raw.Broken()
	if !c.failed && eof {
		c.failed = s.probe() != nil
	}
	if c.failed {
		return gone
	}
	return here
}

// terminates looks for Terminate among the unread frames: it may be the first of
// them, or some other.
func (s *source) terminates() (first, some bool) {
	for at := s.r; s.w-at >= headerLen; {
		n := binary.BigEndian.Uint32(s.buf[at+1:])
		if s.buf[at] == msgTerminate && n == 4 {
			return at == s.r, true
		}
		if n < 4 || n > maxFrame {
			break
		}
		at += 1 + int(n)
	}
	return false, false
}

// readAhead reads what the client has sent already behind what is unread, which
// stays where it is. The deadlines that others set to wake the session are kept.
func (s *session) readAhead() (n int, err error) {
	c := &s.client
	if c.buf == nil || c.r == len(c.buf) { // a full one is left to those who still look at its frame
		c.buf, c.r, c.w = getBuf(), 0, 0
	}
	if c.w == len(c.buf) {
		return 0, nil
	}
	if c.plain() {
		if c.raw.Peek() == rawconn.Quiet {
			return 0, nil
		}
		n, err = c.conn.Read(c.buf[c.w:])
		c.w += n
		return n, err
	}
	// As in backend.poll: bytes may wait inside TLS where the socket shows none.
	defer func() {
		c.conn.SetReadDeadline(time.Time{})
		if s.cut.Load() {
			c.conn.SetReadDeadline(time.Unix(1, 0))
		}
	}()
	c.conn.SetReadDeadline(time.Unix(1, 0))
	n, err = c.conn.Read(c.buf[c.w:])
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.raw.Peek() != rawconn.Quiet {
		c.conn.SetReadDeadline(time.Now().Add(partialRecordWait))
		n, err = c.conn.Read(c.buf[c.w:])
	}
	c.w += n
	return n, err
}

// frameProbe says nothing new, and may stand between any two frames.
var frameProbe = appendStrings(nil, msgParameterStatus, "integer_datetimes", "on")

// probe writes to a client whose half of the stream has ended. One that waits for
// its answer takes it; the socket of one that is gone answers with a reset, which
// shows at the next look. Nothing else tells them apart.
func (s *session) probe() error {
	t := s.t
	if t.rest > 0 || t.torn || time.Since(s.probed) < probeEvery {
		return nil
	}
	s.probed = time.Now()
	if err := s.writeDown(frameProbe); err != nil {
		return err
	}
	return s.flushDown()
}

// probeEvery bounds how often a client is probed that has closed its half.
const probeEvery = sweepEvery / 2

// attend looks for the client of a turn that waits long for its backend. The
// backend of one that is gone, or has said goodbye, is not kept waiting for: unless
// the turn may commit, which the goodbye of a client does not undo.
func (s *session) attend() error {
	t := s.t
	if s.b == nil || t.settled {
		return nil
	}
	switch s.presence() {
	case gone:
		return errClientGone
	case leaving:
		if !t.outcome.mayCommit() {
			return errClientGone
		}
	}
	if time.Since(s.probed) < lookEvery { // the answer comes soon
		s.b.conn.Net.SetReadDeadline(earlier(time.Now().Add(lookEvery), earlier(t.deadline, t.holdEnd)))
	}
	return nil
}
