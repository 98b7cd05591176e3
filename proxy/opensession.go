package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/opening"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// This file turns a connection into a session: the startup (package startup), limits, settings of the startup packet,
// and the greeting. Server.serveConn calls admitRecovering. cancel.go handles cancel requests, which come on separate
// connections. The end of the file has the metrics' names for refused startups and ends of sessions.

// secretLen30 and secretLen32 are the lengths in bytes of a cancel key's secret, for protocols 3.0 and 3.2.
const (
	secretLen30 = 4
	secretLen32 = 32
	protocol32  = 3<<16 | 2
)

// admitRecovering calls admitClient, and recovers from a panic, so that it ends only this connection.
func (srv *Server) admitRecovering(in *clientConn, raw rawconn.Conn) (s *session) {
	defer func() {
		if p := recover(); p != nil {
			srv.log.Error("startup panicked", "client", raw.RemoteAddr().String(), "panic", p, "stack", string(debug.Stack()))
			raw.Close()
			s = nil
		}
	}()
	return srv.admitClient(in, raw)
}

// admitClient runs a client's startup. It returns a session that the caller must run, and whose client may send
// queries. After a cancel request, a refusal, or the client's leaving it closes the connection and returns nil.
func (srv *Server) admitClient(in *clientConn, raw rawconn.Conn) *session {
	// Until FinishOpening, Server.Close ends this connection by CloseUnopened. Later it calls session.interrupt.
	defer srv.accepting.arrivals.FinishOpening(&in.Conn)
	// If startup.Run fails, it has sent the client its error. If openSession fails, the code below sends the error.
	h, err := srv.startup.Run(raw)
	srv.accepting.arrivals.FinishStartup(&in.Conn)
	switch {
	case err != nil:
		srv.metrics.CountStartupRefusal(opening.RefusalLabel(err))
		if !errors.Is(err, io.EOF) {
			srv.log.Info("startup refused", "client", raw.RemoteAddr().String(), "error", err)
		}
	case h.Cancel != nil:
		srv.serveCancelRequest(h.Cancel, raw.RemoteAddr())
	default:
		s, err := srv.openSession(h, in)
		if err == nil {
			return s
		}
		srv.metrics.CountStartupRefusal(opening.RefusalLabel(err))
		srv.log.Info("startup refused", "client", raw.RemoteAddr().String(), "error", err)
		var clientErr *wire.Error
		if errors.As(err, &clientErr) {
			// The client gets FATAL, since its connection ends.
			fatal := *clientErr
			fatal.Fatal = true
			raw.SetWriteDeadline(time.Now().Add(startup.RefusalTimeout))
			h.Conn.Write(fatal.Append(nil))
		}
	}
	if h != nil && h.Conn != nil {
		h.Conn.Close()
	}
	raw.Close()
	return nil
}

