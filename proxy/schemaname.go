package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// A client whose database name maps to a schema (package database) gets a session with that schema as its only
// search_path. Every RESET of search_path returns to that schema. So applications that do not name each other's schemas
// are separate. This is no security boundary, because a client may name any schema.

// replacePublicSchema changes a text of a session whose database name maps to a schema. A query of information_schema
// for 'public' then reads that schema. Schema tools send such queries to find the tables of their database.
func (s *session) replacePublicSchema(sql []byte) (own []byte, changed bool) {
	if s.inSchema == "" {
		return sql, false
	}
	if r := s.textReadingMode(); r != 0 && r.MayMislead(sql) {
		return sql, false
	}
	return s.srv.pool.planner.AdaptToSchema(sql, s.inSchema)
}

// mostCatalogTries limits how often Sluice tries a query of its own. It tries again after a lost backend, or after a
// 40001 because the backend has not seen the last catalog change.
const mostCatalogTries = 10

// schemaExists asks the server whether a schema exists. The query runs for each client, because another process may
// have dropped the schema. A returned error goes to the client.
func (srv *Server) schemaExists(schema string) (there bool, err error) {
	ctx, stop := context.WithTimeout(srv.ctx, srv.cfg.Startup.Timeout)
	defer stop()
	err = errors.New("the catalog could not be read")
	for range mostCatalogTries {
		var conn *reservoir.Conn
		if conn, err = srv.pool.backends.Acquire(ctx); err != nil {
			break
		}
		b := srv.usableBackend(conn)
		if b == nil {
			err = errClosed
			continue
		}
		there = false
		var refusal []byte
		refusal, err = srv.queryUnheldBackend(ctx, b, "SELECT 1"+schemaCondition(schema), func([]byte) { there = true })
		if err != nil {
			b.src.DropBuffer()
			conn.Discard(reservoir.Broken)
			continue
		}
		b.release()
		if refusal == nil {
			return there, nil
		}
		told := decodeErrorResponse(refusal)
		if err = told; told.Code != retry.StateConflict {
			return false, err
		}
	}
	return false, sqlerror.NoBackend(err)
}

// schemaCondition returns the FROM and WHERE of a query about a schema, with the alias n for pg_namespace. The result
// of the query does not depend on search_path.
func schemaCondition(schema string) string {
	return " FROM pg_catalog.pg_namespace n WHERE n.nspname = " + settings.QuoteLiteral(schema)
}

// queryUnheldBackend runs a catalog query on a backend that no session holds, until ctx ends. On PostgreSQL it first
// resets the last client's settings, such as statement_timeout. DSQL's settings do not affect the answer.
func (srv *Server) queryUnheldBackend(ctx context.Context, b *backend, query string, row func([]byte)) (refusal []byte, err error) {
	change := b.settings.ChangeToNone()
	query = change.SQL + query
	wake := context.AfterFunc(ctx, func() { b.conn.Net.SetReadDeadline(time.Unix(1, 0)) })
	refusal, err = b.doExchange(wire.AppendStrings(nil, wire.Query, query), row, b.answerTimeout, time.Time{}, ctx.Err)
	if !wake() && err == nil {
		err = ctx.Err()
	}
	if change.Resets && err == nil && refusal == nil {
		b.settings.RecordReset()
	}
	return refusal, err
}

// decodeErrorResponse returns the error in the payload of an ErrorResponse that answers a query of Sluice itself.
func decodeErrorResponse(refusal []byte) *wire.Error {
	field := func(f byte) string { return string(retry.ErrorField(refusal, f)) }
	return &wire.Error{Code: field('C'), Message: field('M'), Detail: field('D'), Hint: field('H'),
		Schema: field('s'), Table: field('t'), Column: field('c'), Constraint: field('n')}
}
