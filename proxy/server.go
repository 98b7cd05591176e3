package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/admission"
	"github.com/sluice-proxy/sluice/proxy/database"
	"github.com/sluice-proxy/sluice/proxy/locktable"
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/opening"
	"github.com/sluice-proxy/sluice/proxy/options"
	"github.com/sluice-proxy/sluice/proxy/pin"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/remains"
	"github.com/sluice-proxy/sluice/proxy/serverfacts"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the Server, its listeners, its sessions' goroutines, and the sweeper. Lock order: a goroutine takes
// Server.mu before the locks of interrupt.Waits. Only methods of rawconn.ParkedConns take that type's lock.

// ErrServerClosed is the error of Serve after Shutdown or Close.
var ErrServerClosed = errors.New("proxy: server closed")

// sweepEvery is how often the sweeper (one goroutine of the Server) wakes waiting sessions so that they check their
// client. Sluice notices that a client has vanished after one to two periods.
const sweepEvery = time.Second

// lastWordsWait limits how long a session that Sluice ends may write to a client that does not read. lastRequestWait
// limits how long Sluice sends the server a cancel request, on a separate connection. With these limits, and the time
// for the backends' Terminates, a drain ends within a second of its limit.
const (
	lastWordsWait   = 250 * time.Millisecond
	lastRequestWait = 600 * time.Millisecond
)

// Server accepts clients and runs their sessions. All sessions share its fields. A field is constant after New, atomic,
// guarded by mu, or has its own lock.
type Server struct {
	cfg      Config
	pool     pool
	names    database.Names
	handlers *[rewrite.LocalWorkCount]statementHandler
	// observers has the functions of features that sessions call at fixed points.
	observers *observerTable
	options   *options.Rules // what clients may set: Config.MaySet and Config.Users
	metrics   *metrics.Proxy
	log       *slog.Logger
	memory    admission.MemoryMonitor
	// opening reads the settings of startup packets. startup does the handshake of new connections.
	opening   *opening.Reader
	startup   *startup.Handshaker
	accounts  *account.Process // counts the memory that all sessions use
	ctx       context.Context  // ends when Close or Shutdown cuts all sessions
	stop      context.CancelFunc
	cancels   cancelRequests
	accepting acceptor
	ids       atomic.Uint64 // the number of sessions that have begun so far
	// pins counts sessions bound to their backend (at most Config.MaxPins). clients is the number of sessions (at most
	// Config.MaxClients).
	pins      *pin.Counter
	clients   atomic.Int64
	draining  atomic.Bool
	swept     admission.Heartbeat // marked after each round of the sweeper
	running   sync.WaitGroup      // counts sessions (also parked ones), cancel requests and the sweeper
	parking   *rawconn.ParkedConns[*session]
	mu        sync.Mutex
	sessions  map[*session]*sweepState // guarded by mu; the values belong to the sweeper
	listeners map[net.Listener]struct{}
	closed    bool
}

// pool has the backends of one reservoir, and Sluice's knowledge about their server. A field is constant after New,
// atomic, or has its own lock.
type pool struct {
	backends *reservoir.Reservoir
	planner  *rewrite.Planner
	// watched means that sessions call the features' functions onAttached before each transaction. Once set, it stays set.
	watched atomic.Bool
	treat   settings.Treatments
	// templates caches the templates of statements. settings lets sessions share equal settings and server reports.
	templates *statement.Cache
	settings  *serversettings.Shared
	texts     *statement.Budget // a separate allocation: a template's cleanup refers to it, and must not hold the Server
	// textsOfBackend limits the bytes of prepared texts and descriptions that one backend holds.
	textsOfBackend int
	resetsAuto     bool                   // functions may change settings (mustResetAfterCalls)
	accepted       settings.AcceptedCache // startup settings that a server has accepted
	leftState      *remains.Checks
	replays        *replayShared // nil if replay is off
	groups         serverfacts.Pipeline
	purity         serverfacts.Purity
	sequences      question.Schedule // says when Sluice may send DISCARD SEQUENCES again after a failure
	keeper         *mapping.Keeper   // has the schema snapshot (Sluice's copy of the database's schema)
	locks          *locktable.Table
	suspends       atomic.Bool // a server has suspended a portal while Sluice read a cursor
}

