package proxy_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

var (
	piecesSeed  = flag.Uint64("pieces.seed", 1, "seed of the pipelines in pieces")
	piecesCount = flag.Int("pieces.count", 60, "how many pipelines are run on each server")
)

// pieceRelay stands between Sluice and PostgreSQL. What the server says goes on in pieces of
// any size, with pauses between them. Once armed it ends the connection behind so many bytes
// of either.
type pieceRelay struct {
	listener
	left, sent countdown // bytes from and to the server
	cuts       atomic.Int64
	seed       atomic.Uint64
}

// countdown is how many bytes are left to a cut; negative: none is planned.
type countdown struct{ atomic.Int64 }

// take returns how many of n bytes go on; fewer mean the cut, which is made once.
func (c *countdown) take(n int) int {
	left := c.Load()
	switch {
	case left < 0:
		return n
	case left < int64(n):
		c.Store(-1)
		return int(left)
	}
	c.Add(-int64(n))
	return n
}

func startPieceRelay(t *testing.T, target string) *pieceRelay {
	t.Helper()
	r := &pieceRelay{}
	r.disarm()
	r.listener = startListener(t, passEach(target, r.forward, r.pieces))
	return r
}

// forward passes on what down says, until one of the two ends or the cut comes.
func (r *pieceRelay) forward(up, down net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := down.Read(buf)
		if err != nil {
			return
		}
		k := r.sent.take(n)
		if _, err := up.Write(buf[:k]); err != nil {
			return
		}
		if k < n {
			r.cuts.Add(1)
			return
		}
	}
}

// disarm takes a cut back that has not come.
func (r *pieceRelay) disarm() {
	r.left.Store(-1)
	r.sent.Store(-1)
}

// pieces passes on what up says, until one of the two ends or the cut comes.
func (r *pieceRelay) pieces(down, up net.Conn) {
	rnd := rand.New(rand.NewPCG(r.seed.Add(1), 7))
	buf := make([]byte, 64<<10)
	for {
		n, err := up.Read(buf)
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) > 0; {
			wants := min(len(b), 1+rnd.IntN([]int{8, 64, 1024, 64 << 10}[rnd.IntN(4)]))
			k := r.left.take(wants)
			if _, err := down.Write(b[:k]); err != nil {
				return
			}
			if k < wants {
				r.cuts.Add(1)
				return
			}
			if b = b[k:]; rnd.IntN(4) == 0 {
				time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
			}
		}
	}
}

// A pipeline that is run again, whatever of its answers the client has by then, is answered
// as by PostgreSQL: each frame once, in order. Answers come in pieces of any size, output is
// held for a moment only, the client sends in pieces and flushes where it likes, conflicts
// come at any statement and the backend is lost behind any byte.
func TestReplayedPipelinesInPieces(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE SEQUENCE pieces_met; CREATE FUNCTION pieces_meet(n int) RETURNS int LANGUAGE plpgsql AS"+
		" $$ BEGIN IF nextval('pieces_met') % n = 0 THEN RAISE SQLSTATE '40001' USING MESSAGE = 'change conflicts with another transaction (OC000)'; END IF; RETURN 5; END $$;"+
		"CREATE SEQUENCE pieces_draws; CREATE FUNCTION pieces_draw() RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT 'drawn' || lpad(nextval('pieces_draws')::text, 7, '0') $$")
	for name, opts := range map[string][]option{"held": nil, "streamed": {func(s *setup) { s.proxy.Retry.HeldBytes = 64 }},
		"shortly": {func(s *setup) { s.proxy.Retry.HoldTime = time.Millisecond }},
		"dsql":    {asDSQL, func(s *setup) { s.proxy.Retry.HeldBytes = 512 }}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg.SQL(t, "postgres", "CREATE TABLE pieces_"+name+" (k int PRIMARY KEY, v int); INSERT INTO pieces_"+name+" SELECT g, 0 FROM generate_series(1,9) g; CREATE TABLE pieces_"+name+"_done (n int)")
			relay := startPieceRelay(t, pg.addr)
			s := startSluice(t, pg, append(opts, fastReplay, maxOpen(3), relay.option)...)
			told := make(map[string]int)
			for n := range *piecesCount {
				seed := *piecesSeed<<32 + uint64(n)
				frames, blocks := drawPipeline(rand.New(rand.NewPCG(seed, 1)), "pieces_"+name, n)
				want := playPieces(t, pg.addr, frames, nil)
				rnd := rand.New(rand.NewPCG(seed, 2))
				if rnd.IntN(3) > 0 {
					relay.left.Store(int64(rnd.IntN(len(want))))
				}
				before := relay.cuts.Load()
				got := playPieces(t, s.addr, frames, rnd)
				relay.disarm()
				how := "whole"
				if got != want {
					if how = endsEarly(got, want, blocks); how == "" {
						t.Fatalf("pipeline %d of seed %d (%d cuts): the client was told\n%s\nPostgreSQL says\n%s", n, *piecesSeed, relay.cuts.Load()-before, got, want)
					}
				}
				told[how]++
				// PostgreSQL's own makes one.
				done := pg.SQL(t, "postgres", fmt.Sprintf("SELECT count(*) FROM pieces_%s_done WHERE n = %d", name, n))
				if want := map[string]string{"whole": "2", "40001": "1", "08006": "1"}[how]; want != "" && done != want || done != "1" && done != "2" {
					t.Fatalf("pipeline %d of seed %d: %s, and its row is there %s times, PostgreSQL's own counted\n%s", n, *piecesSeed, how, done, got)
				}
			}
			replays := 0.0
			for _, n := range s.series(t, "dsql_tx_retries_total") {
				replays += n
			}
			t.Logf("%v, %d cuts, %v replays", told, relay.cuts.Load(), replays)
			if told["whole"]*2 < *piecesCount || relay.cuts.Load() == 0 {
				t.Errorf("%v, %d cuts: this shows too little", told, relay.cuts.Load())
			}
		})
	}
}

