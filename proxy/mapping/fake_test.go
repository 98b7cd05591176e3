package mapping

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-proxy/sluice/proxy/catalog"
)

// process is a Server whose backends all answer by its field database, if that is not nil.
type process struct {
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	epoch    uint64
	loads    []string // causes
	warned   []string
	borrowed int
	database Query
}

// errLost is an error after which a backend cannot be used.
var errLost = errors.New("connection reset")

// newProcess returns a process with a Keeper. The test waits for the process's goroutines.
func newProcess(t *testing.T, use Use, database Query) (*process, *Keeper) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p := &process{ctx: ctx, stop: stop, epoch: 7, database: database}
	t.Cleanup(func() { stop(); p.running.Wait() })
	return p, NewKeeper(p, use)
}

func (p *process) Epoch() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

func (p *process) BeginEpoch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
}

func (p *process) Borrow(load func(ask Query) error) error {
	p.mu.Lock()
	p.borrowed++
	database := p.database
	p.mu.Unlock()
	if database == nil {
		return errors.New("no backend")
	}
	return load(database)
}

func (p *process) Context() context.Context { return p.ctx }
func (p *process) Go(f func())              { p.running.Go(f) }

func (p *process) Warn(message string, _ ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warned = append(p.warned, message)
}

func (p *process) CountLoad(cause string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loads = append(p.loads, cause)
}

// database is a catalog. Its methods are called by one goroutine at a time.
type database struct {
	columns  []string // rows of catalog.ColumnsQuery, with "|" between the values
	defaults []string // rows of catalog.DefaultsQuery, with "|" between the fields
	path     string   // search_path; "" is refused
	sent     []string // kinds of queries: system, mapped, columns, defaults, role, path
	// faults has errors of queries by their kind. Each is returned once.
	faults map[string][]error
	took   time.Duration // time that each query takes
}

// one is a database with one mapped table, s.t.
func one() *database {
	return &database{columns: []string{"s|t|id|1|text|{1}", "s|t|k__byteahex|2|checked|{1}"}, path: `"$user", public`}
}

// query answers the queries of a reading.
func (d *database) query(sql string, row func([]string)) error {
	kind, rows := "", []string(nil)
	switch {
	case sql == roleQuery:
		kind, rows = "role", []string{"me"}
	case sql == searchPathQuery:
		kind, rows = "path", []string{d.path}
	case sql == catalog.DefaultsQuery:
		kind = "defaults"
		for _, fields := range d.defaults {
			rows = append(rows, strings.ReplaceAll(fields, "|", "\x01"))
		}
	case sql == catalog.MappedColumnsQuery:
		kind, rows = "mapped", d.columns
	case sql == catalog.ColumnsQuery("IN "+catalog.SystemSchemas):
		kind, rows = "system", []string{"pg_catalog|pg_class|oid|1||"}
	default:
		kind, rows = "columns", d.columns
	}
	d.sent = append(d.sent, kind)
	time.Sleep(d.took)
	if faults := d.faults[kind]; len(faults) > 0 {
		d.faults[kind] = faults[1:]
		return faults[0]
	}
	for _, r := range rows {
		row(strings.Split(r, "|"))
	}
	return nil
}

// inBubble runs a test with a clock of its own.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// mustLoad reads the schema on a borrowed backend.
func mustLoad(t *testing.T, k *Keeper, cause string) {
	t.Helper()
	if err := load(t, k, cause); err != nil {
		t.Fatal(err)
	}
}

// load reads the schema on a borrowed backend, and returns the error.
func load(t *testing.T, k *Keeper, cause string) error {
	t.Helper()
	l, mine := k.Start(cause)
	if !mine {
		t.Fatalf("no reading because of %q begins", cause)
	}
	<-l.Done()
	return l.Err()
}