// acceptor has the state that the goroutines which accept clients share.
type acceptor struct {
	arrivals *admission.ConnLimiter
	guests   chan *clientConn // gives new connections to idle goroutines, whose number is spare
	spare    atomic.Int32
}

// New returns a Server that takes its backends from the reservoir, and starts its sweeper. Close or Shutdown ends the
// Server. If cfg or its users file is wrong, New returns an error, and nothing runs.
func New(cfg Config, backends *reservoir.Reservoir, planner *rewrite.Planner, m *metrics.Proxy, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// Replication is possible only if each client has a dedicated backend.
	cfg.Startup.Replication = cfg.hasDedicatedBackends()
	handshaker, err := startup.NewHandshaker(cfg.Startup)
	if err != nil {
		return nil, err
	}
	names, err := cfg.parseDatabases()
	if err != nil {
		return nil, err
	}
	srv := &Server{cfg: cfg, names: names, metrics: m, log: log, startup: handshaker, accepting: acceptor{guests: make(chan *clientConn)},
		cancels: cancelRequests{keyGuesses: startup.NewGuessLimiter(cancelKeyBurst, cancelKeyInterval), cancelling: make(chan struct{}, CancelsAtOnce)},
		pool:    pool{backends: backends, planner: planner, treat: settings.NewTreatments(cfg.Kind == DSQL, cfg.ReapplyApplicationName, cfg.IgnoredSettings), resetsAuto: cfg.mustResetAfterCalls(), leftState: remains.NewChecks(cfg.checksLeftState())},
		options: options.NewRules(planner, cfg.MaySet, cfg.Users), pins: pin.NewCounter(cfg.MaxPins), sessions: map[*session]*sweepState{}, listeners: map[net.Listener]struct{}{}}
	srv.opening = &opening.Reader{Postgres: cfg.Kind == Postgres, DSQL: cfg.Kind == DSQL, Treat: srv.pool.treat, Normal: srv.options.NormalValue,
		Plan:         func(sql string) *rewrite.Statement { return planner.Plan([]byte(sql)).SingleStatement() },
		CountRefusal: func() { m.CountRefusal(metrics.FeatureSetting) }}
	srv.pool.settings = serversettings.NewShared(cfg.Kind == Postgres, srv.pool.treat, backends.Params)
	srv.accepting.arrivals = admission.NewConnLimiter(cfg.MaxClients + SpareConns)
	srv.pool.keeper = mapping.NewKeeper(mappingServer{srv}, cfg.useOfMapping(planner))
	srv.handlers, srv.observers = &handlers, newObserverTable(observers)
	srv.pool.locks = locktable.New(lockDatabase{srv}, cfg.Locks, cfg.LockClock)
	srv.accounts = newProcessAccount(cfg)
	srv.pool.texts = statement.NewBudget(cfg.PreparedTotalBytes)
	srv.pool.templates = statement.NewCache(cfg.PreparedTexts, cfg.PreparedTotalBytes/rememberedShare, srv.pool.texts, planner.Plan)
	srv.pool.textsOfBackend = cfg.PreparedTotalBytes / (backendsShare * backends.Stats().MaxOpen)
	if srv.pool.replays, err = newReplayShared(cfg); err != nil {
		return nil, err
	}
	if srv.parking, err = rawconn.NewParkedConns(func(s *session) { go srv.resumeSession(s) }); err != nil {
		return nil, err
	}
	srv.ctx, srv.stop = context.WithCancel(context.Background())
	srv.running.Go(srv.sweepSessions)
	return srv, nil
}

// ReloadUsers reads the users file again. If that fails, the old users stay valid. Running sessions do not change.
func (srv *Server) ReloadUsers() error { return srv.startup.ReloadUsers() }

// Listen opens a TCP listener for Serve. Its connections inherit the configured TCP keepalive, which saves a system
// call for each connection.
func (c Config) Listen(address string) (net.Listener, error) {
	return rawconn.Listen(address, reservoir.KeepAliveSettings(c.ClientPathLimit))
}

