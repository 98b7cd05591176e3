package dsqlsim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// arbiterIdleLimit is how long the lockArbiter retains an unused PostgreSQL connection.
const arbiterIdleLimit = time.Second

// lockArbiter looks for sessions whose statements wait for another transaction in PostgreSQL. It asks idle sessions
// that block these statements to release their locks.
type lockArbiter struct {
	wake chan struct{} // holds a token when a session may wait
	// patience is how long a statement waits before the lockArbiter asks another session to release its locks. Most
	// transactions end sooner by themselves.
	patience time.Duration
	conn     *pgconn.PgConn
}

func newLockArbiter(lockTimeout time.Duration) *lockArbiter {
	return &lockArbiter{wake: make(chan struct{}, 1), patience: max(lockTimeout/2, time.Millisecond)}
}

// yieldRequest asks a session to release its locks.
type yieldRequest struct {
	at time.Time // when the session was in the way, or before
	// table reports that DDL wants a lock on a whole table.
	table bool
}

// runLockArbiter runs the lockArbiter until the server closes.
func (s *Server) runLockArbiter() {
	r := s.arbiter
	defer r.close()
	for {
		select {
		case <-r.wake:
		case <-time.After(arbiterIdleLimit):
			r.close()
			select {
			case <-r.wake:
			case <-s.ctx.Done():
				return
			}
		case <-s.ctx.Done():
			return
		}
		// The pause lasts r.patience, because the lockArbiter acts for a session only after the session has waited for
		// r.patience.
		for pause := time.After(r.patience); ; {
			select {
			case <-pause:
			case <-s.ctx.Done():
				return
			}
			if !s.arbitrateLocks() {
				break
			}
			pause = time.After(r.patience / 2)
		}
	}
}

// arbitrateLocks asks idle sessions that block waiting statements to release their locks. It reports whether any
// session waits, or may wait soon.
func (s *Server) arbitrateLocks() bool {
	r := s.arbiter
	now := time.Now()
	waiting := make(map[uint32]bool)
	byPID := make(map[uint32]*session)
	busy := false
	s.mu.Lock()
	for key, each := range s.sessions {
		byPID[key.pid] = each
		if since := each.waitingSince.Load(); since != 0 {
			busy = true
			if now.UnixNano()-since >= int64(r.patience) {
				waiting[key.pid] = true
			}
		}
	}
	s.mu.Unlock()
	if len(waiting) == 0 {
		return busy
	}
	blockers, err := r.findBlockers(s.ctx, s.upstream, waiting)
	if err != nil {
		r.close() // lock_timeout ends the waiting, too
		if s.ctx.Err() == nil {
			s.log.Warn("cannot ask PostgreSQL who waits", "error", err)
		}
		return busy
	}
	for pid, table := range blockers {
		if each := byPID[pid]; each != nil {
			select {
			case each.yield <- yieldRequest{now, table}:
			default:
			}
		}
	}
	return true
}

// findBlockers returns the process ids of the PostgreSQL backends that block those in waiting. The value of an id is
// true if the backend blocks by a lock on a table.
func (r *lockArbiter) findBlockers(ctx context.Context, up *upstreamDialer, waiting map[uint32]bool) (map[uint32]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if r.conn == nil {
		var err error
		if r.conn, err = up.connectDriver(ctx, adminRole, nil); err != nil {
			return nil, err
		}
	}
	var pids []string
	for pid := range waiting {
		pids = append(pids, strconv.FormatUint(uint64(pid), 10))
	}
	sql := "SELECT b, bool_or(w.locktype = 'relation') FROM pg_locks w, unnest(pg_blocking_pids(w.pid)) b" +
		" WHERE NOT w.granted AND w.pid IN (" + strings.Join(pids, ", ") + ") GROUP BY b"
	results, err := r.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("blockers: %w", err)
	}
	found := make(map[uint32]bool)
	for _, row := range results[0].Rows {
		pid, err := strconv.ParseUint(string(row[0]), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("blockers: %w", err)
		}
		found[uint32(pid)] = string(row[1]) == "t"
	}
	return found, nil
}

// close closes the lockArbiter's PostgreSQL connection, if it has one.
func (r *lockArbiter) close() {
	if r.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.conn.Close(ctx)
	r.conn = nil
}
