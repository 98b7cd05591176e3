package proxy_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
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
// any size, with pauses between them. Once armed it ends the connection behind so many bytes.
type pieceRelay struct {
	ln     net.Listener
	target string
	left   atomic.Int64 // bytes to the cut; negative: none is planned
	cuts   atomic.Int64
	seed   atomic.Uint64
}

func startPieceRelay(t *testing.T, target string) *pieceRelay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &pieceRelay{ln: ln, target: target}
	r.left.Store(-1)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			down, err := ln.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", r.target)
			if err != nil {
				down.Close()
				continue
			}
			end := sync.OnceFunc(func() { down.Close(); up.Close() })
			serving.Go(func() {
				defer end()
				buf := make([]byte, 64<<10)
				for {
					n, err := down.Read(buf)
					if _, werr := up.Write(buf[:n]); err != nil || werr != nil {
						return
					}
				}
			})
			serving.Go(func() {
				defer end()
				r.pieces(down, up)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	return r
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
			k := min(len(b), 1+rnd.IntN([]int{8, 64, 1024, 64 << 10}[rnd.IntN(4)]))
			if left := r.left.Load(); left >= 0 {
				if k = min(k, int(left)); k == 0 {
					r.left.Store(-1)
					r.cuts.Add(1)
					return
				}
				r.left.Add(-int64(k))
			}
			if _, err := down.Write(b[:k]); err != nil {
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
		" $$ BEGIN IF nextval('pieces_met') % n = 0 THEN RAISE SQLSTATE '40001' USING MESSAGE = 'change conflicts with another transaction (OC000)'; END IF; RETURN 5; END $$")
	for name, opts := range map[string][]option{"held": nil, "streamed": {func(s *setup) { s.proxy.Retry.HeldBytes = 64 }},
		"shortly": {func(s *setup) { s.proxy.Retry.HoldTime = time.Millisecond }},
		"dsql":    {asDSQL, func(s *setup) { s.proxy.Retry.HeldBytes = 512 }}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pg.SQL(t, "postgres", "CREATE TABLE pieces_"+name+" (k int PRIMARY KEY, v int); INSERT INTO pieces_"+name+" SELECT g, 0 FROM generate_series(1,9) g")
			relay := startPieceRelay(t, pg.addr)
			host, port, err := net.SplitHostPort(relay.ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			s := startSluice(t, pg, append(opts, fastReplay, maxOpen(3), func(s *setup) {
				s.dial.Address = host
				fmt.Sscan(port, &s.dial.Port)
			})...)
			told := make(map[string]int)
			for n := range *piecesCount {
				seed := *piecesSeed<<32 + uint64(n)
				frames, blocks := drawPipeline(rand.New(rand.NewPCG(seed, 1)), "pieces_"+name)
				want := playPieces(t, pg.addr, frames, nil)
				rnd := rand.New(rand.NewPCG(seed, 2))
				if rnd.IntN(3) > 0 {
					relay.left.Store(int64(rnd.IntN(len(want))))
				}
				before := relay.cuts.Load()
				got := playPieces(t, s.addr, frames, rnd)
				relay.left.Store(-1)
				how := "whole"
				if got != want {
					if how = endsEarly(got, want, blocks); how == "" {
						t.Fatalf("pipeline %d of seed %d (%d cuts): the client was told\n%s\nPostgreSQL says\n%s", n, *piecesSeed, relay.cuts.Load()-before, got, want)
					}
				}
				told[how]++
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

// drawPipeline draws one Sync group, in a block or not.
func drawPipeline(r *rand.Rand, table string) (frames []pgproto3.FrontendMessage, block bool) {
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
	for range 2 + r.IntN(8) {
		switch r.IntN(6) {
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
		got := c.readThrough("Z")
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
