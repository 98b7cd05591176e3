package proxy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/admission"
	"github.com/sluice-proxy/sluice/proxy/database"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/remains"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file is the outer end of the step accept: the Server, its listeners, the goroutine
// of each session, and the sweeper. Package cmd/sluice/daemon calls what is exported. Locks are
// taken in one order: Server.mu, then session.mu; the parking's own is held by its methods alone.

// ErrServerClosed is what Serve returns after Shutdown or Close.
var ErrServerClosed = errors.New("proxy: server closed")

// sweepEvery is how often waiting sessions are woken to look at their client:
// a client that vanished is noticed after one to two of these.
const sweepEvery = time.Second

// lastWordsWait is for how long a session that is cut may write to a peer that does not read,
// and lastRequestWait for how long it may ask a server to stop, which takes a connection of
// its own. With the goodbyes to servers behind them (see reservoir) a drain ends within a
// second of its time.
const (
	lastWordsWait   = 250 * time.Millisecond
	lastRequestWait = 600 * time.Millisecond
)

// Server accepts clients and runs their sessions. Its fields are shared by all sessions:
// what is neither constant since New, nor atomic, nor guarded by mu, guards itself.
type Server struct {
	cfg      Config
	backends *reservoir.Reservoir
	names    database.Names
	planner  *rewrite.Planner
	handlers *[rewrite.DoesCount]handler
	// observers are called at fixed points of a session.
	observers observerTable
	// watched: a feature wants to see backends before a transaction (observer.attached). It is never reset.
	watched atomic.Bool
	users   map[string]*rewrite.Choices // Config.Users
	// choosesParts: clients may choose whether their transactions are committed in parts.
	choosesParts bool
	metrics      *metrics.Proxy
	log          *slog.Logger
	treat        settings.Treatments
	// catalog, interned and sharedReports hold what sessions have in common once.
	catalog *catalog
	texts   *texts // on its own: what counts a template down must not keep the server
	// textsOfBackend bounds the cost of the texts that one backend holds, with their
	// descriptions.
	textsOfBackend int
	memory         admission.Memory
	interned       settings.Interned
	resetsAuto     bool              // see Config.resetsAuto
	asksBehind     bool              // see Config.asksBehind
	accepted       settings.Accepted // of startups
	hidden         remains.Hidden
	hiddenPace     question.Pace // of the question that hidden has the answer of
	sharedReports  settings.SharedReports
	// reports is the last answer of params; greetings are made of it; startup answers the beginnings of connections.
	reports   atomic.Pointer[settings.Reports]
	greetings greetings
	startup   *startup.Handshaker
	replays   *replays // nil: replay is off
	groups    groups
	purity    purity
	sequences question.Pace // when a server is asked again to discard numbers that it has refused to, or failed to
	keeper    keeper
	locks     *lockTable
	accounts  *account.Process // what all sessions have remembered
	suspends  atomic.Bool      // a portal was suspended in the middle of a cursor

	ctx  context.Context // ends when sessions are cut
	stop context.CancelFunc

	// ids and txParsings count: sessions ever made, and transactions that have changed how
	// texts are parsed (parsingAfter).
	keys       cancelKeys
	keyGuesses *startup.Guesses
	cancelling chan struct{} // holds one for each cancel on its way to a server
	ids        atomic.Uint64
	txParsings atomic.Uint64
	usual      atomic.Uint32 // rewrite.Reading of the backend lent last, as it was dialled
	// pinned counts sessions that keep a backend, against Config.MaxPins, and clients those
	// against Config.MaxClients.
	pinned   atomic.Int64
	clients  atomic.Int64
	arrivals *admission.Conns
	guests   chan *arrival // to hosts that wait: spare
	spare    atomic.Int32
	draining atomic.Bool
	swept    admission.Heartbeat // the rounds of the sweeper
	running  sync.WaitGroup      // sessions, the parked too, cancellers, the sweeper
	parking  *rawconn.Parking[*session]

	mu        sync.Mutex
	sessions  map[*session]*swept // guarded by mu; the sweeper's own notes
	listeners map[net.Listener]struct{}
	closed    bool
}

