package proxy_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/txmodel"
	"github.com/sluice-proxy/sluice/proxy"
)

// By itself TestOutcomeOfCuts samples; all turns up to three commands, and 20,000 of
// four and five, in two hours of two cores:
//
//	go test ./proxy -run 'TestOutcomeOfCuts$' -outcome.all -outcome.samples 20000 -outcome.workers 3 -timeout 12h -v
var (
	outcomeAll     = flag.Bool("outcome.all", false, "cut every turn of up to three commands")
	outcomeSamples = flag.Int("outcome.samples", 40/proxy.OneIn, "how many turns are drawn")
	outcomeSeed    = flag.Uint64("outcome.seed", 1, "what they are drawn with")
	outcomeWorkers = flag.Int("outcome.workers", 1, "how many clients of each route share the turns")
)

// cutTurn is a turn: the first executes of its commands by the extended protocol, with a
// Flush behind the first flush of them (0: none), the others in one simple Query.
type cutTurn struct {
	start           byte
	commands        []string
	executes, flush int
}

func (c cutTurn) String() string {
	return fmt.Sprintf("at %c, %d of %q executed, Flush behind %d", c.start, c.executes, c.commands, c.flush)
}

// sql is command i of run n.
func (c cutTurn) sql(n, i int) string {
	switch c.commands[i] {
	case "READ":
		return "SELECT 1"
	case "WRITE":
		return fmt.Sprintf("INSERT INTO cut_rows VALUES (%d, %d)", n, i+1)
	case "DDL":
		return fmt.Sprintf("CREATE TABLE cut_%d_%d ()", n, i+1)
	case "SAVEPOINT", "ROLLBACK TO", "RELEASE":
		return c.commands[i] + " s"
	}
	return c.commands[i]
}

// cutWorker plays turns on one client of a Sluice.
type cutWorker struct {
	t     *testing.T
	relay *cutRelay
	c     *rawClient
	look  *pgx.Conn
	runs  int // number of the run, and what it wrote
	step  int
	kinds map[string]int
}

// play is one run: it returns how many commands were answered, the SQLSTATE of a loss,
// and the status behind it.
func (w *cutWorker) play(turn cutTurn, cut relayCut) (answered int, lost string, status byte, ok bool) {
	query := func(sql string) { w.c.queue(encode(w.t, &pgproto3.Query{String: sql})) }
	read := func(done func(typ byte, payload []byte) bool) bool {
		for {
			typ, payload, err := w.c.frame()
			if err != nil {
				w.t.Errorf("%v, cut %+v: %v", turn, cut, err)
				return false
			}
			if done(typ, payload) {
				return true
			}
		}
	}
	ready := func(typ byte, payload []byte) bool {
		if typ == 'E' {
			w.t.Errorf("%v: %s", turn, showFrame(typ, payload))
		}
		return typ == 'Z'
	}
	if turn.start == 'T' {
		query("BEGIN")
		query(fmt.Sprintf("INSERT INTO cut_rows VALUES (%d, 0)", w.runs))
		w.c.flush()
		for range 2 {
			if !read(ready) {
				return 0, "", 0, false
			}
		}
	}
	w.relay.arm(cut)
	failed, asked := false, false // asked: the Query was sent
	note := func(typ byte, payload []byte) bool {
		switch typ {
		case 'C', 'I':
			answered++
		case 'E':
			failed = true
			for _, code := range []string{"08006", "08007"} {
				if strings.Contains(showFrame(typ, payload), "C="+code) {
					lost = code
				}
			}
			if asked && answered < turn.executes { // the Query is skipped
				w.c.queue(encode(w.t, &pgproto3.Sync{}))
				w.c.flush()
			}
		case 'Z':
			status = payload[0]
			return true
		}
		return false
	}
	for i := range turn.executes {
		w.c.queue(encode(w.t, &pgproto3.Parse{Query: turn.sql(w.runs, i)}, &pgproto3.Bind{}, &pgproto3.Execute{}))
		if i+1 != turn.flush {
			continue
		}
		w.c.queue(encode(w.t, &pgproto3.Flush{}))
		w.c.flush()
		if !read(func(typ byte, payload []byte) bool { return note(typ, payload) || failed || answered == i+1 }) {
			return 0, "", 0, false
		}
	}
	if turn.executes < len(turn.commands) && !failed {
		var parts []string
		for i := turn.executes; i < len(turn.commands); i++ {
			parts = append(parts, turn.sql(w.runs, i))
		}
		query(strings.Join(parts, "; "))
		asked = true
	} else {
		w.c.queue(encode(w.t, &pgproto3.Sync{}))
	}
	w.c.flush()
	return answered, lost, status, read(note)
}

