package proxy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// This file handles the FATAL error with which a server ends a connection. Sluice logs the error, and adds it to the
// DETAIL of the error with which the client learns of the lost backend.

// serverFatalError is the FATAL or PANIC error with which a server ended a connection.
type serverFatalError struct{ code, message string }

// maxFatalMessage limits how many bytes Sluice stores of the message in a server's FATAL error.
const maxFatalMessage = 300

// parseServerFatal returns the error in an ErrorResponse's payload if that error ends the connection, or nil.
func parseServerFatal(payload []byte) *serverFatalError {
	if sev := string(retry.ErrorField(payload, 'V')); sev != "FATAL" && sev != "PANIC" {
		return nil
	}
	message := retry.ErrorField(payload, 'M')
	return &serverFatalError{string(retry.ErrorField(payload, 'C')), strings.ToValidUTF8(string(message[:min(len(message), maxFatalMessage)]), "")}
}

// Error returns the server's FATAL error as text for the process's log.
func (f *serverFatalError) Error() string {
	return fmt.Sprintf("server said %s: %s", f.code, f.message)
}

// withServerReason returns told, the client's error for a lost backend, with the server's FATAL error in the DETAIL.
func (e *lostError) withServerReason(told *wire.Error) *wire.Error {
	said, ok := errors.AsType[*serverFatalError](e.err)
	if !ok || told == nil || !strings.HasPrefix(told.Code, "08") {
		return told
	}
	with := *told
	with.Detail = strings.TrimSpace(told.Detail + " " + said.sentence())
	return &with
}

// sentence returns the server's FATAL error as a sentence for the client's DETAIL.
func (f *serverFatalError) sentence() string {
	return fmt.Sprintf("The server said: %s (SQLSTATE %s).", strings.TrimRight(f.message, "."), f.code)
}

// readServerFatal looks for the server's FATAL error in the bytes that arrived on the lost connection, and stores it in
// gone. It does not wait for more bytes.
func (p *pairing) readServerFatal(gone *lostError) {
	if _, heard := errors.AsType[*serverFatalError](gone.err); heard || gone.silent || p.b == nil || p.t.partial.rest > 0 {
		return
	}
	if p.b.closingError != nil {
		gone.err = p.b.closingError
		return
	}
	src := &p.b.src
	for range maxFatalReads {
		for {
			typ, total, err := src.NextHeader()
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
			if said := parseServerFatal(frame[wire.HeaderLen:]); said != nil {
				gone.err = said
				return
			}
		}
		if p.b.readAvailable() != nil {
			return
		}
	}
}

// recordServerFatal stores the server's FATAL error for a session that ends together with its pinned backend.
func (s *session) recordServerFatal(err error) {
	if s.pin.IsPinned() || s.pin.IsLost() {
		s.lastServerFatal, _ = errors.AsType[*serverFatalError](err)
	}
}

// pinLostError returns sqlerror.PinLost, which ends the session, with the server's FATAL error in its DETAIL.
func (s *session) pinLostError() *wire.Error {
	if s.lastServerFatal == nil {
		return sqlerror.PinLost
	}
	return (&lostError{err: s.lastServerFatal}).withServerReason(sqlerror.PinLost)
}

// handleDedicatedLoss ends a session whose dedicated backend was lost during a turn. If the client has not yet got the
// server's FATAL error, the returned error has it.
func (s *session) handleDedicatedLoss(gone *lostError) error {
	passed := s.b.closingError != nil
	s.readServerFatal(gone)
	said, heard := errors.AsType[*serverFatalError](gone.err)
	if !heard {
		return gone
	}
	s.srv.log.Warn("backend lost in a turn", append(s.logAttrs(), "error", gone.err)...)
	if passed || s.t.isMidRow() {
		return gone
	}
	return &wire.Error{Fatal: true, Code: said.code, Message: said.message}
}

// maxFatalReads limits how often Sluice reads from a lost backend to find the server's FATAL error.
const maxFatalReads = 4
