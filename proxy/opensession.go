package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// This file is the step accept from a connection to a session that may begin: the startup
// (package startup), the limits, the settings of the startup packet, the greeting.
// Server.welcome calls admitGuarded. Cancel requests, which are connections too, go on in
// cancel.go. At the end stand the names that metrics have for ends and refusals.

// secretLen of the cancel keys that Sluice issues, by protocol version: 4 bytes in 3.0,
// PostgreSQL's own choice of 32 since 3.2.
const (
	secretLen30 = 4
	secretLen32 = 32
	protocol32  = 3<<16 | 2
)

// admitGuarded is admitClient, with a panic turned into the end of this connection alone.
func (srv *Server) admitGuarded(in *arrival, raw rawconn.Conn) (s *session) {
	defer func() {
		if p := recover(); p != nil {
			srv.log.Error("startup panicked", "client", raw.RemoteAddr().String(), "panic", p, "stack", string(debug.Stack()))
			raw.Close()
			s = nil
		}
	}()
	return srv.admitClient(in, raw)
}

// admitClient runs a client's startup. It returns nil when the connection has been dealt
// with, and closed: a cancel, a refusal, a client that left. Else the client has been told
// that it may send queries, and the session is on the Server's books: the caller runs it.
func (srv *Server) admitClient(in *arrival, raw rawconn.Conn) *session {
	// Close ends a startup too (admission.Conns.Cut). Once this function has returned, interrupt wakes
	// the session instead.
	defer srv.arrivals.Opened(&in.Conn)
	// A client whose startup fails in Run has been told why by Run, one that openSession
	// refuses is told here.
	h, err := srv.startup.Run(raw)
	srv.arrivals.Started(&in.Conn)
	switch {
	case err != nil:
		srv.metrics.StartupRefused(refusedReason(err))
		if !errors.Is(err, io.EOF) {
			srv.log.Info("startup refused", "client", raw.RemoteAddr().String(), "error", err)
		}
	case h.Cancel != nil:
		srv.cancel(h.Cancel, raw.RemoteAddr())
	default:
		s, err := srv.openSession(h, in)
		if err == nil {
			return s
		}
		srv.metrics.StartupRefused(refusedReason(err))
		srv.log.Info("startup refused", "client", raw.RemoteAddr().String(), "error", err)
		var clientErr *wire.Error
		if errors.As(err, &clientErr) {
			// The connection ends, whatever the error says of itself elsewhere.
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

// openSession makes a session of an authenticated client and tells it that it may begin. No
// backend is touched, unless the session is to have its own. A *wire.Error is for the
// client, who has been told nothing yet; any other error says that the client is gone. With
// an error nothing of the session is left.
//
// A place among the clients is taken before anything that takes time, and given back when
// something fails: so max_clients holds however many come at once.
func (srv *Server) openSession(h *startup.Client, in *arrival) (*session, error) {
	if srv.draining.Load() {
		return nil, errDraining
	}
	if srv.memory.Short() {
		fatal := *errShort
		fatal.Fatal = true
		return nil, &fatal
	}
	schema, err := srv.understood(h)
	if err != nil {
		return nil, err
	}
	entered := false // it is in sessions: forget gives the place back
	defer func() {
		if !entered {
			srv.clients.Add(-1)
		}
	}()
	if n := srv.clients.Add(1); n > int64(srv.cfg.MaxClients) {
		return nil, errTooManyClients(srv.cfg.MaxClients)
	}
	s := newSession(srv, srv.ids.Add(1), h)
	s.inSchema, s.arrival = schema, in
	out, err := srv.introduce(s, h)
	if err != nil {
		return nil, err
	}
	in.swept.path.limit = srv.cfg.ClientPathLimit
	srv.mu.Lock()
	srv.sessions[s] = &in.swept
	srv.mu.Unlock()
	entered = true
	n := secretLen30
	if h.Protocol >= protocol32 {
		n = secretLen32
	}
	srv.keys.issue(s, n)
	out = wire.AppendHeader(out, wire.BackendKeyData, 4+n)
	out = binary.BigEndian.AppendUint32(out, s.key.pid)
	out = append(out, s.key.secret...)
	out = wire.AppendReady(out, 'I')
	// A client may have sent its first frames in one piece with the startup packet.
	if len(h.Rest) > 0 {
		s.client.PutBack(h.Rest)
	}
	// A client that does not read its greeting holds a place for no longer than a startup
	// may take: from its beginning, or from now where introduce has taken most of that.
	if now := time.Now(); h.Until.Sub(now) < srv.cfg.Startup.Timeout/2 {
		h.Raw.SetWriteDeadline(now.Add(srv.cfg.Startup.Timeout))
	}
	if _, err := h.Conn.Write(out); err != nil {
		s.end(errClientGone)
		srv.forget(s)
		return nil, err
	}
	h.Raw.SetDeadline(time.Time{}) // a nudge may go with it: await looks for the reason of one before it reads
	srv.metrics.SessionStarted()
	return s, nil
}

// understood puts what the client's database name means in its place: a database, or the
// startup values of a session in a schema, which is returned. An error is for the client.
func (srv *Server) understood(h *startup.Client) (schema string, err error) {
	means, ok := srv.names.Find(h.Database)
	switch {
	case !ok:
		return "", errNotListed(h.Database)
	case means.Schema == "":
		h.Database = means.Database
		return "", nil
	}
	if h.Params, err = inSchema(h.Params, means.Schema); err != nil {
		srv.metrics.Refused(metrics.FeatureSetting)
	}
	return means.Schema, err
}

// introduce prepares the session's settings, or its own backend, and returns
// AuthenticationOk with what the client is told of the server. Where backends are shared
// the parameters are those of the backend dialled last, with the values that the client's startup
// gave in their place. An error is for the client, and
// leaves no backend behind.
func (srv *Server) introduce(s *session, h *startup.Client) ([]byte, error) {
	var g *greeting
	var notices []byte
	if srv.cfg.dedicated() {
		var err error
		if notices, err = s.dedicate(h); err != nil {
			return nil, err
		}
		if err := s.move(settledHeld); err != nil {
			return nil, err
		}
		g = srv.greet(greeted{settings.NewReports(s.b.conn.Params), s.settings.Startup})
	} else {
		if err := s.takeStartup(h.Params); err != nil {
			return nil, asSpelt(err, h.Spelt)
		}
		if s.inSchema != "" {
			switch there, err := srv.schemaThere(s.inSchema); {
			case err != nil:
				return nil, err
			case !there:
				return nil, errNoDatabase(h.Database)
			}
		}
		if err := s.move(started); err != nil {
			return nil, err
		}
		g = srv.greetings.find(greeted{srv.params(), s.settings.Startup}, srv.greet)
	}
	s.settings.Reported = g.told
	const beside = 64 // AuthenticationOk in front, BackendKeyData and ReadyForQuery behind
	out := append(make([]byte, 0, len(g.frames)+len(notices)+beside), wire.Authentication, 0, 0, 0, 8, 0, 0, 0, 0)
	return s.tellStartupChoices(append(append(out, notices...), g.frames...)), nil
}

// dedicate dials a backend for this client alone, with the client's own startup parameters,
// and returns the notices that the server sent meanwhile. The refusal of a server becomes
// the client's, with its SQLSTATE; any other failure is errNoBackend.
func (s *session) dedicate(h *startup.Client) (notices []byte, err error) {
	s.dedicated = true
	ctx, stop := context.WithTimeout(s.srv.ctx, s.srv.cfg.Startup.Timeout)
	defer stop()
	conn, err := s.srv.backends.DialDedicated(ctx, reservoir.Startup{Database: h.Database, Params: h.Params})
	if err != nil {
		var refusal *reservoir.ServerError
		if errors.As(err, &refusal) {
			return nil, &wire.Error{Fatal: true, Code: refusal.Code, Message: refusal.Message,
				Detail: refusal.Detail, Hint: refusal.Hint}
		}
		return nil, errNoBackend(err)
	}
	s.attach(conn)
	for _, n := range conn.Notices {
		e := wire.Error{Code: n.Code, Message: n.Message, Detail: n.Detail, Hint: n.Hint}
		notices = e.AppendNotice(notices, n.Severity)
	}
	return notices, nil
}

// retryOption is the startup option with which a client turns replay off. The values are
// "on" and "off".
const retryOption = "sluice.retry"

// takeStartup sorts the settings of a startup packet by their treatment: those that are
// carried will be applied to each backend in front of the session's next transaction
// (applysettings.go), kept ones are stored. A server is asked for what
// it may refuse (tryStartup). The error refuses the startup, and is for the client.
func (s *session) takeStartup(params map[string]string) error {
	doubts := map[string]string{}
	made := &settings.Values{SQL: map[string]string{}, Kept: map[string]string{}, Shown: map[string]string{}}
	for name, value := range params {
		if taken, err := s.takeOdd(name, value); err != nil {
			return err
		} else if taken {
			continue
		}
		switch s.srv.treat.To(name, value) {
		case settings.Own:
			if value, err := s.srv.chooses(name, value); err != nil {
				return err
			} else {
				made.Kept[name] = value
			}
			continue
		case settings.Carried:
			if err := s.doubt(doubts, name, value); err != nil {
				return err
			}
			if unapplied[name] {
				continue
			}
			if made.SQL[name] = settings.StartupSQL(name, value); name == "datestyle" { // as merged values are written
				if d := settings.ReadDateStyle(settings.DateStyle{}, value, settings.DateStyle{}); d != (settings.DateStyle{}) {
					made.SQL[name] = d.SQL()
				}
			}
		case settings.Kept, settings.Ignored:
			made.Kept[name] = value
		case settings.Foreign:
			if name == "default_transaction_isolation" && s.srv.hasLevel(value) {
				continue
			}
			s.srv.metrics.Refused(metrics.FeatureSetting)
			return errSettingRefused(name)
		}
		made.Shown[name] = settings.Reported(name, value)
	}
	if err := s.srv.tryStartup(doubts, made.Shown); err != nil {
		return err
	}
	// Without settings the session starts with None, which all such sessions share.
	if len(params) == 0 {
		return nil
	}
	base := settings.New(made.SQL)
	base.Kept, base.Shown = made.Kept, made.Shown
	for name := range base.Kept {
		if s.srv.treat.Of(name) == settings.Ignored {
			s.srv.metrics.SettingIgnored(name)
		}
	}
	return s.settings.Start(base)
}

// takeOdd is takeStartup for what is no setting of a server's, or must not have any value; taken says
// that there is nothing more to do about it.
func (s *session) takeOdd(name, value string) (taken bool, err error) {
	switch {
	case name == retryOption: // ours: no server would know it
		if !settings.SameValue(value, "on") && !settings.SameValue(value, "off") {
			return false, &wire.Error{Fatal: true, Code: "22023", Message: "invalid value for parameter \"" + name + "\": \"" + value + "\"",
				Hint: "Available values: on, off."}
		}
		s.optedOut = s.optedOut || settings.SameValue(value, "off")
		return true, nil
	case name == "standard_conforming_strings":
		shown, refusal := settings.Normal(name, value)
		if refusal != nil {
			return false, refusal
		}
		if shown == "on" {
			return false, nil
		}
		// A plan would take a backslash in a string for what it is not.
		s.srv.metrics.Refused(metrics.FeatureSetting)
		return false, &wire.Error{Fatal: true, Code: "0A000", Message: "standard_conforming_strings must be on",
			Hint: "Write strings with backslashes as E'...'."}
	case name == "role" && s.srv.cfg.Kind == DSQL:
		if !s.srv.isRole(value) {
			s.srv.metrics.Refused(metrics.FeatureSetting)
			return false, errSettingRefused(name)
		}
		return true, nil
	case s.srv.cfg.Kind == Postgres && !settings.IsOwn(name):
		return false, oddSetting(name, value)
	}
	return false, nil
}

// isRole reports whether a role is the one that all sessions have, or none.
func (srv *Server) isRole(name string) bool {
	st := srv.planner.Plan([]byte("SET role TO " + settings.QuoteLiteral(name))).Single()
	return name == "none" || st != nil && resetsRole(st)
}

// hasLevel reports whether a level, given at the startup, is one that all transactions have, or
// more: its SET would be answered too. One that is taken for less is refused, since nobody would be
// warned of it.
func (srv *Server) hasLevel(level string) bool {
	st := srv.planner.Plan([]byte("SET default_transaction_isolation TO " + settings.QuoteLiteral(level))).Single()
	return st != nil && st.Tag != "" && !st.Weakened
}

// cancel serves a CancelRequest, on the goroutine of its connection. The one who asks is
// told nothing, as by PostgreSQL, whatever comes of it: key and effect show in metrics
// only. The bound keeps a server that does not take cancels from holding the connection.
func (srv *Server) cancel(r *startup.CancelRequest, from net.Addr) {
	var s *session
	known, heard := srv.keyGuesses.Try(from, time.Now(), func() bool {
		s = srv.keys.find(r.PID, r.Secret)
		return s != nil
	})
	switch {
	case !heard:
		srv.metrics.Cancel(metrics.CancelGuesses)
		return
	case !known:
		srv.metrics.Cancel(metrics.CancelUnknownKey)
		return
	}
	ctx, stop := context.WithTimeout(srv.ctx, exchangeTimeout)
	defer stop()
	switch s.askCancel(ctx) {
	case "forwarded":
		srv.metrics.Cancel(metrics.CancelForwarded)
	case "dropped":
		srv.metrics.Cancel(metrics.CancelDropped)
	}
}

// endCause names the end of a session for the metric. cause is serve's: a *wire.Error is
// one that the client was told, and its SQLSTATE says which.
func endCause(cause error) string {
	if errors.Is(cause, errTerminated) { // most of the time
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

// refusedReason names a refused startup for the metric. err is that of package startup or
// of openSession. The prefix tells too many clients (errTooManyClients) from too few
// backends, which have one SQLSTATE.
func refusedReason(err error) string {
	var clientErr *wire.Error
	var network net.Error
	switch {
	case errors.As(err, &clientErr):
		switch {
		case clientErr == startup.ErrTimeout:
			return metrics.RefusedTimeout
		case clientErr == startup.ErrTooManyFailures:
			return metrics.RefusedGuesses
		case clientErr == startup.ErrPlainAfterTLS:
			return metrics.RefusedPlaintext
		case clientErr == startup.ErrTLSRequired || clientErr == startup.ErrNoALPN:
			return metrics.RefusedTLS
		case clientErr.Code == "57P01":
			return metrics.RefusedDraining
		case clientErr.Code == "53300" && strings.HasPrefix(clientErr.Message, "sorry"):
			return metrics.RefusedClients
		case clientErr.Code == "53200":
			return metrics.RefusedMemory
		case clientErr.Code == "08P01":
			return metrics.RefusedProtocol
		case clientErr.Code == "28P01" || clientErr.Code == "28000":
			return metrics.RefusedAuth
		case clientErr.Code == "0A000", clientErr.Code == "22023", clientErr.Code == "42501", clientErr.Code == "42704", clientErr.Code == "55P02", clientErr.Code == "42602":
			return metrics.RefusedParameter
		case clientErr.Code == "3D000":
			return metrics.RefusedDatabase
		}
		return metrics.RefusedBackend
	case errors.Is(err, io.EOF), errors.As(err, &network):
		return metrics.RefusedGone
	}
	return metrics.RefusedProtocol
}
