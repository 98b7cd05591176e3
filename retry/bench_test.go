package retry

import (
	"crypto/sha256"
	"hash/maphash"
	"strconv"
	"testing"
)

// usualTurn is what a prepared SELECT of one row sends and answers.
type usualTurn struct{ bind, execute, description, row, tag, ready []byte }

func newUsualTurn() usualTurn {
	return usualTurn{
		bind: make([]byte, 40), execute: make([]byte, 5),
		description: reply{typ: 'T', payload: make([]byte, 60)}.frame(),
		row:         reply{typ: 'D', payload: make([]byte, 100)}.frame(),
		tag:         reply{typ: 'C', payload: []byte("SELECT 1\x00")}.frame(),
		ready:       readyInBlock,
	}
}

// turnFrames is how many frames play notes, both ways.
const turnFrames = 8

func (u *usualTurn) play(l *ReplayLog[int]) {
	u.send(l)
	l.RecordReply('2', u.ready[:5])
	l.RecordReply('T', u.description)
	l.RecordRows(u.row)
	l.RecordReply('C', u.tag)
	l.RecordReply('Z', u.ready)
}

func (u *usualTurn) send(l *ReplayLog[int]) {
	l.RecordFrame('B', 1, len(u.bind), 0)
	l.AppendPayload(u.bind)
	l.RecordFrame('E', 1, len(u.execute), 0)
	l.AppendPayload(u.execute)
	l.RecordFrame('S', 0, 0, 0)
}

// perFrame reports nanoseconds for each frame.
func perFrame(b *testing.B, frames int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(frames), "ns/frame")
}

// BenchmarkTransaction logs a transaction of 8 turns.
func BenchmarkTransaction(b *testing.B) {
	turn := newUsualTurn()
	logs := newLogs(b)
	b.ReportAllocs()
	for b.Loop() {
		l := logs.Open()
		for range 8 {
			turn.play(l)
		}
		l.Close()
	}
	perFrame(b, 8*turnFrames)
}

// BenchmarkSent logs what is sent in a transaction of 8 turns, without replies.
func BenchmarkSent(b *testing.B) {
	turn := newUsualTurn()
	logs := newLogs(b)
	for b.Loop() {
		l := logs.Open()
		for range 8 {
			turn.send(l)
		}
		l.Close()
	}
	perFrame(b, 8*3)
}

// BenchmarkRows digests rows of 100 bytes in spans of a relay's buffer.
func BenchmarkRows(b *testing.B) {
	l := newLogs(b).Open()
	rows := newUsualTurn().row
	const n = 32 << 10
	span := make([]byte, 0, n+len(rows))
	for len(span) < n {
		span = append(span, rows...)
	}
	b.SetBytes(int64(len(span)))
	for b.Loop() {
		l.RecordRows(span)
	}
	perFrame(b, len(span)/len(rows))
}

var benchSink uint64

// BenchmarkDigest compares candidates; see hasher for the choice.
func BenchmarkDigest(b *testing.B) {
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	sha := sha256.New()
	var out [sha256.Size]byte
	h, err := newHasher()
	if err != nil {
		b.Fatal(err)
	}
	d := &runningDigest{h: h}
	for _, size := range []int{64, 256, 1 << 10, 32 << 10} {
		data := make([]byte, size)
		for name, run := range map[string]func(){
			"gmac":    func() { d.reset(); d.write(data); d.sum() },
			"sha256":  func() { sha.Reset(); sha.Write(data); sha.Sum(out[:0]) },
			"maphash": func() { benchSink += maphash.Bytes(seeds[0], data) ^ maphash.Bytes(seeds[1], data) },
		} {
			b.Run(name+"/"+strconv.Itoa(size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					run()
				}
			})
		}
	}
}

func BenchmarkGate(b *testing.B) {
	g := NewConflictGate(Defaults())
	params := make([]byte, 40)
	b.Run("idle", func(b *testing.B) {
		for b.Loop() {
			g.Idle()
		}
	})
	b.Run("key", func(b *testing.B) {
		for b.Loop() {
			NewContentionKey(g, "UPDATE executions SET range_id = $1 WHERE shard_id = $2", params)
		}
	})
}