// Serve accepts clients from ln until the Server is closed, and returns ErrServerClosed. It closes ln before it
// returns. Serve may run for several listeners at a time. Any other error means that other code closed ln.
func (srv *Server) Serve(ln net.Listener) error {
	srv.mu.Lock()
	if srv.closed {
		srv.mu.Unlock()
		return ErrServerClosed
	}
	srv.listeners[ln] = struct{}{}
	srv.mu.Unlock()
	defer ln.Close()
	_, inherits := ln.(rawconn.Listener)
	for pause := time.Duration(0); ; {
		conn, err := ln.Accept()
		if err != nil {
			srv.mu.Lock()
			closed := srv.closed
			srv.mu.Unlock()
			if closed {
				return ErrServerClosed
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			// The process has probably no file descriptors left. The pause gives sessions time to close some.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			srv.log.Warn("accept", "error", err, "retry_in", pause)
			select {
			// The end of srv.ctx ends the pause early. The listener is closed by then, so that Accept returns an error.
			case <-time.After(pause):
			case <-srv.ctx.Done():
			}
			continue
		}
		pause = 0
		if !srv.startClient(conn, inherits) {
			return ErrServerClosed
		}
	}
}

// Stats has counts of sessions at one time. Idle is the number of sessions that wait neither for a backend nor for its
// answer. Waiting is the number of sessions in the queue for a backend.
type Stats struct {
	Clients, Idle, Pinned, Waiting int
	// Came is the number of sessions since the process began, ended ones included.
	Came uint64
	// Gate is the state of the gate, where transactions wait for others that want the same rows.
	Gate retry.GateStats
	// Locks is the number of advisory locks that sessions hold as rows of the lock table.
	Locks int
	// LogBytes are the bytes in logs of open transactions, HeldBytes in withheld answers, TextBytes in prepared texts.
	LogBytes, HeldBytes, TextBytes int64
	// MemoryBytes are the bytes that Config.MemoryTotalBytes limits. RowBytes are the bytes in rows of cursors WITH HOLD.
	MemoryBytes, RowBytes int64
}

// Stats returns the current counts, which it reads one after the other. A session that changes its state meanwhile may
// be counted twice or not at all.
func (srv *Server) Stats() Stats {
	st := Stats{Came: srv.ids.Load(), Pinned: srv.pins.Pinned(), Waiting: srv.pool.backends.Stats().Waiting, TextBytes: srv.pool.texts.Used(), MemoryBytes: srv.accounts.Used(), RowBytes: srv.accounts.UsedRows(), Locks: srv.pool.locks.Held()}
	if r := srv.pool.replays; r != nil {
		st.LogBytes, st.HeldBytes = r.logs.Used(), r.held.Used()
		st.Gate = r.gate.Stats()
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	st.Clients = len(srv.sessions)
	for s := range srv.sessions {
		if s.waits.Tick()&1 == 0 {
			st.Idle++
		}
	}
	return st
}

// Shutdown drains the Server: it stops accepting and sends idle clients 57P01. Open transactions may finish until
// ctx ends. After that it ends their sessions (Close) and returns ctx's error.
//
// Shutdown sets the flag draining before it wakes sessions, since a session whose read ends checks that flag. A session
// in a turn ignores the wake-up, and checks the flag before it awaits its client next. A replay that is waiting fails.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.closeListeners()
	srv.draining.Store(true)
	srv.eachSession((*session).wake)
	// Await sessions, cancel requests and startups in any case, so that nothing of the Server runs after Shutdown.
	done := make(chan struct{})
	go func() {
		srv.running.Wait()
		close(done)
	}()
	// The sweeper runs until the last session has ended. cutSessions then ends the sweeper.
	if srv.awaitSessionsEnd(ctx) {
		srv.cutSessions()
		<-done
		srv.parking.Close()
		return nil
	}
	srv.Close()
	<-done
	return ctx.Err()
}

// awaitSessionsEnd waits until no session is left. It returns false if ctx ends first. It polls because the end of a
// session has no signal and a drain happens only once.
func (srv *Server) awaitSessionsEnd(ctx context.Context) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for srv.clients.Load() > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// Close cuts every session and returns once all sessions have ended. A client that reads gets 57P01. If a transaction
// is open, the server rolls it back, at once or because it loses the connection.
func (srv *Server) Close() error {
	srv.closeListeners()
	srv.draining.Store(true)
	srv.cutSessions()
	// cutSessions has ended srv.ctx, and so the waits for a backend, for contended rows and before a replay. interrupt
	// ends the reads of all other sessions.
	srv.eachSession((*session).interrupt)
	// If a client does not read, its session is blocked in a write, which a write deadline ends. A client that reads
	// still gets its last error (writeClient, end), even if the session first spends time on a cancel request.
	grace := time.AfterFunc(lastWordsWait, func() {
		srv.eachSession(func(s *session) {
			s.client.Raw.SetWriteDeadline(time.Unix(1, 0))
			s.waits.WithBackend(func(c *reservoir.Conn) { srv.backendOf(c).src.Raw.Close() })
		})
	})
	srv.running.Wait()
	grace.Stop()
	srv.parking.Close()
	return nil
}

// cutSessions ends the sessions' context and closes the connections of startups, which ignore that context. The caller
// has called closeListeners, so that no more startups arrive.
func (srv *Server) cutSessions() {
	srv.stop()
	srv.accepting.arrivals.CloseUnopened()
}

// closeListeners closes all listeners. Every running Serve then returns, and every later Serve fails.
func (srv *Server) closeListeners() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.closed = true
	for ln := range srv.listeners {
		ln.Close()
	}
}

