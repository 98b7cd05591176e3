package proxy

import (
	"context"
	"errors"
	"slices"
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
// SQL, and adds to shown what the server reports with them. Unapplied settings are tried by themselves, and add
// nothing. The error is for the client.
func (srv *Server) tryStartup(doubts, shown map[string]string) error {
	for name := range unapplied {
		value, is := doubts[name]
		if !is {
			continue
		}
		// A server reads a startup's settings in a transaction that has its snapshot.
		sql := "SELECT 1; SET LOCAL " + settings.QuoteName(name) + " TO " + value
		if err := srv.trySettings(nil, sql, map[string]string{}); err != nil {
			return err
		}
		delete(doubts, name)
	}
	return srv.trySettings(doubts, "", shown)
}

// trySettings is tryStartup for settings that servers apply, and for SQL that leaves nothing. Where no backend of a plain PostgreSQL was seen yet, it
// waits for the first even without settings: nobody knows before what to tell the client of the server. Where no
// backend can be had, it goes by what a server has taken before.
func (srv *Server) trySettings(doubts map[string]string, local string, shown map[string]string) error {
	of := settings.New(doubts)
	sql := settings.Diff(srv.interned.None(), of) + local
	unknown := srv.cfg.Kind == Postgres && srv.backends.Params() == nil
	var taken settings.Taken
	if sql != "" {
		taken = srv.accepted.Find(sql)
	}
	if unknown || sql != "" && time.Since(taken.At) >= acceptedAge {
		now, refusal, err := srv.tryAt(of, local)
		switch {
		case refusal != nil:
			return refusal
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

// unapplied are settings that servers check at startup and do not apply: the session is that of its user,
// and the startup's transaction ends with the startup.
var unapplied = map[string]bool{"session_authorization": true, "transaction_isolation": true, "transaction_read_only": true, "transaction_deferrable": true}

// oddSetting is the refusal of a setting that a SET cannot give as a startup does; nil for any other.
func oddSetting(name, value string) error {
	switch {
	case strings.Contains(name, ".") && slices.Contains(strings.Split(name, "."), ""):
		return &wire.Error{Fatal: true, Code: "42602", Message: "invalid configuration parameter name \"" + name + "\"",
			Detail: "Custom parameter names must be two or more simple identifiers separated by dots."}
	case (name == "local_preload_libraries" || name == "session_preload_libraries") && value != "":
		return &wire.Error{Fatal: true, Code: "55P02", Message: "parameter \"" + name + "\" cannot be set after connection start"}
	}
	return nil
}

// ownNames are settings of text in whose errors a server spells the name itself, as it does in each that has a DETAIL.
var ownNames = map[string]bool{"client_encoding": true, "default_tablespace": true, "default_text_search_config": true,
	"default_table_access_method": true, "timezone_abbreviations": true, "lc_messages": true, "lc_monetary": true, "lc_numeric": true, "lc_time": true}

// asSpelt is a refusal of a startup with the parameter's name as the client has spelt it (startup.Client).
func asSpelt(refusal error, spelt map[string]string) error {
	var told *wire.Error
	if !errors.As(refusal, &told) {
		return refusal
	}
	e := *told
	for lower, name := range spelt {
		if (ownNames[lower] || e.Detail != "") && strings.HasPrefix(e.Message, "invalid value for parameter") {
			continue
		}
		for _, in := range []string{"parameter \"", "parameter name \""} {
			e.Message = strings.Replace(e.Message, in+lower+"\"", in+name+"\"", 1)
		}
	}
	return &e
}

// tryAt brings settings to a backend, where they stay until its next client's replace them, and has it run local. refusal is
// the server's; the error says that no server has said anything. shown are the parameters that the
// server reports otherwise with the settings than without.
func (srv *Server) tryAt(of *settings.Values, local string) (shown []settings.Param, refusal *wire.Error, err error) {
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
		if told, err = srv.apply(ctx, b, of, local); err != nil {
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

// apply brings a backend that no session holds from what it has to settings, and has it run local in the same
// request. It ends with ctx.
func (srv *Server) apply(ctx context.Context, b *backend, of *settings.Values, local string) (refusal []byte, err error) {
	if b.applied == nil {
		b.applied = srv.interned.None() // as in syncSettings
	}
	reset := ""
	from := b.applied
	if b.unsure {
		reset, from = srv.resetSQL(), srv.interned.None()
	}
	sql := reset + settings.Diff(from, of) + local
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
