package proxy

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// Whether anybody still waits for a turn's answer. The session's own goroutine looks while
// its backend is long about an answer (attend), and lookOut while the session waits for
// something else; nobody reads the client meanwhile.

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

// presence looks, without waiting, at what the client has sent and at its socket. It reads
// ahead, and therefore is not for places that are about to read the client. clientBroken is
// remembered: a socket tells of its failure once.
//
// A client that is gone and one that closed only its half of the stream look alike at
// first; the second gets its answer, as from PostgreSQL. Only a write tells them apart: see
// probe.
func (s *session) presence() presence {
	c := &s.client
	eof := c.Raw.Ended()
	// In the middle of a frame no bytes can be told from a Terminate.
	for !s.t.midClient {
		if c.Buffered() > 0 {
			if first, some := c.Terminates(); first {
				return leaving
			} else if some {
				return here
			}
			if c.Full() {
				break
			}
		}
		n, err := s.readAhead()
		if n == 0 {
			if err != nil && !isTimeout(err) {
				eof = true
				s.clientBroken = s.clientBroken || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
			}
			break
		}
	}
	s.clientBroken = s.clientBroken || c.Raw.Broken()
	// The end of a client that is in the middle of a frame, for which the backend has no room,
	// stands behind bytes that nobody can take.
	if eof || s.t.longMidFrame() {
		s.clientBroken = s.clientBroken || s.probe() != nil
	}
	if s.clientBroken {
		return gone
	}
	return here
}

// hasLeft is presence between two steps of a statement, of which the next would be for nobody. A client that
// has closed its half is probed; if it is gone, its socket answers in a moment, which is waited for.
func (s *session) hasLeft() bool {
	before := s.probed
	if s.presence() != here {
		return true
	}
	if s.probed == before {
		return false
	}
	time.Sleep(probeAnswer)
	return s.presence() != here
}

// longMidFrame reports, every midFrameProbeEvery, that the client has been in the middle of
// a frame for as long.
func (t *turn) longMidFrame() bool {
	switch {
	case !t.midClient:
		t.midSince = time.Time{}
	case t.midSince.IsZero():
		t.midSince = time.Now()
	case time.Since(t.midSince) >= midFrameProbeEvery:
		t.midSince = time.Now()
		return true
	}
	return false
}

// readAhead reads what the client has sent already behind what is unread, which stays where
// it is: slices of the frame at hand stay valid. Of the deadlines that others set to wake
// the session the cut's is kept; a drain has nothing to say to a turn. No bytes and no error
// says that there is nothing, or no room.
func (s *session) readAhead() (n int, err error) {
	c := &s.client
	if !c.MayExtend() {
		return 0, nil
	}
	if c.Plain() && c.Raw.Peek() == rawconn.Quiet {
		return 0, nil
	}
	defer func() {
		c.Conn.SetReadDeadline(time.Time{})
		if s.cutOff.Load() {
			c.Conn.SetReadDeadline(time.Unix(1, 0))
		}
	}()
	if c.Plain() {
		c.Conn.SetReadDeadline(time.Time{})
		return c.Extend()
	}
	// As in backend.poll: bytes may wait inside TLS where the socket shows none.
	c.Conn.SetReadDeadline(time.Unix(1, 0))
	n, err = c.Extend()
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.Raw.Peek() != rawconn.Quiet {
		c.Conn.SetReadDeadline(time.Now().Add(partialRecordWait))
		n, err = c.Extend()
	}
	return n, err
}

// frameProbe says nothing new, and may stand between any two frames: integer_datetimes has
// one value in every server.
var frameProbe = wire.AppendStrings(nil, wire.ParameterStatus, "integer_datetimes", "on")

// probe writes to a client that may have gone. One that waits for its answer takes it; the
// socket of one that is gone answers with a reset, which shows at the next look. Nothing
// else tells them apart.
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

// How often a client is probed: one that has closed its half, and one that is in the middle
// of a frame.
const (
	probeEvery         = sweepEvery / 2
	midFrameProbeEvery = 4 * sweepEvery
	// probeAnswer is for how long the answer to a probe is waited for: a few round trips within a region.
	probeAnswer = 20 * time.Millisecond
)

// lasts reports whether what was sent may be committed without another frame of the client's: by the server,
// or by the COMMIT of a block of Sluice's own, which Sluice sends behind the turn's end.
func (t *turn) lasts() bool { return t.outcome.MayCommit() || t.ended && t.ownTx.on }

// attend looks for the client of a turn that waits long for its backend; pump calls it when
// a read was woken. The backend of one that is gone, or has said goodbye, is not kept
// waiting for: unless the turn may commit, which the goodbye of a client does not undo, and
// which has its grace. The error ends the session, which stops the backend.
func (s *session) attend() error {
	t := s.t
	if s.b == nil || t.settled {
		return nil
	}
	switch s.presence() {
	case gone:
		return errClientGone
	case leaving:
		grace := s.srv.cfg.CommitGrace
		switch {
		case !t.lasts():
			return errClientGone
		case t.leftAt.IsZero():
			t.leftAt = time.Now()
		case grace > 0 && time.Since(t.leftAt) >= grace:
			return errClientLeft
		}
	}
	if time.Since(s.probed) < lookEvery { // the answer comes soon
		s.alarmBy(time.Now().Add(lookEvery))
	}
	return nil
}
