// Command ledger is the application in the tests' pods. It writes rows through the server at PGHOST, and reports each
// acknowledged transaction to a collector. No event is lost, because the command ends only after the collector has read
// all events.
//
// Command ledger reports a failed connection or transaction and does not try it again. After SIGTERM it goes on for
// -linger, like an application that finishes its work, and then ends between transactions.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/kubernetes/event"
)

// perSession is the number of transactions in a session, so that the command opens connections all the time.
const perSession = 25

// settings are the connection settings of each session. PGHOST and PGPORT complete them.
const settings = "user=app dbname=postgres sslmode=disable"

type ledger struct {
	pod     string
	think   time.Duration
	open    atomic.Int64
	mu      sync.Mutex // of out
	out     *json.Encoder
	stopped chan struct{}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
}

func run() error {
	collector := flag.String("collector", "", "who is told")
	mode := flag.String("mode", "write", "write: until SIGTERM; job: -count transactions; create: make the table; hold: one transaction, for ever, deaf to SIGTERM")
	workers := flag.Int("workers", 4, "sessions at a time")
	count := flag.Int("count", 20, "transactions of a job")
	think := flag.Duration("think", 20*time.Millisecond, "how long a transaction stays open")
	wait := flag.Duration("wait", 0, "how long the server may take at the start: an ordinary container starts at the same time")
	linger := flag.Duration("linger", 2*time.Second, "how long work goes on after SIGTERM")
	flag.Parse()

	conn, err := net.Dial("tcp", *collector)
	if err != nil {
		return err
	}
	pod, err := os.Hostname()
	if err != nil {
		return err
	}
	l := &ledger{pod: pod, think: *think, out: json.NewEncoder(conn), stopped: make(chan struct{})}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	l.tell(event.Event{Kind: event.Start})
	awaitServer(*wait)
	switch *mode {
	case "write":
		go func() {
			<-terminated
			l.tell(event.Event{Kind: event.Terminated, N: int(l.open.Load())})
			time.Sleep(*linger)
			close(l.stopped)
		}()
		var all sync.WaitGroup
		for i := range *workers {
			all.Go(func() { l.write(fmt.Sprintf("%s/%d", l.pod, i)) })
		}
		all.Wait()
	case "job":
		if !l.session(l.pod+"/0", 0, *count) {
			return errors.New("a job's transaction failed")
		}
	case "create":
		if err := l.create(); err != nil {
			return err
		}
	case "hold":
		return l.hold()
	}
	l.tell(event.Event{Kind: event.End})
	// The collector closes its end of the stream after it has read all events.
	_ = conn.(*net.TCPConn).CloseWrite()
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		return fmt.Errorf("the collector is gone: %v", err)
	}
	return nil
}

func (l *ledger) tell(e event.Event) {
	e.Pod, e.At = l.pod, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.out.Encode(e); err != nil {
		fmt.Fprintln(os.Stderr, "ledger: the collector is gone:", err)
		os.Exit(1)
	}
}

// awaitServer returns when a connection to the server succeeds, or after the duration patience.
func awaitServer(patience time.Duration) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		conn, err := pgconn.Connect(context.Background(), settings)
		if err == nil {
			_ = conn.Close(context.Background())
			return
		}
	}
}

// connect returns a connection to the server, or nil after a failure. It reports success or failure to the collector.
func (l *ledger) connect(writer string) *pgconn.PgConn {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgconn.Connect(ctx, settings)
	if err != nil {
		l.tell(event.Event{Kind: event.NoConnection, Writer: writer, Error: err.Error()})
		return nil
	}
	l.tell(event.Event{Kind: event.Connected, Writer: writer})
	return conn
}

// write runs sessions of one writer until the program must stop.
func (l *ledger) write(writer string) {
	for n := 0; ; n += perSession {
		select {
		case <-l.stopped:
			return
		default:
		}
		if !l.session(writer, n, perSession) {
			time.Sleep(100 * time.Millisecond) // nothing to hurry for: a failure has been told
		}
	}
}

// session runs count transactions on a new connection, numbered from n. It ends early if one fails or the program must
// stop.
func (l *ledger) session(writer string, n, count int) bool {
	conn := l.connect(writer)
	if conn == nil {
		return false
	}
	defer conn.Close(context.Background())
	for ; count > 0; n, count = n+1, count-1 {
		select {
		case <-l.stopped:
			return true
		default:
		}
		if at, err := l.transaction(conn, writer, n); err != nil {
			l.tell(event.Event{Kind: event.Failed, Writer: writer, N: n, Error: at + ": " + err.Error()})
			return false
		}
		l.tell(event.Event{Kind: event.Acknowledged, Writer: writer, N: n})
	}
	return true
}

// transaction writes one row in a transaction. If it fails, transaction returns the statement that failed.
func (l *ledger) transaction(conn *pgconn.PgConn, writer string, n int) (string, error) {
	ctx := context.Background()
	if _, err := conn.Exec(ctx, "BEGIN").ReadAll(); err != nil {
		return "BEGIN", err
	}
	l.open.Add(1)
	defer l.open.Add(-1)
	if err := insert(ctx, conn, writer, n); err != nil {
		return "INSERT", err
	}
	time.Sleep(l.think)
	if _, err := conn.Exec(ctx, "COMMIT").ReadAll(); err != nil {
		return "COMMIT", err
	}
	return "", nil
}

func insert(ctx context.Context, conn *pgconn.PgConn, writer string, n int) error {
	return conn.ExecParams(ctx, "INSERT INTO ledger (writer, n) VALUES ($1, $2)", [][]byte{[]byte(writer), fmt.Append(nil, n)}, nil, nil, nil).Read().Err
}

// create creates the table. The table has no key, so a row that was written twice is in the table twice.
func (l *ledger) create() error {
	conn := l.connect("create")
	if conn == nil {
		return errors.New("no connection")
	}
	defer conn.Close(context.Background())
	_, err := conn.Exec(context.Background(), "CREATE TABLE IF NOT EXISTS ledger (writer text NOT NULL, n int NOT NULL)").ReadAll()
	return err
}

// hold leaves a transaction open until the process is killed. It returns only after an error.
func (l *ledger) hold() error {
	conn := l.connect("hold")
	if conn == nil {
		return errors.New("no connection")
	}
	ctx := context.Background()
	if _, err := conn.Exec(ctx, "BEGIN").ReadAll(); err != nil {
		return err
	}
	if err := insert(ctx, conn, l.pod+"/hold", 0); err != nil {
		return err
	}
	l.tell(event.Event{Kind: event.Holding})
	select {} // signals are taken, and not looked at
}
