package block_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/rewrite"
)

var (
	oneIn   = flag.Int("block.one_in", 40, "of so many programs TestBlock plays one; 1: all")
	longest = flag.Int("block.longest", 4, "how many statements its programs have at most")
)

// what a statement of the programs does besides what it says about transactions.
type what uint8

const (
	nothing what = iota
	looks        // returns its transaction and the modes
	writes       // inserts a row
	changes      // DDL
	errs
)

// statement is one of the alphabet. %d is the number of the row.
type statement struct {
	sql  string
	does what
	tx   rewrite.TxControl
}

const modesNow = "(SELECT virtualtransaction FROM pg_locks WHERE pid = pg_backend_pid() LIMIT 1) || ' ' || current_setting('transaction_read_only') || ' ' || current_setting('transaction_isolation')"

var alphabet = func() (all []statement) {
	planner, err := rewrite.New(rewrite.Config{MaxBytes: 64 << 10, MaxNesting: 100, CacheEntries: 100, CacheBytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	for _, s := range []struct {
		sql  string
		does what
	}{
		{"BEGIN", nothing}, {"BEGIN READ ONLY", nothing}, {"BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE", nothing}, {"START TRANSACTION DEFERRABLE", nothing},
		{"COMMIT", nothing}, {"ROLLBACK", nothing}, {"COMMIT AND CHAIN", nothing}, {"ROLLBACK AND CHAIN", nothing},
		{"SAVEPOINT a", nothing}, {"RELEASE a", nothing}, {"ROLLBACK TO a", nothing},
		{"SET TRANSACTION READ ONLY", nothing}, {"SET TRANSACTION READ WRITE", nothing}, {"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", nothing},
		{"SELECT " + modesNow, looks}, {"INSERT INTO t VALUES (%d) RETURNING " + modesNow, writes}, {"COMMENT ON TABLE t IS '%d'", changes}, {"SELECT 1/0", errs},
	} {
		st := statement{sql: s.sql, does: s.does}
		if s.does == nothing {
			st.tx = planner.Plan([]byte(s.sql)).SingleStatement().Tx
		}
		all = append(all, st)
	}
	return all
}()

// A program is statements, and how each is sent: 'q' begins a Query, 'j' is behind the one before in
// its Query, 'e' is executed in a pipeline, and 's' so with a Sync behind it.
type program struct {
	statements []int
	how        string
}

func (p program) String() string {
	var b strings.Builder
	for i, s := range p.statements {
		fmt.Fprintf(&b, "%c:%s ", p.how[i], alphabet[s].sql)
	}
	return b.String()
}

// endsQuery reports whether statement i is the last of a Query.
func (p program) endsQuery(i int) bool {
	return (p.how[i] == 'q' || p.how[i] == 'j') && (i+1 == len(p.how) || p.how[i+1] != 'j')
}

// syncs reports whether a Sync is behind statement i.
func (p program) syncs(i int) bool {
	return p.how[i] == 's'
}

// frames are what the program sends.
func (p program) frames(buf []byte) []byte {
	add := func(m pgproto3.FrontendMessage) {
		var err error
		if buf, err = m.Encode(buf); err != nil {
			panic(err)
		}
	}
	query := ""
	for i, s := range p.statements {
		switch p.how[i] {
		case 'q', 'j':
			query += strings.ReplaceAll(alphabet[s].sql, "%d", strconv.Itoa(i)) + ";"
			if p.endsQuery(i) {
				add(&pgproto3.Query{String: query})
				query = ""
			}
		default:
			add(&pgproto3.Bind{PreparedStatement: fmt.Sprintf("s%d_%d", s, i)})
			add(&pgproto3.Execute{})
		}
		if p.syncs(i) {
			add(&pgproto3.Sync{})
		}
	}
	add(&pgproto3.Sync{}) // a pipeline may have failed in front of a Query
	add(&pgproto3.Query{String: "ROLLBACK"})
	add(&pgproto3.Query{String: "WITH gone AS (DELETE FROM t RETURNING n) SELECT array_agg(n ORDER BY n) FROM gone"})
	return buf
}

// answered is what a server says to a program: to each statement its row or tag, or the error's code; the
// status of each ReadyForQuery; the rows that are left.
func answered(conn *pgproto3.Frontend) (out []string, err error) {
	row, done := "", false
	for {
		m, err := conn.Receive()
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			row = string(m.Values[0])
		case *pgproto3.CommandComplete:
			tag := string(m.CommandTag)
			if row != "" {
				tag, row = row, ""
			}
			out = append(out, tag)
			done = tag == "SELECT 1" || strings.HasPrefix(tag, "{") // of no row, or of some
		case *pgproto3.ErrorResponse:
			out = append(out, m.Code)
		case *pgproto3.ReadyForQuery:
			if done {
				return out, nil
			}
			out = append(out, string(m.TxStatus))
		}
	}
}

// server is PostgreSQL as a Block has it: what is committed, and what it would say.
type server struct {
	b       block.Block
	pending []int
	marks   []int // of pending, one for each savepoint
	rows    []int
	out     []string
}

func (s *server) end(e block.TxEffect) {
	switch e {
	case block.Commits:
		s.rows = append(s.rows, s.pending...)
		fallthrough
	case block.RollsBack:
		s.pending, s.marks = nil, nil
	}
}

// run is one statement, the i-th of the program. It reports whether that has failed.
func (s *server) run(st *statement, i int) (failed bool) {
	code := s.b.RefusalCode(&st.tx)
	switch {
	case code != "":
	case st.does == errs:
		code = "22012"
	case (st.does == writes || st.does == changes) && s.b.IsReadOnly():
		code = "25006"
	}
	if code != "" {
		s.out = append(s.out, code)
		if s.b.RecordError(false); !s.b.IsOpen() {
			s.end(block.RollsBack)
		}
		return true
	}
	modes := fmt.Sprintf("%d %v %v", s.b.EndedTxCount(), s.b.IsReadOnly(), s.b.Modes().Isolation)
	was := s.b.Status()
	e := s.b.RecordCommand(&st.tx, st.does != nothing)
	if n := s.b.SavepointCount(); e == block.GoesOn {
		if len(s.marks) < n {
			s.marks = append(s.marks, len(s.pending))
		}
		if s.marks = s.marks[:n]; st.tx.Verb == rewrite.RollbackTo {
			s.pending = s.pending[:s.marks[n-1]]
		}
	}
	switch {
	case st.does == looks, st.does == writes:
		s.out = append(s.out, modes)
		if st.does == writes {
			s.pending = append(s.pending, i)
		}
	case st.does == changes:
		s.out = append(s.out, "COMMENT")
	case was == 'E' && e != block.GoesOn:
		s.out = append(s.out, "ROLLBACK")
	default:
		s.out = append(s.out, tagOf(st))
	}
	s.end(e)
	return false
}

// tagOf is the tag of a statement that says something about transactions.
func tagOf(st *statement) string {
	word, _, _ := strings.Cut(st.sql, " ")
	if word == "START" {
		return "START TRANSACTION"
	}
	return word
}

// play is the program as a Block has it.
func (p program) play() []string {
	var s server
	skips, skipsQuery := false, false
	for i, n := range p.statements {
		simple := p.how[i] == 'q' || p.how[i] == 'j'
		if p.how[i] == 'q' {
			skipsQuery = false
		}
		if !skips && !(simple && skipsQuery) && s.run(&alphabet[n], i) {
			skipsQuery, skips = simple, !simple
		}
		switch {
		case skips && !p.syncs(i), !p.syncs(i) && !p.endsQuery(i):
			continue
		case p.syncs(i):
			skips = false
		}
		s.end(s.b.RecordSync())
		s.out = append(s.out, string(s.b.Status()))
	}
	s.end(s.b.RecordSync())
	s.out = append(s.out, string(s.b.Status()))
	rows := "SELECT 1"
	if slices.Sort(s.rows); len(s.rows) > 0 {
		rows = strings.ReplaceAll(fmt.Sprint(s.rows), " ", ",")
		rows = "{" + rows[1:len(rows)-1] + "}"
	}
	return append(s.out, "ROLLBACK", "I", rows)
}

// same reports whether what PostgreSQL says is what a Block does, whose numbers of transactions are
// others.
func same(postgres, model []string) bool {
	if len(postgres) != len(model) {
		return false
	}
	ids, numbers := map[string]string{}, map[string]string{}
	for i, want := range postgres {
		got := model[i]
		id, modes, ok := strings.Cut(want, " ")
		if !ok || !strings.Contains(id, "/") {
			if got != want {
				return false
			}
			continue
		}
		number, said, _ := strings.Cut(got, " ")
		if known, ok := ids[id]; ok && known != number {
			return false
		}
		if known, ok := numbers[number]; ok && known != id {
			return false
		}
		ids[id], numbers[number] = number, id
		access, level, _ := strings.Cut(said, " ")
		if level == "" {
			level = "READ COMMITTED"
		}
		on := map[string]string{"true": "on", "false": "off"}[access]
		if modes != on+" "+strings.ToLower(level) {
			return false
		}
	}
	return true
}

// ways are the ways in which n statements may be sent.
func ways(n int) []string {
	if n == 0 {
		return []string{""}
	}
	var all []string
	for _, before := range ways(n - 1) {
		all = append(all, before+"q", before+"e", before+"s")
		if k := len(before); k > 0 && (before[k-1] == 'q' || before[k-1] == 'j') {
			all = append(all, before+"j")
		}
	}
	return all
}

// programs are all of so many statements, or each oneIn-th.
func programs(n, oneIn int, play func(program)) {
	all, at := ways(n), 0
	statements := make([]int, n)
	for {
		for _, how := range all {
			if at++; at%oneIn == 0 {
				play(program{slices.Clone(statements), how})
			}
		}
		i := n - 1
		for ; i >= 0; i-- {
			if statements[i]++; statements[i] < len(alphabet) {
				break
			}
			statements[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// hasTwin reports whether another program says the same, for those of four statements: a first request that is a
// transaction by itself leaves the session as it was before it, a Sync follows the last statement whether that is an
// 'e' or an 's', DEFERRABLE changes nothing of what is compared, and DDL does what an INSERT does.
func (p program) hasTwin() bool {
	last := len(p.how) - 1
	if p.how[last] == 's' || slices.ContainsFunc(p.statements, func(n int) bool { return alphabet[n].does == changes || alphabet[n].tx.Deferrable }) {
		return true
	}
	return last > 0 && alphabet[p.statements[0]].tx.Verb != rewrite.Begin && (p.syncs(0) || p.how[0] == 'q' && p.endsQuery(0))
}

// connect is a connection on which the statements of the alphabet are prepared.
func connect(t *testing.T, s *pgtest.Server) *pgproto3.Frontend {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for n, st := range alphabet {
		for i := range *longest {
			if _, err := conn.Prepare(ctx, fmt.Sprintf("s%d_%d", n, i), strings.ReplaceAll(st.sql, "%d", strconv.Itoa(i)), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	raw, err := conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Conn.Close() })
	return raw.Frontend
}

// For every program of up to four statements (-block.one_in: of so many one), in every way to send it,
// PostgreSQL says what a Block does: which statements fail, and with which code, which are of one
// transaction, by which modes, the status behind each request, and which rows are committed.
func TestBlock(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, pgtest.Setting("fsync", "off"))
	s.SQL(t, "postgres", "CREATE TABLE t (n int)")
	conn := connect(t, s)
	played := 0
	var batch []program
	ask := func() {
		var frames []byte
		for _, p := range batch {
			frames = p.frames(frames)
		}
		if err := conn.SendUnbufferedEncodedCopyData(frames); err != nil {
			t.Fatal(err)
		}
		for _, p := range batch {
			want, err := answered(conn)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.play(); !same(want, got) {
				t.Errorf("%v\nPostgreSQL %q\nBlock      %q", p, want, got)
			}
		}
		s.SQL(t, "postgres", "TRUNCATE t")
		played, batch = played+len(batch), batch[:0]
	}
	for n := 1; n <= *longest; n++ {
		one := *oneIn
		switch {
		case n < 3:
			one = 1
		case n == 4:
			one *= 50
		}
		if *oneIn == 1 {
			one = 1
		}
		programs(n, one, func(p program) {
			if n > 3 && p.hasTwin() {
				return
			}
			if batch = append(batch, p); len(batch) == 100 {
				if ask(); t.Failed() {
					t.FailNow()
				}
			}
		})
	}
	ask()
	t.Logf("%d programs", played)
}

// A status that the server tells counts, whatever was known.
func TestReady(t *testing.T) {
	t.Parallel()
	for _, was := range []byte("ITE") {
		for _, status := range []byte("ITE") {
			b := block.FromStatus(was)
			ends := b.EndedTxCount()
			if b.RecordReady(status); b.Status() != status || b.IsOpen() != (status != 'I') || (b.EndedTxCount() != ends) != (status == 'I' && was != 'I') {
				t.Errorf("%c told %c: %+v", was, status, b)
			}
		}
	}
}

// What transactions usually begin with goes into those that say nothing else, and not into one that does.
func TestUsual(t *testing.T) {
	t.Parallel()
	var b block.Block
	b = b.WithDefaults(block.TxModes{Access: block.ReadOnly})
	begin := rewrite.TxControl{Verb: rewrite.Begin}
	if b.RecordCommand(&begin, false); !b.IsReadOnly() {
		t.Error("a BEGIN without modes is not READ ONLY")
	}
	b.RecordCommand(&rewrite.TxControl{Verb: rewrite.Rollback}, false)
	begin.ReadWrite = true
	if b.RecordCommand(&begin, false); b.IsReadOnly() {
		t.Error("BEGIN READ WRITE is READ ONLY")
	}
}

// Each SAVEPOINT takes the same memory, however many there are, and copies of the Block keep theirs.
func TestManySavepoints(t *testing.T) { // not parallel: it reads what the process allocates
	const count = 20_000
	var b block.Block
	b.RecordCommand(&rewrite.TxControl{Verb: rewrite.Begin}, false)
	save := rewrite.TxControl{Verb: rewrite.Savepoint, Name: "s"}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range count {
		b.RecordCommand(&save, false)
	}
	runtime.ReadMemStats(&after)
	if bytes := (after.TotalAlloc - before.TotalAlloc) / count; b.SavepointCount() != count || bytes > 200 {
		t.Errorf("%d savepoints of %d bytes each", b.SavepointCount(), bytes)
	}
	earlier := b
	b.RecordCommand(&rewrite.TxControl{Verb: rewrite.ReleaseSavepoint, Name: "s"}, false)
	b.RecordCommand(&rewrite.TxControl{Verb: rewrite.Savepoint, Name: "t"}, false)
	if earlier.HasSavepoint("t") || !b.HasSavepoint("t") || earlier.SavepointCount() != count || b.SavepointCount() != count {
		t.Errorf("%d savepoints, and %d in a copy", b.SavepointCount(), earlier.SavepointCount())
	}
}
