package proxy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// This file handles the FATAL error with which a server ends a connection. Sluice logs it, and adds it to the DETAIL of
// the client's error about the lost backend.

// lastWords is the FATAL or PANIC error with which a server ended a connection.
type lastWords struct{ code, message string }

// mostFarewell limits the stored bytes of the error's message.
const mostFarewell = 300

// farewellOf returns the error in an ErrorResponse's payload if it ends the connection, else nil.
func farewellOf(payload []byte) *lastWords {
	if sev := string(retry.Field(payload, 'V')); sev != "FATAL" && sev != "PANIC" {
		return nil
	}
	message := retry.Field(payload, 'M')
	return &lastWords{string(retry.Field(payload, 'C')), strings.ToValidUTF8(string(message[:min(len(message), mostFarewell)]), "")}
}

// Error returns the text for the log.
func (f *lastWords) Error() string { return fmt.Sprintf("server said %s: %s", f.code, f.message) }

// toldOfLoss returns a client's error about a lost backend, with the server's last error added to its DETAIL.
func (e *lostError) toldOfLoss(told *wire.Error) *wire.Error {
	said, ok := errors.AsType[*lastWords](e.err)
	if !ok || told == nil || !strings.HasPrefix(told.Code, "08") {
		return told
	}
	with := *told
	with.Detail = strings.TrimSpace(told.Detail + " " + said.words())
	return &with
}

// words returns the server's error as a sentence for people.
func (f *lastWords) words() string {
	return fmt.Sprintf("The server said: %s (SQLSTATE %s).", strings.TrimRight(f.message, "."), f.code)
}

// hearFarewell reads the lost connection for the server's last error, and stores it in gone. It does not wait for more
// bytes.
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

// hears stores the server's last error for a session that ends together with its pinned backend.
func (s *session) hears(err error) {
	if s.pinned || s.pinLost {
		s.lastSaid, _ = errors.AsType[*lastWords](err)
	}
}

// pinGone returns errPinLost with the server's last error in its DETAIL.
func (s *session) pinGone() *wire.Error {
	if s.lastSaid == nil {
		return errPinLost
	}
	return (&lostError{err: s.lastSaid}).toldOfLoss(errPinLost)
}

// dedicatedLost ends a session whose dedicated backend was lost during a turn. If the client has not received the
// server's last error, the returned error sends it.
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

// mostFarewellReads limits the reads from a lost backend.
const mostFarewellReads = 4