// cuts plays a turn with every cut there is.
func (w *cutWorker) cuts(turn cutTurn) bool {
	applied, status := txmodel.PlayTurn(turn.start, turn.commands, turn.executes)
	for cut := (relayCut{}); ; {
		w.runs += w.step
		answered, lost, got, ok := w.play(turn, cut)
		made, available := w.relay.disarm()
		if !ok {
			return false
		}
		if got != 'I' {
			w.c.queue(encode(w.t, &pgproto3.Query{String: "ROLLBACK"}))
			w.c.readThrough("Z")
		}
		rows, twice := w.applied(turn)
		right := false
		switch lost {
		case "":
			right = rows == applied[len(applied)-1] && got == status
		case "08006":
			right = rows == applied[answered]
		default:
			for _, a := range applied[answered:] {
				right = right || rows == a
			}
		}
		w.kinds[lost]++
		if twice || !right {
			w.t.Errorf("%v, cut %+v: %d answers, %q, status %c; applied %b (twice: %v), by the model %b, status %c",
				turn, cut, answered, lost, got, rows, twice, applied, status)
			return false
		}
		switch {
		case !made:
			return true
		case cut.replies < available:
			cut.replies++
		default:
			cut = relayCut{frames: cut.frames + 1}
		}
	}
}

// applied looks at what a run has left: one bit for each change.
func (w *cutWorker) applied(turn cutTurn) (rows uint64, twice bool) {
	got, err := w.look.Query(w.t.Context(), "SELECT id, count(*) FROM cut_rows WHERE run = $1 GROUP BY id", w.runs)
	if err != nil {
		w.t.Fatal(err)
	}
	for got.Next() {
		var id, n int
		if err := got.Scan(&id, &n); err != nil {
			w.t.Fatal(err)
		}
		rows |= 1 << id
		twice = twice || n > 1
	}
	for i, c := range turn.commands {
		var there bool
		if c != "DDL" {
			continue
		}
		name := fmt.Sprintf("cut_%d_%d", w.runs, i+1)
		if err := w.look.QueryRow(w.t.Context(), "SELECT to_regclass($1) IS NOT NULL", name).Scan(&there); err != nil {
			w.t.Fatal(err)
		}
		if there {
			rows |= 2 << i
			if _, err := w.look.Exec(w.t.Context(), "DROP TABLE "+name); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return rows, twice
}

var cutCommands = []string{"BEGIN", "READ", "WRITE", "COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN",
	"SAVEPOINT", "RELEASE", "ROLLBACK TO", "DDL"}

// turns yields every turn of n commands; of more than three, as many as asked for.
func cutTurns(rng *rand.Rand, n int, all bool) func(yield func(cutTurn) bool) {
	shapes := func(start byte, commands []string, yield func(cutTurn) bool) bool {
		for executes := range n + 1 {
			for flush := range executes + 1 {
				if !yield(cutTurn{start, commands, executes, flush}) {
					return false
				}
			}
		}
		return true
	}
	return func(yield func(cutTurn) bool) {
		if !all {
			for {
				commands := make([]string, n)
				for i := range commands {
					commands[i] = cutCommands[rng.IntN(len(cutCommands))]
				}
				executes := rng.IntN(n + 1)
				if !yield(cutTurn{"IT"[rng.IntN(2)], commands, executes, rng.IntN(executes + 1)}) {
					return
				}
			}
		}
		total := 1
		for range n {
			total *= len(cutCommands)
		}
		for number := range total {
			commands := make([]string, n)
			for i := range commands {
				commands[i] = cutCommands[number%len(cutCommands)]
				number /= len(cutCommands)
			}
			if !shapes('I', commands, yield) || !shapes('T', commands, yield) {
				return
			}
		}
	}
}

// What a client is told of a backend that is lost holds for what PostgreSQL has applied,
// wherever in a turn the backend is lost: nothing twice, nothing denied, and nothing
// that was answered is gone.
func TestOutcomeOfCuts(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE cut_rows (run int, id int); CREATE INDEX ON cut_rows (run)")
	routes := []struct {
		name string
		opts []option
	}{{"plain", nil}, {"replay", []option{fastReplay}}}
	workers := *outcomeWorkers
	for i, route := range routes {
		for n := range workers {
			t.Run(fmt.Sprintf("%s/%d", route.name, n), func(t *testing.T) {
				t.Parallel()
				relay := startCutRelay(t, pg.addr)
				s := startSluice(t, pg, append(route.opts, maxOpen(2), relay.option)...)
				look, err := pgx.Connect(t.Context(), "postgres://postgres@"+pg.addr+"/postgres?sslmode=disable")
				if err != nil {
					t.Fatal(err)
				}
				defer look.Close(t.Context())
				w := &cutWorker{t: t, relay: relay, c: dialRaw(t, s.addr), look: look,
					runs: i*workers + n, step: len(routes) * workers, kinds: map[string]int{}}
				defer w.c.conn.Close()
				w.share(n, workers, rand.New(rand.NewPCG(*outcomeSeed, uint64(i))))
			})
		}
	}
}

// share plays every turn whose number is worker n's.
func (w *cutWorker) share(n, workers int, rng *rand.Rand) {
	number, turns, first := 0, 0, w.runs
	for length := 1; length <= 5; length++ {
		all, left := *outcomeAll && length <= 3, *outcomeSamples/5
		if *outcomeAll {
			left = *outcomeSamples / 2 / 2 // of two lengths, on two routes
		}
		for turn := range cutTurns(rng, length, all) {
			if left--; !all && left < 0 {
				break
			}
			if number++; number%workers != n {
				continue
			}
			if turns++; !w.cuts(turn) {
				return
			}
		}
	}
	w.t.Logf("%d turns, %d runs: no loss told %d times, 08006 %d, 08007 %d", turns, (w.runs-first)/w.step, w.kinds[""], w.kinds["08006"], w.kinds["08007"])
}