// New returns a Server that borrows from backends, with its sweeper running. Close or
// Shutdown ends the Server. An error says what is wrong with cfg, or with the users file
// that it names; then nothing runs.
func New(cfg Config, backends *reservoir.Reservoir, planner *rewrite.Planner, m *metrics.Proxy, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// A replication connection needs a server's session of its own.
	cfg.Startup.Replication = cfg.dedicated()
	handshaker, err := startup.New(cfg.Startup)
	if err != nil {
		return nil, err
	}
	names, err := cfg.databases()
	if err != nil {
		return nil, err
	}
	srv := &Server{cfg: cfg, names: names, backends: backends, planner: planner, metrics: m, log: log, startup: handshaker, keyGuesses: startup.NewGuesses(keyBurst, keyEvery), cancelling: make(chan struct{}, CancelsAtOnce),
		treat: settings.NewTreatments(cfg.Kind == DSQL, cfg.ReapplyApplicationName, cfg.IgnoredSettings), resetsAuto: cfg.resetsAuto(), asksBehind: cfg.asksBehind(), catalog: newCatalog(cfg.PreparedTexts, cfg.PreparedTotalBytes/rememberedShare),
		users: make(map[string]*rewrite.Choices, len(cfg.Users)), guests: make(chan *arrival), sessions: map[*session]*swept{}, listeners: map[net.Listener]struct{}{}}
	for name, chosen := range cfg.Users {
		srv.users[name] = &chosen
	}
	srv.arrivals = admission.NewConns(cfg.MaxClients + SpareConns)
	if how, checked := planner.Mapping(); how != rewrite.ByteaOff && !cfg.dedicated() {
		srv.keeper.on, srv.keeper.checked = true, checked
	} else {
		srv.keeper.watch = cfg.WatchMapped && !cfg.dedicated()
	}
	srv.handlers, srv.observers = &handlers, observers
	srv.locks = newLockTable(cfg.Locks, cfg.LockClock)
	srv.accounts = newAccounts(cfg)
	srv.choosesParts = slices.Contains(cfg.MaySet, rewrite.InTransactionsKey) || slices.Contains(cfg.MaySet, rewrite.CarryOutKey)
	srv.texts = &texts{limit: int64(cfg.PreparedTotalBytes)}
	srv.textsOfBackend = cfg.PreparedTotalBytes / (backendsShare * backends.Stats().MaxOpen)
	if srv.replays, err = newReplays(cfg); err != nil {
		return nil, err
	}
	if srv.parking, err = rawconn.NewParking(func(s *session) { go srv.goOn(s) }); err != nil {
		return nil, err
	}
	srv.ctx, srv.stop = context.WithCancel(context.Background())
	srv.running.Go(srv.sweep)
	return srv, nil
}

// ReloadUsers reads the users file again; on an error the old users stay. Sessions that
// have begun go on.
func (srv *Server) ReloadUsers() error { return srv.startup.ReloadUsers() }

// Listen opens a TCP listener for Serve, whose connections are kept alive as the configuration
// says without a call of the kernel for each.
func (c Config) Listen(address string) (net.Listener, error) {
	return rawconn.Listen(address, reservoir.KeepAlive(c.ClientPathLimit))
}

// Serve accepts clients from ln until the server is closed; then it returns
// ErrServerClosed. It may be called for several listeners. The listener is closed when
// Serve returns. Another error is that of a listener which somebody else has closed.
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
			// Out of descriptors, most likely: wait for some to come back.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			srv.log.Warn("accept", "error", err, "retry_in", pause)
			select {
			// The pause ends early with the sessions: then the listener is closed too, and
			// Accept says so.
			case <-time.After(pause):
			case <-srv.ctx.Done():
			}
			continue
		}
		pause = 0
		if !srv.start(conn, inherits) {
			return ErrServerClosed
		}
	}
}

// Stats is a snapshot of the sessions. A session is idle unless its turn waits for a
// backend, or to have one. Waiting are the sessions in line for a backend.
type Stats struct {
	Clients, Idle, Pinned, Waiting int
	// Came counts the sessions that have ever begun.
	Came uint64
	// Gate says who is at the gate, behind others that want the same rows.
	Gate retry.GateStats
	// Locks are the advisory locks that sessions hold, in a table.
	Locks int
	// Bytes that replays hold: logs of open transactions, and answers not sent yet; and
	// those of prepared texts.
	LogBytes, HeldBytes, TextBytes int64
	// MemoryBytes are those that count against Config.MemoryTotalBytes, RowBytes those of the rows of
	// cursors WITH HOLD.
	MemoryBytes, RowBytes int64
}

// Stats counts the sessions as they stand. The counts are taken one after the other: their
// sum may be off by a session that moves meanwhile.
func (srv *Server) Stats() Stats {
	st := Stats{Came: srv.ids.Load(), Pinned: int(srv.pinned.Load()), Waiting: srv.backends.Stats().Waiting, TextBytes: srv.texts.used.Load(), MemoryBytes: srv.accounts.Used(), RowBytes: srv.accounts.UsedRows(), Locks: int(srv.locks.held.Load())}
	if r := srv.replays; r != nil {
		st.LogBytes, st.HeldBytes = r.logs.Used(), r.held.Used()
		st.Gate = r.gate.Stats()
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	st.Clients = len(srv.sessions)
	for s := range srv.sessions {
		if s.tick.Load()&1 == 0 {
			st.Idle++
		}
	}
	return st
}

// Shutdown drains: it stops accepting, tells idle clients 57P01, lets transactions in
// flight finish until ctx ends, and then cuts them. It returns ctx's error if it had to
// cut.
//
// The flag draining is stored before the nudge: a session whose read the nudge ends looks
// for a reason, and must find this one. A session in the middle of a turn takes no notice
// of the nudge, and looks at the flag when it awaits its client next; a replay that waits
// is given up (unawaited).
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.closeListeners()
	srv.draining.Store(true)
	srv.each((*session).nudge)
	// Sessions, cancellers and startups are waited for in any case: nothing of the Server
	// is left.
	done := make(chan struct{})
	go func() {
		srv.running.Wait()
		close(done)
	}()
	// The sweeper lives until the last session has ended.
	if srv.sessionsEnded(ctx) {
		srv.cut()
		<-done
		srv.parking.Close()
		return nil
	}
	srv.Close()
	<-done
	return ctx.Err()
}