// eachSession calls f for every session, on the caller's goroutine. It holds srv.mu, so f must not wait or lock.
func (srv *Server) eachSession(f func(*session)) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for s := range srv.sessions {
		f(s)
	}
}

// interrupt ends a session that reads or waits, even a parked session (one without a goroutine). Any goroutine may call
// it. waits.Cut stores the reason first, because the session looks for a reason when a deadline ends its read.
func (s *session) interrupt() {
	s.waits.Cut()
	s.wake()
}

// Alive returns nil if the sweeper has finished a round within the last two periods, or finishes one before ctx ends.
func (srv *Server) Alive(ctx context.Context) error { return srv.swept.CheckAlive(ctx, 2*sweepEvery) }

// sweepSessions wakes sessions that have waited for their backend for a whole period. Such a session then checks
// whether its client is still there. One goroutine serves all sessions, since a deadline per query would cost two timer
// operations.
//
// A session's tick counts its waits, and is odd during a wait. If an odd tick is unchanged after a period, the wait has
// lasted the whole period. CheckInLine checks the client of a session that waits for a backend. A session that reads
// its backend wakes, and checks all reasons to stop. So even if its deadline was overwritten, it notices a timeout,
// cancel or end of hold_time after at most two periods.
func (srv *Server) sweepSessions() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-srv.ctx.Done():
			srv.swept.Stop()
			return
		case <-tick.C:
		}
		srv.memory.Measure(srv.cfg.MemoryLimit, srv.log)
		srv.mu.Lock()
		for s, seen := range srv.sessions {
			now := s.waits.Tick()
			if now&1 == 1 && now == seen.tick && s.waits.WakeRead() {
				srv.running.Go(func() { s.waits.CheckInLine(s.checkClientWaits) })
			}
			srv.requestPark(s, seen, now)
			if s.isIdleLimitNear() {
				srv.parking.Wake(&s.spot)
			}
			seen.tick = now
			srv.closeDeadClient(s, seen)
		}
		srv.mu.Unlock()
		srv.swept.Beat()
	}
}

// removeSession removes an ended session, so that no cancel, sweep or wake-up finds it any more. The count of clients
// is reduced last, because Shutdown waits for that count.
func (srv *Server) removeSession(s *session) {
	srv.cancels.keys.revoke(s)
	srv.mu.Lock()
	delete(srv.sessions, s)
	srv.mu.Unlock()
	srv.clients.Add(-1)
}