// drawPipeline draws one Sync group, in a block or not, which leaves a row n.
func drawPipeline(r *rand.Rand, table string, n int) (frames []pgproto3.FrontendMessage, block bool) {
	block = r.IntN(3) > 0
	say := func(sql string) {
		frames = append(frames, &pgproto3.Parse{Query: sql}, &pgproto3.Bind{})
		if r.IntN(3) > 0 {
			frames = append(frames, &pgproto3.Describe{ObjectType: 'P'})
		}
		frames = append(frames, &pgproto3.Execute{})
		if r.IntN(4) == 0 {
			frames = append(frames, &pgproto3.Flush{})
		}
	}
	if block {
		say("BEGIN")
	}
	say(fmt.Sprintf("INSERT INTO %s_done VALUES (%d)", table, n))
	draws := r.IntN(2) == 0
	for range 2 + r.IntN(8) {
		switch r.IntN(7) {
		case 6:
			if draws {
				say("SELECT pieces_draw()")
			}
		case 0:
			say(fmt.Sprintf("SELECT g, repeat('x', %d) FROM generate_series(1, %d) g", r.IntN(200), r.IntN(20)))
		case 1:
			say(fmt.Sprintf("SELECT pieces_meet(%d)", 3+r.IntN(4)))
		case 2:
			say(fmt.Sprintf("UPDATE %s SET v = 0 WHERE k = %d RETURNING v", table, r.IntN(12)))
		default:
			say(fmt.Sprintf("UPDATE %s SET v = 0 WHERE k <= %d", table, r.IntN(12)))
		}
	}
	if block {
		say("COMMIT")
	}
	return append(frames, &pgproto3.Sync{}), block
}

// drawn is what is another at each time of asking.
var drawn = regexp.MustCompile(`drawn\d{7}`)

// playPieces sends frames and returns the answers. With rnd they are sent in pieces. A
// conflict on a connection to PostgreSQL itself is tried again by hand.
func playPieces(t *testing.T, addr string, frames []pgproto3.FrontendMessage, rnd *rand.Rand) string {
	t.Helper()
	out := encode(t, frames...)
	for {
		c := dialRaw(t, addr)
		if rnd == nil {
			c.queue(out)
		} else {
			rest := out
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				for len(rest) > 0 {
					k := min(len(rest), 1+rnd.IntN([]int{32, 256, 64 << 10}[rnd.IntN(3)]))
					c.conn.Write(rest[:k])
					if rest = rest[k:]; rnd.IntN(3) == 0 {
						time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond)
					}
				}
			}()
			defer func() { <-sent }()
		}
		got := drawn.ReplaceAllString(c.readThrough("Z"), "drawn")
		c.conn.Close()
		if rnd != nil || !strings.Contains(got, "C=40001") {
			return got
		}
	}
}

// endsEarly says with what error of Sluice's got ends where want goes on; "" if it is not
// want up to there.
func endsEarly(got, want string, block bool) string {
	at := strings.Index(got, "E S=")
	if whole, _, torn := strings.Cut(got, "EOF\n"); torn && strings.HasPrefix(want, whole) && strings.HasPrefix(want[len(whole):], "D ") {
		return "half a row"
	}
	if at < 0 || !strings.HasPrefix(want, got[:at]) {
		return ""
	}
	rest := got[at:]
	status := "Z I\n"
	if block && !strings.HasSuffix(rest, status) {
		status = "Z E\n"
	}
	line, tail, _ := strings.Cut(rest, "\n")
	if tail != status {
		return ""
	}
	for _, code := range []string{"40001", "08006", "08007"} {
		if strings.Contains(line, "C="+code) {
			return code
		}
	}
	return ""
}

