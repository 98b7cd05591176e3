package proxy

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// What the client is sent: spans of the backend's buffer that pass (passSpan, where output
// is withheld for a replay), frames of Sluice's own, gathered (writeDown) and written
// (flushDown). downlink.go decides what passes.

// named is the end of a turn's answer, with what the client must be told of
// settings that Sluice keeps in front of the ReadyForQuery. data is left as it is; the result may be
// data.
func (s *session) named(data []byte) []byte {
	n := len(data) - wire.HeaderLen - 1
	if !s.settings.MayRename() || n < 0 || data[n] != wire.ReadyForQuery {
		return data
	}
	return append(s.appendName(data[:n:n], data[n+wire.HeaderLen]), data[n:]...)
}

// appendName appends what the client must be told of such settings in front of a
// ReadyForQuery of that status.
func (s *session) appendName(dst []byte, status byte) []byte {
	for _, p := range s.settings.News(status) {
		dst = append(dst, wire.AppendStrings(nil, wire.ParameterStatus, p.Name, p.Value)...)
	}
	return dst
}

// passSpan sends bytes to the client, unless they are held back: at once when they are many
// and nothing waits before them, else with the next flush. The bytes are copied or written,
// not kept. In an attempt that has failed they are for nobody. An error is the session's
// end.
func (s *session) passSpan(b []byte) error {
	t := s.t
	if t.settled && t.own == nil {
		b = t.withoutReady(b)
	}
	if len(b) == 0 || t.phase == aborting {
		return nil
	}
	if t.logs && !t.settled && s.holding() {
		if s.withheld.Add(b) {
			return nil
		}
		// Too much to be withheld: from now on a replay has to answer all of it again.
		t.streams = true
	}
	if err := s.releaseWithheld(); err != nil {
		return err
	}
	return s.writeDown(b)
}

// writeDown is passSpan for bytes that are not held back. Of a silent turn's the client is sent news.
func (s *session) writeDown(b []byte) error {
	if s.t.own != nil {
		b = s.t.own.Take(b)
	}
	if len(b) == 0 {
		return nil
	}
	k := &s.t.down
	if k.Empty() && (len(b) >= wire.BufferSize/2 || s.t.settled) {
		return s.writeClient(b)
	}
	for len(b) > 0 {
		n := min(len(b), k.Room())
		k.Add(b[:n])
		b = b[n:]
		if k.Room() == 0 {
			if err := s.flushDown(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushDown writes what was gathered for the client. Withheld output stays where it is.
func (s *session) flushDown() error {
	k := &s.t.down
	if k.Empty() {
		return nil
	}
	err := s.writeClient(k.Bytes())
	k.Reset()
	return err
}

// writeClient writes to the client. Its error is errClientGone with the reason, and ends
// the session, which says nothing more. Where the end of a drain has found the session in
// front of the write, and not in it, none of b is written, and b has the time of last words.
func (s *session) writeClient(b []byte) error {
	n, err := s.client.Conn.Write(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && s.cutOff.Load() && !s.clientBroken {
		s.client.Conn.SetWriteDeadline(time.Now().Add(lastWordsWait))
		_, err = s.client.Conn.Write(b)
	}
	if err != nil {
		s.clientBroken = true
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	return nil
}

// tell appends frames of Sluice's own for the client behind everything owed before them,
// and logs them: a replay makes them up again. Where nothing is owed they are sent.
func (s *session) tell(frames ...[]byte) error {
	t := s.t
	for _, b := range frames {
		s.logFrame(0, logEntry{}, b)
		if !t.owed.empty() {
			t.owed.push(0).bytes = b
			continue
		}
		if err := s.synthesize(b); err != nil {
			return err
		}
	}
	return nil
}

// owesSynthetic reports whether an answer of our own is at the head of the queue: then all
// before it is answered.
func (t *turn) owesSynthetic() bool { return !t.owed.empty() && t.owed.first().kind == 0 }

// emitSynthetic writes the answers of our own that are at the head of the queue, and takes
// them off it.
func (s *session) emitSynthetic() {
	t := s.t
	for t.owesSynthetic() {
		s.synthesize(t.owed.first().bytes) // a write error shows again at the next write
		t.owed.pop()
	}
}
