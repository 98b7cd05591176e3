package proxy

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file sends output to the client. sendOrWithhold sends bytes of the server, or withholds them for a replay.
// bufferOutput gathers output, and flushBuffered writes that output.

// sendOrWithhold sends bytes of the server's answer to the client, or withholds them for a replay. Large outputs are
// written at once if the buffer is empty, others at the next flush. sendOrWithhold does not retain b. It drops the
// bytes of a failed attempt. An error ends the session.
func (l *link) sendOrWithhold(b []byte) error {
	t := l.t
	if t.settled && t.nested.hiddenAnswer == nil {
		b = t.nested.stripReady(b)
	}
	if len(b) == 0 || t.rec.phase == phaseAborting {
		return nil
	}
	if t.rec.logs && !t.settled && l.t.rec.isWithholding() {
		if l.withheld.Add(b) {
			return nil
		}
		// The answer is too large to withhold. A later replay must return the same bytes as this attempt.
		t.rec.streams = true
	}
	if err := l.releaseWithheld(); err != nil {
		return err
	}
	return l.bufferOutput(b)
}

// bufferOutput sends bytes to the client without withholding them. In a nested turn, hiddenAnswer reads them first.
func (l *link) bufferOutput(b []byte) error {
	if l.t.nested.hiddenAnswer != nil {
		b = l.t.nested.hiddenAnswer.Feed(b)
	}
	if len(b) == 0 {
		return nil
	}
	k := &l.t.down
	if k.IsEmpty() && (len(b) >= wire.BufferSize/2 || l.t.settled) {
		return l.writeClient(b)
	}
	for len(b) > 0 {
		n := min(len(b), k.FreeBytes())
		k.Add(b[:n])
		b = b[n:]
		if k.FreeBytes() == 0 {
			if err := l.flushBuffered(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushBuffered writes the output in the turn's buffer to the client. Output withheld for a replay is not written.
func (l *link) flushBuffered() error {
	k := &l.t.down
	if k.IsEmpty() {
		return nil
	}
	err := l.writeClient(k.Bytes())
	k.Reset()
	return err
}

// writeClient writes to the client. Its error wraps errClientGone and ends the session without another message. If the
// end of a drain cancelled the write before it began, b is written with the deadline lastWordsWait instead.
func (l *link) writeClient(b []byte) error {
	n, err := l.client.Conn.Write(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && l.waits.IsCut() && !l.clientBroken {
		l.client.Conn.SetWriteDeadline(time.Now().Add(lastWordsWait))
		_, err = l.client.Conn.Write(b)
	}
	if err != nil {
		l.clientBroken = true
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	return nil
}

// queueReply sends frames that Sluice made up, after all pending replies. It logs the frames, for a replay.
func (l *link) queueReply(frames ...[]byte) error {
	t := l.t
	for _, b := range frames {
		l.t.rec.logFrame(0, logEntry{}, b)
		if !t.owed.empty() {
			t.owed.push(0).bytes = b
			continue
		}
		if err := l.sendSynthetic(b); err != nil {
			return err
		}
	}
	return nil
}

// isSyntheticNext reports whether the next pending reply is one that Sluice made up, which can be sent now.
func (t *turn) isSyntheticNext() bool { return !t.owed.empty() && t.owed.first().kind == 0 }

// sendSyntheticReplies sends the replies at the front of the queue that Sluice made up, and removes these replies.
func (l *link) sendSyntheticReplies() {
	t := l.t
	for t.isSyntheticNext() {
		l.sendSynthetic(t.owed.first().bytes) // a write error shows again at the next write
		t.owed.pop()
	}
}