// A pipeline that is longer than what Sluice gathers, with an error in one of its rounds or in
// none, and whose backend is lost anywhere: the client is answered as by PostgreSQL, or told of
// the loss behind answers that are PostgreSQL's.
func TestLongPipelinesInPieces(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	for name, opts := range map[string][]option{"plain": nil, "replay": {fastReplay}, "dsql": {asDSQL, fastReplay}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			relay := startPieceRelay(t, pg.addr)
			s := startSluice(t, pg, append(opts, maxOpen(3), relay.option)...)
			told := make(map[string]int)
			for n := range max(4, *piecesCount/4) {
				rnd := rand.New(rand.NewPCG(*piecesSeed<<32+uint64(n), 3))
				out := encode(t, drawLongPipeline(rnd)...)
				want := playLong(t, dialRaw(t, pg.addr), out, func() {})
				c := dialRaw(t, s.addr)
				switch rnd.IntN(5) {
				case 0: // no cut
				case 1, 2:
					relay.left.Store(int64(rnd.IntN(200)))
				default:
					relay.sent.Store(int64(rnd.IntN(len(out))))
				}
				got := playLong(t, c, out, relay.disarm)
				how := "whole"
				if got != want {
					if how = endsEarly(got, want, false); how == "" {
						at := 0
						for at < min(len(got), len(want)) && got[at] == want[at] {
							at++
						}
						t.Fatalf("pipeline %d of seed %d, %d bytes: behind %d characters the client was told\n%.2000s\nPostgreSQL says\n%.2000s", n, *piecesSeed, len(out), at, got[at:], want[at:])
					}
				}
				told[how]++
			}
			t.Logf("%v, %d cuts", told, relay.cuts.Load())
			if relay.cuts.Load() == 0 || told["whole"] == 0 {
				t.Errorf("%v, %d cuts: this shows too little", told, relay.cuts.Load())
			}
		})
	}
}

// drawLongPipeline draws a round of frames, and repeats it. q1 fails where its value is 1.
func drawLongPipeline(r *rand.Rand) (frames []pgproto3.FrontendMessage) {
	const failing = "SELECT 1/(g - $1::int) AS x FROM generate_series(1, 1) AS g"
	frames = append(frames, &pgproto3.Parse{Name: "q1", Query: failing})
	bind := func(name, value string) *pgproto3.Bind {
		return &pgproto3.Bind{PreparedStatement: name, Parameters: [][]byte{[]byte(value)}}
	}
	var round []pgproto3.FrontendMessage
	for range 1 + r.IntN(4) {
		switch r.IntN(6) {
		case 0:
			round = append(round, &pgproto3.Parse{Query: "SELECT $1::int /* " + strings.Repeat("x", r.IntN(100)) + " */"}, bind("", "5"))
		case 1:
			round = append(round, &pgproto3.Parse{Name: "q2", Query: failing}, &pgproto3.Describe{ObjectType: 'S', Name: "q2"}, bind("q2", "3"), &pgproto3.Close{ObjectType: 'S', Name: "q2"})
		case 2:
			round = append(round, &pgproto3.Describe{ObjectType: 'S', Name: "q1"}, bind("q1", "2"))
		default:
			round = append(round, bind("q1", "4"))
		}
		if r.IntN(2) == 0 {
			round = append(round, &pgproto3.Describe{ObjectType: 'P'})
		}
		round = append(round, &pgproto3.Execute{})
	}
	rounds := (4000 + r.IntN(20_000)) / len(round)
	fails := []int{0, 1 + r.IntN(rounds), -1}[r.IntN(3)]
	for n := range rounds {
		if n == fails {
			frames = append(frames, bind("q1", "1"), &pgproto3.Execute{})
		}
		frames = append(frames, round...)
	}
	return append(frames, &pgproto3.Sync{})
}

// playLong sends a pipeline while it reads the answers. Behind it, and done, the client goes on.
func playLong(t *testing.T, c *rawClient, out []byte, done func()) string {
	t.Helper()
	defer c.conn.Close()
	sent := make(chan struct{})
	go func() { defer close(sent); c.conn.Write(out) }()
	got := c.readThrough("Z")
	<-sent
	done()
	if next := c.say(t, "Q SELECT 7\n< Z\n"); !strings.Contains(next, "\\x017") {
		return got + "the next statement: " + next
	}
	return got
}
