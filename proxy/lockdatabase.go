package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/locktable"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// lockDatabase implements locktable.Database for the sessions of a Server.
type lockDatabase struct{ srv *Server }

func (d lockDatabase) Context() context.Context          { return d.srv.ctx }
func (d lockDatabase) Go(f func())                       { d.srv.running.Go(f) }
func (d lockDatabase) Warn(message string, attrs ...any) { d.srv.log.Warn(message, attrs...) }
func (d lockDatabase) RecordSchemaChange()               { d.srv.pool.templates.BeginEpoch(false) }
func (d lockDatabase) RecordTakeover()                   { d.srv.metrics.CountAdvisoryLock(metrics.LockTakenOver) }
func (d lockDatabase) RecordRelease()                    { d.srv.metrics.CountAdvisoryLock(metrics.LockReleased) }
func (d lockDatabase) RecordLoss()                       { d.srv.metrics.CountAdvisoryLock(metrics.LockLost) }

// Query runs SQL of package locktable, on a backend borrowed for these statements. row, if not nil, gets each row.
func (d lockDatabase) Query(ctx context.Context, sql string, row func(columns []string)) (tag string, err error) {
	srv := d.srv
	for range mostCatalogTries {
		var conn *reservoir.Conn
		if conn, err = srv.pool.backends.AcquireAhead(ctx); err != nil {
			break
		}
		b := srv.usableBackend(conn)
		if b == nil {
			err = errClosed
			continue
		}
		patience := b.answerTimeout        // such statements touch one row, and a cluster lets none wait for another
		if end, ok := ctx.Deadline(); ok { // what takes longer is of no use; but a connection is worth a second
			patience = min(patience, max(time.Second, time.Until(end)))
		}
		refusal, err := b.doExchange(wire.AppendStrings(nil, wire.Query, sql), func(payload []byte) {
			if row != nil {
				row(textColumns(payload))
			}
		}, patience, time.Time{}, nil)
		if err == nil && b.status != 'I' {
			err = errors.New("a transaction was left open")
		}
		if err != nil {
			b.src.DropBuffer()
			conn.Discard(reservoir.Broken)
			return "", err
		}
		tag = string(b.tag)
		b.release()
		if refusal != nil {
			return "", &locktable.RefusedError{Code: string(retry.ErrorField(refusal, 'C')), Message: string(retry.ErrorField(refusal, 'M'))}
		}
		return tag, nil
	}
	return "", &locktable.NotSentError{Err: err}
}
