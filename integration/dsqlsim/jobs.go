package dsqlsim

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// DefaultJobDelay is the time that a job takes by default. Dsqlsim chose it; a cluster's time differs.
const DefaultJobDelay = 200 * time.Millisecond

// minJobPause and maxJobPause bound the interval at which dsqlsim looks for jobs to complete, while it has any jobs.
const (
	minJobPause = 10 * time.Millisecond
	maxJobPause = time.Second
)

// These are prefixes of the notices that catalog.sql sends to dsqlsim. No client sees a notice with these prefixes.
const (
	jobNotice  = "dsqlsim job "
	waitNotice = "dsqlsim wait "
	maxNotice  = 1 << 10
)

// jobRunner completes the background jobs in table sys.jobs. While there may be a job, a goroutine does that work.
type jobRunner struct {
	delay    time.Duration
	forget   time.Duration // when an unseen job must have been rolled back
	upstream *upstreamDialer

	mu      sync.Mutex
	running bool
	pending map[string]*backgroundJob
}

// backgroundJob is a job of sys.jobs that a transaction, committed or not, has submitted, or that a session waits
// for.
type backgroundJob struct {
	since time.Time
	done  chan struct{}
}

func newJobRunner(c *Config, u *upstreamDialer) *jobRunner {
	return &jobRunner{
		delay: c.JobDelay, forget: c.JobDelay + 2*c.Limits.TransactionAge, upstream: u,
		pending: make(map[string]*backgroundJob),
	}
}

// watchJob returns a channel that is closed when the job is completed, or will never be. The caller is a session of s.
func (j *jobRunner) watchJob(s *Server, id string) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	one := j.pending[id]
	if one == nil {
		one = &backgroundJob{since: time.Now(), done: make(chan struct{})}
		j.pending[id] = one
	}
	if !j.running {
		j.running = true
		s.working.Add(1)
		go func() {
			defer s.working.Done()
			j.completeJobs(s)
		}()
	}
	return one.done
}

// completeJobs completes jobs until none is left. After a failure of PostgreSQL it tries again.
func (j *jobRunner) completeJobs(s *Server) {
	var conn *pgconn.PgConn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.Background())
		}
	}()
	pause := min(max(j.delay/2, minJobPause), maxJobPause)
	for j.hasWork(s.ctx) {
		select {
		case <-s.ctx.Done():
			continue
		case <-time.After(pause):
		}
		err := error(nil)
		if conn == nil || conn.IsClosed() {
			conn, err = j.upstream.dialInternal(s.ctx)
		}
		if err == nil {
			err = j.completeDueJobs(s.ctx, conn)
		}
		if err != nil && s.ctx.Err() == nil {
			s.log.Warn("jobs cannot be completed", "error", err)
			pause = maxJobPause
		}
	}
}

// hasWork reports whether dsqlsim must still complete a job, and forgets jobs that were rolled back. After a result
// of false the next job starts a new goroutine.
func (j *jobRunner) hasWork(ctx context.Context) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, one := range j.pending {
		if ctx.Err() != nil || time.Since(one.since) > j.forget {
			close(one.done)
			delete(j.pending, id)
		}
	}
	j.running = len(j.pending) > 0
	return j.running
}

// completeDueJobs completes the jobs that are due and closes their channels.
func (j *jobRunner) completeDueJobs(ctx context.Context, conn *pgconn.PgConn) error {
	sql := fmt.Sprintf("SELECT sys.dsqlsim_finish('%d milliseconds')", j.delay.Milliseconds())
	if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("finish jobs: %w", err)
	}
	j.mu.Lock()
	var ids []string
	for id := range j.pending {
		ids = append(ids, id)
	}
	j.mu.Unlock()
	list := []byte("{" + strings.Join(ids, ",") + "}")
	done := conn.ExecParams(ctx, "SELECT job_id FROM sys.jobs WHERE status = 'completed' AND job_id = ANY ($1)",
		[][]byte{list}, nil, nil, nil).Read()
	if done.Err != nil {
		return fmt.Errorf("look for jobs: %w", done.Err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, row := range done.Rows {
		id := string(row[0])
		if one := j.pending[id]; one != nil {
			close(one.done)
			delete(j.pending, id)
		}
	}
	return nil
}

// dialInternal connects to PostgreSQL for dsqlsim's own work.
func (u *upstreamDialer) dialInternal(ctx context.Context) (*pgconn.PgConn, error) {
	config := u.config.Copy()
	config.RuntimeParams = map[string]string{"application_name": "dsqlsim", "client_min_messages": "error"}
	return dialUpstream(ctx, config)
}

// onNoticeResponse relays a NoticeResponse to the client. A notice of catalog.sql is for the session instead: a
// statement has submitted a job, or waits for one.
func (s *session) onNoticeResponse(total int) error {
	if total <= maxNotice {
		packet, ok, err := s.upstream.peekFrame(total)
		if err != nil {
			return err
		}
		if ok && bytes.Contains(packet, []byte("Mdsqlsim ")) {
			return s.onJobNotice(total)
		}
	}
	if err := s.relayReply(total); err != nil {
		return err
	}
	return s.toClient.Flush()
}

func (s *session) onJobNotice(total int) error {
	body, err := s.upstream.readBody(total)
	if err != nil {
		return err
	}
	var n pgproto3.NoticeResponse
	if err := n.Decode(body); err != nil {
		return upstreamError(err)
	}
	if id, ok := strings.CutPrefix(n.Message, jobNotice); ok {
		s.job = id
	}
	if id, ok := strings.CutPrefix(n.Message, waitNotice); ok {
		s.awaited = id
	}
	return nil
}

// awaitJob blocks until the job that the last statement waits for is completed.
func (s *session) awaitJob() error {
	if s.awaited == "" {
		return nil
	}
	done := s.server.jobs.watchJob(s.server, s.awaited)
	s.awaited = ""
	select {
	case <-done:
		return nil
	case <-s.link.done:
		return errClosing
	}
}

// sendJobID answers the client with the id of the job that the last statement has submitted. The answer is one row, or
// none if there was no work.
func (s *session) sendJobID() error {
	id := s.job
	if s.job = ""; id == "" {
		return nil
	}
	s.server.jobs.watchJob(s.server, id)
	return s.sendMessage(&pgproto3.DataRow{Values: [][]byte{[]byte(id)}})
}