// openSession makes a session for an authenticated client and sends the greeting with ReadyForQuery. It borrows no
// backend, but dials one if the session is dedicated. A *wire.Error goes to the client, which has got nothing yet.
// Any other error means that the client has left. After an error nothing of the session remains.
//
// openSession counts the client before slow work, so that max_clients also holds for clients that arrive together.
func (srv *Server) openSession(h *startup.Client, in *clientConn) (*session, error) {
	if srv.draining.Load() {
		return nil, sqlerror.Draining
	}
	if srv.memory.IsShort() {
		fatal := *sqlerror.LowMemory
		fatal.Fatal = true
		return nil, &fatal
	}
	schema, err := srv.resolveDatabase(h)
	if err != nil {
		return nil, err
	}
	entered := false // the session is in srv.sessions: from then on forget reduces srv.clients
	defer func() {
		if !entered {
			srv.clients.Add(-1)
		}
	}()
	if n := srv.clients.Add(1); n > int64(srv.cfg.MaxClients) {
		return nil, sqlerror.TooManyClients(srv.cfg.MaxClients)
	}
	s := newSession(srv, srv.ids.Add(1), h)
	s.inSchema, s.arrival = schema, in
	out, err := srv.prepareGreeting(s, h)
	if err != nil {
		return nil, err
	}
	in.swept.path.Limit = srv.cfg.ClientPathLimit
	srv.mu.Lock()
	srv.sessions[s] = &in.swept
	srv.mu.Unlock()
	entered = true
	n := secretLen30
	if h.Protocol >= protocol32 {
		n = secretLen32
	}
	srv.cancels.keys.issue(s, n)
	out = wire.AppendHeader(out, wire.BackendKeyData, 4+n)
	out = binary.BigEndian.AppendUint32(out, s.key.pid)
	out = append(out, s.key.secret...)
	out = wire.AppendReadyForQuery(out, 'I')
	// A client may send its first frames together with the startup packet. h.Rest holds these frames.
	if len(h.Rest) > 0 {
		s.client.PutBack(h.Rest)
	}
	// Sluice cuts off a client that does not read the greeting in the startup timeout. If the startup used most of that
	// time, the client gets the full timeout again.
	if now := time.Now(); h.Until.Sub(now) < srv.cfg.Startup.Timeout/2 {
		h.Raw.SetWriteDeadline(now.Add(srv.cfg.Startup.Timeout))
	}
	if _, err := h.Conn.Write(out); err != nil {
		s.end(errClientGone)
		srv.removeSession(s)
		return nil, err
	}
	h.Raw.SetDeadline(time.Time{}) // await checks why it should wake before it reads, so no wake-up is lost here
	srv.metrics.CountSessionStart()
	return s, nil
}

// resolveDatabase replaces the client's database name by the database that the configuration gives for that name. For a
// name that means a schema, it adds startup values and returns the schema. A returned error goes to the client.
func (srv *Server) resolveDatabase(h *startup.Client) (schema string, err error) {
	means, ok := srv.names.Resolve(h.Database)
	switch {
	case !ok:
		return "", sqlerror.DatabaseNotListed(h.Database)
	case means.Schema == "":
		h.Database = means.Database
		return "", nil
	}
	if h.Params, err = opening.InSchema(h.Params, means.Schema); err != nil {
		srv.metrics.CountRefusal(metrics.FeatureSetting)
	}
	return means.Schema, err
}

// prepareGreeting prepares the session's settings, or dials its own backend. It returns AuthenticationOk and the
// ParameterStatus frames. For shared backends, the values are the client's from its startup packet, or else those of
// the backend dialled last. A returned error goes to the client, and no backend remains.
func (srv *Server) prepareGreeting(s *session, h *startup.Client) ([]byte, error) {
	var g *opening.Greeting
	var notices []byte
	if srv.cfg.hasDedicatedBackends() {
		var err error
		if notices, err = s.dialDedicated(h); err != nil {
			return nil, err
		}
		if err := s.applyEvent(settledHeld); err != nil {
			return nil, err
		}
		g = opening.NewGreeting(srv.pool.settings, settings.NewReports(s.b.conn.Params), s.settings.Startup)
	} else {
		if err := s.storeStartupSettings(h.Params); err != nil {
			return nil, opening.WithClientSpelling(err, h.Spelt)
		}
		if s.inSchema != "" {
			switch there, err := srv.schemaExists(s.inSchema); {
			case err != nil:
				return nil, err
			case !there:
				return nil, sqlerror.NoDatabase(h.Database)
			}
		}
		if err := s.applyEvent(started); err != nil {
			return nil, err
		}
		g = srv.opening.Greetings.Find(srv.pool.settings, srv.pool.settings.Parameters(), s.settings.Startup)
	}
	s.settings.Reported = g.Parameters
	const beside = 64 // room for AuthenticationOk, BackendKeyData and ReadyForQuery
	out := append(make([]byte, 0, len(g.Frames)+len(notices)+beside), wire.Authentication, 0, 0, 0, 8, 0, 0, 0, 0)
	out = append(append(out, notices...), g.Frames...)
	for _, set := range s.options.StartupChoices(s.settings.Options()) {
		out = s.appendOptionNotice(out, set)
	}
	return out, nil
}

