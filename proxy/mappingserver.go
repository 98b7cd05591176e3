package proxy

import (
	"context"
	"errors"

	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// mappingServer implements mapping.Server for a Server. Package mapping has the schema snapshot of the process.
type mappingServer struct{ srv *Server }

func (m mappingServer) Epoch() uint64                     { return m.srv.pool.templates.Epoch() }
func (m mappingServer) BeginEpoch()                       { m.srv.pool.templates.BeginEpoch(true) }
func (m mappingServer) Context() context.Context          { return m.srv.ctx }
func (m mappingServer) Go(f func())                       { m.srv.running.Go(f) }
func (m mappingServer) Warn(message string, attrs ...any) { m.srv.log.Warn(message, attrs...) }
func (m mappingServer) CountLoad(cause string)            { m.srv.metrics.CountSchemaLoad(cause) }

// useOfMapping returns what the process does with mapped columns (bytea keys stored as text). Clients with dedicated
// backends get what the server sends.
func (c *Config) useOfMapping(planner *rewrite.Planner) mapping.Use {
	how, checked := planner.ByteaMapping()
	switch {
	case c.hasDedicatedBackends():
		return mapping.Use{}
	case how != rewrite.ByteaOff:
		return mapping.Use{Maps: true, Checked: checked}
	}
	return mapping.Use{Refuses: c.WatchMapped}
}

// UnmappedTables returns how many mapped tables (bytea stored as text) this process refuses to use, and one name as
// "schema.table". It returns 0 and "" if Config.WatchMapped is off or no snapshot exists.
func (srv *Server) UnmappedTables() (int, string) { return srv.pool.keeper.UnmappedTables() }

// Borrow borrows a backend and calls load with a function that queries it. Borrow does not queue behind sessions,
// since these may wait for the schema. It then returns the backend, or discards one that did not answer.
func (m mappingServer) Borrow(load func(ask mapping.Query) error) error {
	srv := m.srv
	ctx, stop := context.WithTimeout(srv.ctx, srv.cfg.Startup.Timeout)
	defer stop()
	err := errors.New("the catalog could not be read")
	for range mostCatalogTries {
		var conn *reservoir.Conn
		if conn, err = srv.pool.backends.AcquireAhead(ctx); err != nil {
			return err
		}
		b := srv.usableBackend(conn)
		if b == nil {
			err = errClosed
			continue
		}
		err = load(schemaQuery(func(query string, row func([]byte)) ([]byte, error) {
			return srv.queryUnheldBackend(ctx, b, query, row)
		}))
		var refused *mapping.RefusedError
		if err != nil && !errors.As(err, &refused) {
			b.src.DropBuffer()
			conn.Discard(reservoir.Broken)
			continue
		}
		b.release()
		return err
	}
	return err
}

// schemaQuery returns a mapping.Query that sends each query by the function exchange. refusal, a result of exchange,
// is the payload of the server's error, or nil.
func schemaQuery(exchange func(query string, row func([]byte)) (refusal []byte, err error)) mapping.Query {
	return func(query string, row func(columns []string)) error {
		refusal, err := exchange(query, valuesTo(row))
		if err == nil && refusal != nil {
			return &mapping.RefusedError{Code: string(retry.ErrorField(refusal, 'C')), Message: string(retry.ErrorField(refusal, 'M'))}
		}
		return err
	}
}
