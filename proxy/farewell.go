package proxy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// What a server says when it ends a connection (FATAL): it goes into the log, and into the DETAIL of what the client is
// told of the loss.

// lastWords is the error with which a server has ended a connection.
type lastWords struct{ code, message string }

// mostFarewell bounds what is held of its message, in bytes.
const mostFarewell = 300

// farewellOf reads one from the payload of its ErrorResponse; nil where that does not end the connection.
func farewellOf(payload []byte) *lastWords {
	if sev := string(retry.Field(payload, 'V')); sev != "FATAL" && sev != "PANIC" {
		return nil
	}
	message := retry.Field(payload, 'M')
	return &lastWords{string(retry.Field(payload, 'C')), strings.ToValidUTF8(string(message[:min(len(message), mostFarewell)]), "")}
}

// Error is for the log.
func (f *lastWords) Error() string { return fmt.Sprintf("server said %s: %s", f.code, f.message) }

// toldOfLoss is e, which tells a client of a lost backend, with what the server has said in its DETAIL.
func (e *lostError) toldOfLoss(told *wire.Error) *wire.Error {
	said, ok := errors.AsType[*lastWords](e.err)
	if !ok || told == nil || !strings.HasPrefix(told.Code, "08") {
		return told
	}
	with := *told
	with.Detail = strings.TrimSpace(told.Detail + " " + said.words())
	return &with
}

// words are for people, as a sentence.
func (f *lastWords) words() string {
	return fmt.Sprintf("The server said: %s (SQLSTATE %s).", strings.TrimRight(f.message, "."), f.code)
}

// hearFarewell looks whether the server, of which a write or read has failed, has said why. Its backend is of no other
// use any more, and nothing is waited for.
func (s *session) hearFarewell(gone *lostError) {
	if _, heard := errors.AsType[*lastWords](gone.err); heard || gone.silent || s.b == nil || s.t.rest > 0 {
		return
	}
	if s.b.said != nil {
		gone.err = s.b.said
		return
	}
	src := &s.b.src
	for range mostFarewellReads {
		for {
			typ, total, err := src.Header()
			if err != nil || total > wire.BufferSize {
				return
			}
			if total == 0 || total > src.Buffered() {
				break
			}
			frame := src.Peek(total)
			src.Advance(total)
			if typ != wire.ErrorResponse {
				continue
			}
			if said := farewellOf(frame[wire.HeaderLen:]); said != nil {
				gone.err = said
				return
			}
		}
		if s.b.poll() != nil {
			return
		}
	}
}

// hears notes what a server has said whose backend was lost with err, for the end of a session that
// ends with its backend.
func (s *session) hears(err error) {
	if s.pinned || s.pinLost {
		s.lastSaid, _ = errors.AsType[*lastWords](err)
	}
}

// pinGone is errPinLost with what the server has said of the last loss.
func (s *session) pinGone() *wire.Error {
	if s.lastSaid == nil {
		return errPinLost
	}
	return (&lostError{err: s.lastSaid}).toldOfLoss(errPinLost)
}

// dedicatedLost ends a session whose own connection to the server was lost in a turn. The server's last
// words are the client's too: it is sent those that it has not.
func (s *session) dedicatedLost(gone *lostError) error {
	passed := s.b.said != nil
	s.hearFarewell(gone)
	said, heard := errors.AsType[*lastWords](gone.err)
	if !heard {
		return gone
	}
	s.srv.log.Warn("backend lost in a turn", append(s.logAttrs(), "error", gone.err)...)
	if passed || s.midRow() {
		return gone
	}
	return &wire.Error{Fatal: true, Code: said.code, Message: said.message}
}

// mostFarewellReads bounds how often a lost backend is read.
const mostFarewellReads = 4
