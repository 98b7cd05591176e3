package proxy

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// A startup whose settings the server would refuse is refused, as by the server itself: introduce has
// tryStartup ask, before the client is told anything. Values that every server takes are not asked
// for, and those that one has taken lately are known.

// acceptedAge is for how long what a server has taken is not asked for again.
const acceptedAge = 10 * time.Minute

// doubt notes a setting of the startup that a server may refuse. The error refuses it here.
func (s *session) doubt(doubts map[string]string, name, value string) error {
	sure, refusal := settings.Sure(name, value)
	if refusal != nil {
		s.srv.metrics.Refused(metrics.FeatureSetting)
		return refusal
	}
	if !sure {
		doubts[name] = settings.StartupSQL(name, value)
	}
	return nil
}

// tryStartup has a server take the settings that the startup has given, in doubts by their names as
// SQL, and adds to shown what the server reports with them. unappliedSetting is tried by itself, and adds
// nothing. The error is for the client.
func (srv *Server) tryStartup(doubts, shown map[string]string) error {
	if value, is := doubts[unappliedSetting]; is {
		if err := srv.trySettings(map[string]string{unappliedSetting: value}, map[string]string{}); err != nil {
			return err
		}
		delete(doubts, unappliedSetting)
	}
	return srv.trySettings(doubts, shown)
}

// trySettings is tryStartup for settings that servers apply. Where no backend of a plain PostgreSQL was seen yet, it
// waits for the first even without settings: nobody knows before what to tell the client of the server. Where no
// backend can be had, it goes by what a server has taken before.
func (srv *Server) trySettings(doubts, shown map[string]string) error {
	of := settings.New(doubts)
	sql := settings.Diff(srv.interned.None(), of)
	unknown := srv.cfg.Kind == Postgres && srv.backends.Params() == nil
	var taken settings.Taken
	if sql != "" {
		taken = srv.accepted.Find(sql)
	}
	if unknown || sql != "" && time.Since(taken.At) >= acceptedAge {
		now, refusal, err := srv.tryAt(of)
		switch {
		case refusal != nil:
			return srv.spelt(refusal)
		case err == nil:
			taken = settings.Taken{At: time.Now(), Shown: now}
			srv.accepted.Add(sql, taken)
		case unknown || taken.At.IsZero():
			return errNoBackend(err)
		}
	}
	for _, p := range taken.Shown {
		shown[p.Lower] = p.Value
	}
	return nil
}

// unappliedSetting is a setting that servers check at startup and do not apply: the session is that of its user.
const unappliedSetting = "session_authorization"

// spelt is a server's refusal with the parameter's name as servers, and most clients, spell it.
func (srv *Server) spelt(refusal *wire.Error) *wire.Error {
	e := *refusal
	for _, p := range srv.params().All {
		e.Message = strings.Replace(e.Message, "parameter \""+p.Lower+"\"", "parameter \""+p.Name+"\"", 1)
	}
	e.Fatal = true
	return &e
}

// tryAt brings settings to a backend, where they stay until its next client's replace them. refusal is
// the server's; the error says that no server has said anything. shown are the parameters that the
// server reports otherwise with the settings than without.
func (srv *Server) tryAt(of *settings.Values) (shown []settings.Param, refusal *wire.Error, err error) {
	ctx, stop := context.WithTimeout(srv.ctx, srv.cfg.Startup.Timeout)
	defer stop()
	err = errors.New("the settings of the startup could not be tried")
	for range mostCatalogTries {
		var conn *reservoir.Conn
		if conn, err = srv.backends.Acquire(ctx); err != nil {
			return nil, nil, err
		}
		b := srv.forQuestion(conn)
		if b == nil {
			err = errClosed
			continue
		}
		var told []byte
		if told, err = srv.apply(ctx, b, of); err != nil {
			b.src.Drop()
			conn.Discard(reservoir.Broken)
			continue
		}
		shown = b.reported.News(b.dialled)
		b.release()
		if told == nil {
			return shown, nil, nil
		}
		e := toldBy(told)
		if question.Classify(e.Code) == question.Refusal {
			return nil, e, nil
		}
		err = e // a server that cannot work now has said nothing of the value
	}
	return nil, nil, err
}

// apply brings a backend that no session holds from what it has to settings. It ends with ctx.
func (srv *Server) apply(ctx context.Context, b *backend, of *settings.Values) (refusal []byte, err error) {
	if b.applied == nil {
		b.applied = srv.interned.None() // as in syncSettings
	}
	reset := ""
	from := b.applied
	if b.unsure {
		reset, from = srv.resetSQL(), srv.interned.None()
	}
	sql := reset + settings.Diff(from, of)
	if sql == "" {
		return nil, nil
	}
	wake := context.AfterFunc(ctx, func() { b.conn.Net.SetReadDeadline(time.Unix(1, 0)) })
	refusal, err = b.exchangeAll(wire.AppendStrings(nil, wire.Query, sql), func([]byte) {}, b.patience, time.Time{}, ctx.Err)
	if !wake() && err == nil {
		err = ctx.Err()
	}
	if err == nil && refusal == nil {
		b.applied, b.unsure = of, false
		b.reported = srv.sharedReports.Share(b.reported)
		b.idle = b.reported
	}
	return refusal, err
}