// sessionsEnded waits until no session is left; false when ctx ended first. It polls: the
// end of a session has no signal, and a drain happens once.
func (srv *Server) sessionsEnded(ctx context.Context) bool {
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

// Close cuts every session and returns once all have ended. A client is told 57P01 where it
// reads; a transaction that is open is rolled back or given up with its backend.
func (srv *Server) Close() error {
	srv.closeListeners()
	srv.draining.Store(true)
	srv.cut()
	// The sessions' context goes first: a wait for a backend, for a pause or at the gate
	// ends with it, and the reads of all others end by the nudge.
	srv.each((*session).interrupt)
	// A peer that does not read holds its session in a write, which ends then. A client that
	// reads is still told how its session ends (writeClient, end), however long the session has
	// asked a server to stop before.
	grace := time.AfterFunc(lastWordsWait, func() {
		srv.each(func(s *session) {
			s.client.Raw.SetWriteDeadline(time.Unix(1, 0))
			s.mu.Lock()
			defer s.mu.Unlock()
			if b := cmp.Or(s.cancel.backend, s.cancel.questioned); b != nil {
				b.src.Raw.Close()
			}
		})
	})
	srv.running.Wait()
	grace.Stop()
	srv.parking.Close()
	return nil
}

// cut ends the context of what runs, and closes the connections of startups, which look at
// none. closeListeners has been called: no more of them come.
func (srv *Server) cut() {
	srv.stop()
	srv.arrivals.Cut()
}

// closeListeners has Serve return, and keeps it from being called again.
func (srv *Server) closeListeners() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.closed = true
	for ln := range srv.listeners {
		ln.Close()
	}
}

// each calls f for every session, from another goroutine than theirs. mu is held
// meanwhile: f must neither wait nor take mu.
func (srv *Server) each(f func(*session)) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for s := range srv.sessions {
		f(s)
	}
}

// interrupt wakes the session wherever it reads or is parked, to end. Anybody may call it. The
// flag is stored before the deadlines are set: a read that a deadline ends looks for its reason.
func (s *session) interrupt() {
	s.cutOff.Store(true)
	s.nudge()
	s.wakeBackend()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel.place != nil {
		s.cancel.place.Leave(errCut)
	}
}

// wakeBackend ends a read from the backend as by a timeout. Anybody may call it: mu keeps
// the session from giving the backend away meanwhile (forgetBackend). A session that is
// woken without a reason sets its deadline anew (woken) and goes on. inLine says that it waits
// for a backend instead.
func (s *session) wakeBackend() (inLine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := cmp.Or(s.cancel.backend, s.cancel.questioned); b != nil {
		b.conn.Net.SetReadDeadline(time.Unix(1, 0))
	}
	return s.cancel.place != nil
}

// Alive returns nil if the sweeper has gone round the sessions within two of its periods, or does so before ctx
// ends, and an error otherwise.
func (srv *Server) Alive(ctx context.Context) error { return srv.swept.Alive(ctx, 2*sweepEvery) }

// sweep wakes sessions that have waited for their backend for a whole period, so that they
// look whether their client is still there. One goroutine for all costs a query nothing; a
// deadline for each would cost two timer operations.
//
// An odd tick says that the session waits, and each wait of a session has a tick of its
// own: one that is odd and the same as a period ago has lasted for all of it. One that waits
// in line for a backend cannot look by itself, and is looked after (lookFromLine). A session
// that reads its backend looks at all its reasons when it is woken (woken): so a timeout, a
// cancel or the end of hold_time whose deadline was overwritten is late by two periods at
// most.
func (srv *Server) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-srv.ctx.Done():
			srv.swept.Stop()
			return
		case <-tick.C:
		}
		srv.memory.Look(srv.cfg.MemoryLimit, srv.log)
		srv.mu.Lock()
		for s, seen := range srv.sessions {
			now := s.tick.Load()
			if now&1 == 1 && now == seen.tick && s.wakeBackend() {
				srv.running.Go(s.lookFromLine)
			}
			srv.askToLinger(s, seen, now)
			if s.endsSoon() {
				srv.parking.Wake(&s.spot)
			}
			seen.tick = now
			srv.watchClient(s, seen)
		}
		srv.mu.Unlock()
		srv.swept.Mark()
	}
}

// forget takes an ended session off the books: no cancel, sweep or nudge finds it any more.
// The count of clients goes last, since Shutdown waits for that one.
func (srv *Server) forget(s *session) {
	srv.keys.revoke(s)
	srv.mu.Lock()
	delete(srv.sessions, s)
	srv.mu.Unlock()
	srv.clients.Add(-1)
}