// dialDedicated dials a backend for this client alone, with the client's startup parameters. It returns the notices
// that the server sent. The client gets the server's error if the server refuses, else sqlerror.NoBackend.
func (s *session) dialDedicated(h *startup.Client) (notices []byte, err error) {
	s.dedicated = true
	ctx, stop := context.WithTimeout(s.srv.ctx, s.srv.cfg.Startup.Timeout)
	defer stop()
	conn, err := s.srv.pool.backends.DialDedicated(ctx, reservoir.Startup{Database: h.Database, Params: h.Params})
	if err != nil {
		var refusal *reservoir.ServerError
		if errors.As(err, &refusal) {
			return nil, &wire.Error{Fatal: true, Code: refusal.Code, Message: refusal.Message,
				Detail: refusal.Detail, Hint: refusal.Hint}
		}
		return nil, sqlerror.NoBackend(err)
	}
	s.attachBackend(conn)
	for _, n := range conn.Notices {
		e := wire.Error{Code: n.Code, Message: n.Message, Detail: n.Detail, Hint: n.Hint}
		notices = e.AppendNotice(notices, n.Severity)
	}
	return notices, nil
}

// storeStartupSettings stores the settings of the startup packet. Each setting is applied to every backend that the
// session gets (applysettings.go), or stored in Sluice alone. tryStartupSettings asks a server about values that the
// server may refuse. A returned error goes to the client, and refuses the startup.
func (s *session) storeStartupSettings(params map[string]string) error {
	srv := s.srv
	of, err := srv.opening.Read(params)
	if err != nil {
		return err
	}
	if err := srv.tryStartupSettings(of.Doubts, of.Shown); err != nil {
		return err
	}
	s.optedOut = s.optedOut || of.OptsOut
	// Without startup settings, the session stays with the empty value that all such sessions share.
	if len(params) == 0 {
		return nil
	}
	for _, name := range of.Ignored {
		srv.metrics.CountIgnoredSetting(name)
	}
	return s.settings.ApplyStartup(of.Values())
}

// serveCancelRequest serves a CancelRequest on the goroutine of its connection. As in PostgreSQL, the requester gets no
// answer, and only metrics show the result. A timeout bounds the wait for a server that does not accept the cancel.
func (srv *Server) serveCancelRequest(r *startup.CancelRequest, from net.Addr) {
	var s *session
	known, heard := srv.cancels.keyGuesses.CheckGuess(from, time.Now(), func() bool {
		s = srv.cancels.keys.find(r.PID, r.Secret)
		return s != nil
	})
	switch {
	case !heard:
		srv.metrics.CountCancel(metrics.CancelGuesses)
		return
	case !known:
		srv.metrics.CountCancel(metrics.CancelUnknownKey)
		return
	}
	ctx, stop := context.WithTimeout(srv.ctx, exchangeTimeout)
	defer stop()
	switch s.waits.HandleCancelRequest(ctx, srv.cancelPolicy()) {
	case interrupt.Forwarded:
		srv.metrics.CountCancel(metrics.CancelForwarded)
	case interrupt.Dropped:
		srv.metrics.CountCancel(metrics.CancelDropped)
	}
}

// sessionEndLabel returns the metric's name for the end of a session. cause is the error that ended the session. If
// cause is a *wire.Error, the client got that error, and its SQLSTATE decides.
func sessionEndLabel(cause error) string {
	if errors.Is(cause, errTerminated) { // the usual case
		return metrics.EndTerminated
	}
	var clientErr *wire.Error
	switch {
	case errors.Is(cause, errCut):
		return metrics.EndClosed
	case errors.Is(cause, errServerGone):
		return metrics.EndServer
	case errors.As(cause, &clientErr):
		switch clientErr.Code {
		case "08P01":
			return metrics.EndProtocol
		case "57P01":
			return metrics.EndDrained
		case "57P05":
			return metrics.EndIdle
		case "25P03":
			return metrics.EndIdleTransaction
		case "08006":
			return metrics.EndBackendLost
		}
		return metrics.EndFault
	}
	var lost *lostError
	if errors.As(cause, &lost) {
		return metrics.EndServer
	}
	return metrics.EndDisconnected
}
