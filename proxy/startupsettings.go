package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/proxy/opening"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// This file tries the settings of a client's startup packet on a server (tryStartupSettings) before the client gets any
// answer. So Sluice refuses an invalid setting at the startup, as the server does. It does not try values that every
// server accepts, or that a server has accepted recently.

// acceptedAge is how long Sluice relies on a server's acceptance of a startup setting's value.
const acceptedAge = 10 * time.Minute

// tryStartupSettings tries on a server the settings in doubts, which maps names to SQL values. It adds to shown the
// parameters that the server reports with these settings. It tries each setting of opening.NamesCheckedByServer
// separately, and adds nothing to shown for it. The caller sends an error to the client.
func (srv *Server) tryStartupSettings(doubts, shown map[string]string) error {
	for _, name := range opening.NamesCheckedByServer() {
		value, is := doubts[name]
		if !is {
			continue
		}
		// The SELECT makes the server take a snapshot, since a server also reads a startup packet's settings in a
		// transaction with one.
		sql := "SELECT 1; SET LOCAL " + settings.QuoteName(name) + " TO " + value
		if err := srv.trySettings(nil, sql, map[string]string{}); err != nil {
			return err
		}
		delete(doubts, name)
	}
	return srv.trySettings(doubts, "", shown)
}

// trySettings tries settings on a server, and runs the SQL local, which leaves no state. It adds to shown the
// parameters that the server reports. If Sluice has had no PostgreSQL backend yet, it waits for one even without
// settings: the client must get the parameters. If no backend is available, an older acceptance by a server is enough.
func (srv *Server) trySettings(doubts map[string]string, local string, shown map[string]string) error {
	of := settings.NewValues(doubts)
	sql := srv.pool.settings.AllSQL(of) + local
	unknown := srv.cfg.Kind == Postgres && srv.pool.backends.Params() == nil
	var taken settings.AcceptedEntry
	if sql != "" {
		taken = srv.pool.accepted.Find(sql)
	}
	if unknown || sql != "" && time.Since(taken.At) >= acceptedAge {
		now, refusal, err := srv.trySettingsOnBackend(of, local)
		switch {
		case refusal != nil:
			return refusal
		case err == nil:
			taken = settings.AcceptedEntry{At: time.Now(), Shown: now}
			srv.pool.accepted.Add(sql, taken)
		case unknown || taken.At.IsZero():
			return sqlerror.NoBackend(err)
		}
	}
	for _, p := range taken.Shown {
		shown[p.Lower] = p.Value
	}
	return nil
}

// trySettingsOnBackend applies settings to an idle backend and runs the SQL local there. The settings stay until the
// backend's next client replaces them. refusal is the server's error, and err says why no server has answered. shown
// has the parameters whose values the settings change.
func (srv *Server) trySettingsOnBackend(of *settings.Values, local string) (shown []settings.Param, refusal *wire.Error, err error) {
	ctx, stop := context.WithTimeout(srv.ctx, srv.cfg.Startup.Timeout)
	defer stop()
	err = errors.New("the settings of the startup could not be tried")
	for range mostCatalogTries {
		var conn *reservoir.Conn
		if conn, err = srv.pool.backends.Acquire(ctx); err != nil {
			return nil, nil, err
		}
		b := srv.usableBackend(conn)
		if b == nil {
			err = errClosed
			continue
		}
		var told []byte
		if told, err = srv.applyToIdleBackend(ctx, b, of, local); err != nil {
			b.src.DropBuffer()
			conn.Discard(reservoir.Broken)
			continue
		}
		shown = b.settings.NewParameters()
		b.release()
		if told == nil {
			return shown, nil, nil
		}
		e := decodeErrorResponse(told)
		if question.Classify(e.Code) == question.Refusal {
			return nil, e, nil
		}
		err = e // a server that cannot work now has not checked the value
	}
	return nil, nil, err
}

// applyToIdleBackend applies settings to an unused backend and runs the SQL local in one request, which ctx may end.
func (srv *Server) applyToIdleBackend(ctx context.Context, b *backend, of *settings.Values, local string) (refusal []byte, err error) {
	change := b.settings.ChangeTo(of, false)
	sql := change.SQL + local
	if sql == "" {
		return nil, nil
	}
	wake := context.AfterFunc(ctx, func() { b.conn.Net.SetReadDeadline(time.Unix(1, 0)) })
	refusal, err = b.doExchange(wire.AppendStrings(nil, wire.Query, sql), func([]byte) {}, b.answerTimeout, time.Time{}, ctx.Err)
	if !wake() && err == nil {
		err = ctx.Err()
	}
	if err == nil && refusal == nil {
		b.settings.RecordApplied(of, change.Resets)
	}
	return refusal, err
}
