package proxy_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

var (
	malformedSeed  = flag.Uint64("malformed.seed", 1, "the seed of TestMalformedFrames")
	malformedCount = flag.Int("malformed.count", 60, "how many programs TestMalformedFrames plays in each setup")
)

// malformedTexts are texts of the frames: what the server runs, and what Sluice may answer itself.
var malformedTexts = []string{"SELECT 1", "SELECT $1::int4", "INSERT INTO malformed VALUES (1)", "INSERT INTO malformed VALUES ($1)", "BEGIN", "COMMIT",
	"ROLLBACK", "SAVEPOINT a", "SET application_name = 'x'", "SHOW application_name", "", "SELECT 1/0", "DECLARE c CURSOR FOR SELECT 1", "FETCH c", "CLOSE c",
	"DECLARE c INSENSITIVE CURSOR FOR SELECT a FROM malformed FOR UPDATE", "DECLARE c SCROLL NO SCROLL CURSOR FOR SELECT 1", "SELECT set_config('application_name', $1, false)"}

// wellFormed is a frame that is well-formed: its type and its body.
func wellFormed(r *rand.Rand) (typ byte, body []byte) {
	text := func() string { return malformedTexts[r.IntN(len(malformedTexts))] }
	name := func() string { return []string{"", "", "s", "t"}[r.IntN(4)] }
	var m pgproto3.FrontendMessage
	switch r.IntN(12) {
	case 0, 1:
		m = &pgproto3.Query{String: text()}
	case 2, 3:
		p := &pgproto3.Parse{Name: name(), Query: text()}
		if r.IntN(3) == 0 {
			p.ParameterOIDs = []uint32{23}
		}
		m = p
	case 4, 5, 6:
		b := &pgproto3.Bind{PreparedStatement: name(), DestinationPortal: name()}
		if r.IntN(2) == 0 {
			b.Parameters = [][]byte{[]byte("1")}
		}
		for range r.IntN(3) {
			b.ParameterFormatCodes = append(b.ParameterFormatCodes, 0)
		}
		if r.IntN(3) == 0 {
			b.ResultFormatCodes = []int16{0}
		}
		m = b
	case 7:
		m = &pgproto3.Describe{ObjectType: "SP"[r.IntN(2)], Name: name()}
	case 8:
		m = &pgproto3.Execute{Portal: name(), MaxRows: uint32(r.IntN(2))}
	case 9:
		m = &pgproto3.Close{ObjectType: "SP"[r.IntN(2)], Name: name()}
	case 10:
		m = &pgproto3.Sync{}
	default:
		m = &pgproto3.Flush{}
	}
	frame, _ := m.Encode(nil)
	return frame[0], frame[5:]
}

// misshape makes of a body one that no frame of its type has, mostly.
//
// Bytes beyond ASCII stand in the numbers of a Bind only: that a text is not of its encoding is an error that comes
// first at PostgreSQL, and here where the server sees the text.
func misshape(r *rand.Rand, typ byte, body []byte) []byte {
	body = bytes.Clone(body)
	if bytes.Contains(body, []byte("SHOW")) { // of a parameter that is not there Sluice tells at the Execute
		return append(body, 0)
	}
	high := 0
	if typ == 'B' {
		high = 0x80 * r.IntN(2)
	}
	switch at := r.IntN(len(body) + 1); r.IntN(6) {
	case 0:
		return body[:at]
	case 1:
		return append(body, make([]byte, 1+r.IntN(5))...)
	case 2:
		return append(body, bytes.Repeat([]byte("x"), []int{1, 10, 100, 100_000}[r.IntN(4)])...)
	case 3:
		return bytes.ReplaceAll(body, []byte{0}, nil)
	case 4:
		if at < len(body) {
			body[at] = byte(r.IntN(128) | high)
			if typ == 'B' && at < 6 {
				body[at] &= 0x7f // of a name
			}
		}
	case 5:
		if at+2 <= len(body) {
			binary.BigEndian.PutUint16(body[at:], []uint16{0x7f7f, 0x0100, 2, 300}[r.IntN(4)])
			if high > 0 && at > 6 {
				binary.BigEndian.PutUint16(body[at:], []uint16{0xffff, 0x8000}[r.IntN(2)])
			}
		}
	}
	return body
}

