package proxy

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file finds out whether a client still waits for its turn's answer. The session's goroutine checks while its
// backend takes long (checkClient). While the session waits inside Sluice, another goroutine checks
// (checkClientWaits), and nothing else reads the client.

// clientState is the state of a client whose turn waits. Meanwhile the session reads no frame from the client.
type clientState uint8

const (
	// clientHere means that the client may be waiting for its answer. The client may have closed its half of the stream.
	clientHere clientState = iota
	// clientLeaving means that the client's next frame is a Terminate.
	clientLeaving
	// clientGone means that the connection to the client is broken.
	clientGone
)

// readClientState checks, without waiting, what the client has sent and the state of its socket. It reads ahead, and
// must not be called by code that is about to read from the client. It records a broken connection in clientBroken,
// since a socket reports a failure only once.
//
// A closed connection looks like one whose client closed only its sending half. Such a client must get its answer, as
// in PostgreSQL. Only a write shows whether the client is there (probeClient).
func (l *link) readClientState() clientState {
	c := &l.client
	eof := c.Raw.Ended()
	// In the middle of a client's frame Sluice does not look for a Terminate, because data bytes could look like one.
	for !l.t.request.midClient {
		if c.Buffered() > 0 {
			if first, some := c.HasTerminate(); first {
				return clientLeaving
			} else if some {
				return clientHere
			}
			if c.IsFull() {
				break
			}
		}
		n, err := l.readAhead()
		if n == 0 {
			if err != nil && !isTimeout(err) {
				eof = true
				l.clientBroken = l.clientBroken || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
			}
			break
		}
	}
	l.clientBroken = l.clientBroken || c.Raw.Broken()
	// Sluice does not notice an end of stream behind unread bytes, which remain while the backend accepts no more.
	if eof || l.t.isMidFrameProbeDue() {
		l.clientBroken = l.clientBroken || l.probeClient() != nil
	}
	if l.clientBroken {
		return clientGone
	}
	return clientHere
}

// hasClientLeft reports whether the client has left, between two steps of a statement. Sluice writes a probe to a
// client that has closed its sending half. Then hasClientLeft waits a moment for the answer of the client's host.
func (l *link) hasClientLeft() bool {
	before := l.probed
	if l.readClientState() != clientHere {
		return true
	}
	if l.probed == before {
		return false
	}
	time.Sleep(probeAnswer)
	return l.readClientState() != clientHere
}

// isMidFrameProbeDue reports whether the client has been in the middle of a frame for midFrameProbeEvery. If so, it
// measures again from now.
func (t *turn) isMidFrameProbeDue() bool {
	switch {
	case !t.request.midClient:
		t.observed.midSince = time.Time{}
	case t.observed.midSince.IsZero():
		t.observed.midSince = time.Now()
	case time.Since(t.observed.midSince) >= midFrameProbeEvery:
		t.observed.midSince = time.Now()
		return true
	}
	return false
}

// readAhead reads more of what the client has sent, without moving unread bytes, so that slices of the current frame
// remain valid. It resets the read deadline, except the deadline that cuts the session. It returns 0 and nil if
// nothing has arrived, or if the buffer has no room.
func (l *link) readAhead() (n int, err error) {
	c := &l.client
	if !c.EnsureRoom() {
		return 0, nil
	}
	if c.IsPlain() && c.Raw.Peek() == rawconn.Quiet {
		return 0, nil
	}
	defer func() {
		c.Conn.SetReadDeadline(time.Time{})
		if l.waits.IsCut() {
			c.Conn.SetReadDeadline(time.Unix(1, 0))
		}
	}()
	if c.IsPlain() {
		c.Conn.SetReadDeadline(time.Time{})
		return c.ReadMore()
	}
	// Decrypted bytes may be in TLS's buffer when the socket has none, as in backend.readAvailable.
	c.Conn.SetReadDeadline(time.Unix(1, 0))
	n, err = c.ReadMore()
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.Raw.Peek() != rawconn.Quiet {
		c.Conn.SetReadDeadline(time.Now().Add(partialRecordWait))
		n, err = c.ReadMore()
	}
	return n, err
}

// frameProbe is a frame that tests a client's connection and changes nothing for the client, since integer_datetimes is
// "on" in every server. Sluice may send it between any two frames.
var frameProbe = wire.AppendStrings(nil, wire.ParameterStatus, "integer_datetimes", "on")

// probeClient writes to a client that may have left. If the client's socket is closed, its host answers with a reset,
// which the next readClientState finds.
func (l *link) probeClient() error {
	t := l.t
	if t.partial.rest > 0 || t.attempt.halfRowLost || time.Since(l.probed) < probeEvery {
		return nil
	}
	l.probed = time.Now()
	if err := l.bufferOutput(frameProbe); err != nil {
		return err
	}
	return l.flushBuffered()
}

// probeEvery and midFrameProbeEvery are the intervals between probes of a client. probeEvery is for a client that has
// closed its sending half, midFrameProbeEvery for one that stopped within a frame.
const (
	probeEvery         = sweepEvery / 2
	midFrameProbeEvery = 4 * sweepEvery
	// probeAnswer is how long Sluice waits for a reset after a probe of the client: a few round trips within a region.
	probeAnswer = 20 * time.Millisecond
)

// mayCommitWithoutClient reports whether the turn may commit without another frame of the client. The server may
// commit, or Sluice may send the COMMIT of its own block at the end of the turn.
func (t *turn) mayCommitWithoutClient() bool {
	return t.server.outcome.MayCommit() || t.request.ended && t.server.internalTx.on
}

// checkClient checks on the client while its turn waits long for the backend, whenever a deadline ends a read. If
// the client is gone or has sent Terminate, checkClient returns an error that ends the session and stops the
// backend. After Terminate, a turn that may commit continues for Config.CommitGrace.
func (s *session) checkClient() error {
	t := s.t
	if s.b == nil || t.settled {
		return nil
	}
	switch s.readClientState() {
	case clientGone:
		return errClientGone
	case clientLeaving:
		grace := s.srv.cfg.CommitGrace
		switch {
		case !t.mayCommitWithoutClient():
			return errClientGone
		case t.observed.leftAt.IsZero():
			t.observed.leftAt = time.Now()
		case grace > 0 && time.Since(t.observed.leftAt) >= grace:
			return errClientLeft
		}
	}
	if time.Since(s.probed) < lookEvery { // the probe's answer comes soon
		s.waits.ArmBy(time.Now().Add(lookEvery))
	}
	return nil
}