// malformedSteps are the frames of a program, in steps behind each of which the client is heard.
func malformedSteps(r *rand.Rand) (steps [][]byte) {
	frame := func(typ byte, body []byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{typ}, uint32(len(body)+4)), body...)
	}
	query := func(sql string) []byte { b, _ := (&pgproto3.Query{String: sql}).Encode(nil); return b }
	sync := frame('S', nil)
	probe := append(bytes.Repeat(frame('C', []byte("Sprobe\x00")), 3), sync...)
	for i := range 2 + r.IntN(5) {
		switch r.IntN(5) {
		case 0:
			steps = append(steps, query("BEGIN"))
		case 1:
			steps = append(steps, query("BEGIN"), query("SELECT 1/0"))
		case 2:
			steps = append(steps, query("ROLLBACK"))
		}
		var step []byte
		copies := r.IntN(6) == 0
		if copies {
			step = query("COPY malformed FROM STDIN")
		}
		for range 1 + r.IntN(4) {
			typ, body := wellFormed(r)
			if copies && r.IntN(3) > 0 {
				typ, body = "dcf"[r.IntN(3)], []byte(fmt.Sprintf("%d\n", i))
			}
			if r.IntN(2) == 0 {
				body = misshape(r, typ, body)
			}
			if strings.IndexByte("DECSHcf", typ) >= 0 && len(body) > 9000 {
				continue // PostgreSQL ends such a session without a word
			}
			step = append(step, frame(typ, body)...)
		}
		if copies && r.IntN(3) > 0 {
			step = append(step, frame('c', nil)...)
		}
		steps = append(steps, append(append(step, sync...), probe...))
	}
	return steps
}

// playMalformed sends the steps, and says what was answered: up to the probe's answer, or the end.
func playMalformed(t *testing.T, addr string, steps [][]byte) (said []string) {
	c := dialRaw(t, addr)
	defer c.conn.Close()
	for _, step := range steps {
		c.queue(step)
		c.flush()
		probes := bytes.Contains(step, []byte("Sprobe"))
		var answer []string
		for closed := 0; ; {
			typ, payload, err := c.frame()
			if err != nil {
				return append(said, strings.Join(append(answer, "the end"), " "))
			}
			field := func(code string) string {
				for f := range bytes.SplitSeq(payload, []byte{0}) {
					if len(f) > 0 && string(f[:1]) == code {
						return string(f[1:])
					}
				}
				return ""
			}
			switch typ {
			case 'S', 'N', 'A':
				continue
			case 'E':
				answer = append(answer, "E "+field("V")+" "+field("C")+" "+bindComplaint.ReplaceAllString(field("M"), `$1""`))
			case 'T':
				answer = append(answer, fmt.Sprintf("T%d", binary.BigEndian.Uint16(payload)))
			default:
				answer = append(answer, fmt.Sprintf("%c%q", typ, payload))
			}
			if typ == 'Z' && (!probes || closed == 3) {
				break
			}
			if closed++; typ != '3' {
				closed = 0
			}
		}
		said = append(said, strings.Join(answer, " "))
	}
	return said
}

// Frames whose bodies are cut, too long or wrong in a field are answered as by PostgreSQL, in every state, and the
// session goes on as there.
func TestMalformedFrames(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE malformed (a int)")
	for name, opts := range map[string][]option{"postgres": nil, "replay": {withReplay}, "session": {sessionPairing}, "copies": {withCopies, withReplay}} {
		addr := startSluice(t, pg, opts...).addr
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := 0
			for n := range *malformedCount {
				steps := malformedSteps(rand.New(rand.NewPCG(*malformedSeed, uint64(n))))
				want, got := playMalformed(t, pg.addr, steps), playMalformed(t, addr, steps)
				for i := range max(len(want), len(got)) {
					if i >= len(want) || i >= len(got) || want[i] != got[i] && unparsed.ReplaceAllString(want[i], "refused") != unparsed.ReplaceAllString(got[i], "refused") {
						failed++
						if failed < 40 {
							t.Errorf("program %d, step %d of %.300q\n got %.600s\nwant %.600s", n, i, steps[min(i, len(steps)-1)], at(got, i), at(want, i))
						}
						break
					}
				}
			}
			if failed > 0 {
				t.Logf("%d of %d programs differ", failed, *malformedCount)
			}
		})
	}
}

// unparsed is the error in a failed block of a text that no server has: nobody looks whether it is a typing mistake, or
// how many parameters it takes.
var unparsed = regexp.MustCompile(`E ERROR (42601 (syntax error|unterminated|trailing)|08P01 bind message supplies|25P02) [^Z3]*`)

func at(said []string, i int) string {
	if i < len(said) {
		return said[i]
	}
	return "nothing"
}
