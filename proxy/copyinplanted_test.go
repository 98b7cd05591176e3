package proxy_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

var (
	plantedSeed  = flag.Uint64("planted.seed", 1, "the seed of TestCopyAmongPlanted")
	plantedCount = flag.Int("planted.count", 60, "how many COPYs TestCopyAmongPlanted plays")
)

// planter stands between Sluice and PostgreSQL, and plants what a server may say: notices of any
// size in front of every frame, longer errors, and answers that are not those to what was asked.
type planter struct {
	listener
	mu sync.Mutex
	r  *rand.Rand // nil: nothing is planted
	// notices is the share of frames with a notice in front.
	notices float64
	// lie is what becomes of the answer to the Query that begins with at.
	lie, at string
	lied    int
}

// Lies of a planter.
const (
	rollsBack = "the server has rolled back"     // and says so
	otherTag  = "the tag is another statement's" // and its statement has run
	noTag     = "the tag is missing"
	twoTags   = "there are two tags"
	longTag   = "the tag is long"
	wrongEnd  = "the block has another status"
)

var lies = []string{rollsBack, otherTag, noTag, twoTags, longTag, wrongEnd}

func startPlanter(t *testing.T, target string) *planter {
	p := &planter{}
	p.listener = startListener(t, func(down net.Conn) {
		asked := make(chan string, 1000)
		passEach(target, func(to, from net.Conn) { p.toServer(to, from, asked) }, func(to, from net.Conn) { p.toClient(to, from, asked) })(down)
	})
	return p
}

// sized draws a size whose logarithm is even between those of 1 byte and 1 MiB.
func sized(r *rand.Rand) int { return int(math.Exp(r.Float64() * math.Log(1<<20))) }

// plant has p plant by r from now on, or nothing with nil.
func (p *planter) plant(r *rand.Rand, notices float64, lie, at string) (lied int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lied = p.lied
	p.r, p.notices, p.lie, p.at, p.lied = r, notices, lie, at, 0
	return lied
}

func (p *planter) toServer(to, from net.Conn, asked chan<- string) {
	defer close(asked)
	var length [4]byte
	if _, err := from.Read(length[:]); err != nil {
		return
	}
	startup := make([]byte, binary.BigEndian.Uint32(length[:]))
	copy(startup, length[:])
	from.Read(startup[4:])
	to.Write(startup)
	for begun := false; ; {
		f, err := readFrame(from)
		if err != nil {
			return
		}
		text := ""
		if f[0] == 'Q' {
			p.mu.Lock()
			if sql := string(f[5:]); p.r != nil && p.lie != "" && strings.HasPrefix(sql, p.at) {
				if text = sql; p.lie == rollsBack {
					f, _ = (&pgproto3.Query{String: "ROLLBACK"}).Encode(nil)
					p.lied++
				}
			}
			p.mu.Unlock()
		}
		if !begun {
			asked <- text
		}
		begun = f[0] != 'Q' && f[0] != 'S'
		if _, err := to.Write(f); err != nil {
			return
		}
	}
}

func (p *planter) toClient(to, from net.Conn, asked <-chan string) {
	text, knows := "", true // of what is answered; at first that is the startup
	for {
		f, err := readFrame(from)
		if err != nil {
			return
		}
		if !knows && strings.ContainsRune("CZETDI123ntsG", rune(f[0])) {
			text, knows = <-asked, true
		}
		p.mu.Lock()
		out := p.planted(f, text)
		p.mu.Unlock()
		if f[0] == 'Z' {
			text, knows = "", false
		}
		if _, err := to.Write(out); err != nil {
			return
		}
	}
}

// planted is what stands for a frame of the server's; text is that of the Query that is to be lied
// about, "" for any other. p.mu is held.
func (p *planter) planted(f []byte, text string) (out []byte) {
	if p.r == nil || !strings.ContainsRune("CZETDIS", rune(f[0])) {
		return f
	}
	for p.r.Float64() < p.notices {
		out, _ = (&pgproto3.NoticeResponse{Severity: "NOTICE", SeverityUnlocalized: "NOTICE", Code: "00000", Message: strings.Repeat("n", sized(p.r))}).Encode(out)
	}
	if text == "" {
		return append(out, f...)
	}
	tag := func(s string) []byte {
		b, _ := (&pgproto3.CommandComplete{CommandTag: []byte(s)}).Encode(nil)
		return b
	}
	lie := p.lie
	switch {
	case f[0] == 'C' && lie == otherTag:
		f = tag("SELECT 1")
	case f[0] == 'C' && lie == noTag:
		f = nil
	case f[0] == 'C' && lie == twoTags:
		f = append(f[:len(f):len(f)], f...)
	case f[0] == 'C' && lie == longTag:
		f = tag(strings.Repeat("COMMIT", 1+sized(p.r)/6))
	case f[0] == 'Z' && lie == wrongEnd:
		f = []byte{'Z', 0, 0, 0, 5, "TEI"[p.r.IntN(3)]}
	default:
		return append(out, f...)
	}
	p.lied++
	return append(out, f...)
}

// plantedRows are the data of a COPY; bad is what is wrong with a row of them, "" for nothing.
func plantedRows(r *rand.Rand) (data, bad string) {
	rows := []int{1, 2 + r.IntN(100), 2990 + r.IntN(20), 3001 + r.IntN(4000)}[r.IntN(4)]
	at := -1
	if r.IntN(2) == 0 {
		at = r.IntN(rows)
		bad = []string{"syntax", "long", "double", "raise", "null"}[r.IntN(5)]
	}
	loud := r.IntN(rows * 3)
	var b strings.Builder
	for i := range rows {
		id, v := strconv.Itoa(i), "x"
		switch {
		case i == at && bad == "syntax":
			id = strings.Repeat("é", 1+sized(r)/2)
		case i == at && bad == "long":
			v = strings.Repeat("l", 41+r.IntN(1000))
		case i == at && bad == "double":
			id = "-1"
		case i == at && bad == "raise":
			v = fmt.Sprintf("raise %d", sized(r))
		case i == at && bad == "null":
			id = `\N`
		case i == loud && r.IntN(4) == 0:
			v = "skip"
		case i == loud:
			v = fmt.Sprintf("notice %d", sized(r))
		}
		fmt.Fprintf(&b, "%s\t%s\n", id, v)
	}
	return b.String(), bad
}

var rowsIn = regexp.MustCompile(`(\d+) rows are in, and stay so`)

// plantedTables are a table for the COPYs through Sluice, and one for PostgreSQL's own, whose
// triggers raise what a row says.
const plantedTables = `
	CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.v LIKE 'notice %' THEN RAISE NOTICE '%', repeat('n', substr(NEW.v, 8)::int); END IF;
		IF NEW.v LIKE 'raise %' THEN RAISE EXCEPTION '%', repeat('e', substr(NEW.v, 7)::int) USING ERRCODE = '23999'; END IF;
		IF NEW.v = 'skip' THEN RETURN NULL; END IF;
		RETURN NEW;
	END $$;
	CREATE SCHEMA direct;
	CREATE TABLE planted (id int PRIMARY KEY, v varchar(40));
	CREATE TRIGGER loud BEFORE INSERT ON planted FOR EACH ROW EXECUTE FUNCTION loud();
	CREATE TABLE direct.planted (id int PRIMARY KEY, v varchar(40));
	CREATE TRIGGER loud BEFORE INSERT ON direct.planted FOR EACH ROW EXECUTE FUNCTION loud()`

// What a COPY says is what it has done, whatever a server says around it: notices and errors of
// any size, and answers to its INSERTs, BEGINs and COMMITs that are not theirs.
func TestCopyAmongPlanted(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", plantedTables)
	p := startPlanter(t, pg.addr)
	addr := startSluice(t, pg, withCopies, withReplay, p.option).addr
	direct, _ := copier(t, pg.addr)
	play := func(ctx context.Context, c *pgconn.PgConn, sql string) error {
		_, err := c.Exec(ctx, sql).ReadAll()
		return err
	}
	seen := map[string]int{}
	for n := range *plantedCount {
		r := rand.New(rand.NewPCG(*plantedSeed, uint64(n)))
		data, bad := plantedRows(r)
		block, notices := r.IntN(3) == 0, []float64{0, 0.1, 0.5}[r.IntN(3)]
		lie, at := "", []string{"BEGIN", "INSERT", "COMMIT", "SELECT c.relkind"}[r.IntN(4)]
		if r.IntN(3) == 0 {
			lie = lies[r.IntN(len(lies))]
		}
		name := fmt.Sprintf("copy %d: %d bytes, bad %q, block %v, lie %q at %q, notices %v", n, len(data), bad, block, lie, at, notices)
		pg.SQL(t, "postgres", "TRUNCATE planted; TRUNCATE direct.planted; INSERT INTO planted VALUES (-1, ''); INSERT INTO direct.planted VALUES (-1, '')")
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		_, want := direct.CopyFrom(ctx, strings.NewReader(data), "COPY direct.planted FROM STDIN")
		c, _ := copier(t, addr)
		if block {
			if err := play(ctx, c, "BEGIN"); err != nil {
				t.Fatal(name, err)
			}
		}
		p.plant(rand.New(rand.NewPCG(*plantedSeed, uint64(n)+1<<32)), notices, lie, at)
		tag, err := c.CopyFrom(ctx, strings.NewReader(data), "COPY planted FROM STDIN")
		lied := p.plant(nil, 0, "", "") > 0
		if block && err == nil {
			err = play(ctx, c, "COMMIT")
		}
		if ctx.Err() != nil {
			t.Fatal(name, "does not end:", err)
		}
		stop()
		c.Close(context.Background())
		in, _ := strconv.Atoi(pg.SQL(t, "postgres", "SELECT count(*) - 1 FROM planted"))
		if why := copyLies(tag.RowsAffected(), err, want, in, block, lied); why != "" {
			t.Errorf("%s: %s: %s, %.300v, %d rows are in; PostgreSQL: %.300v", name, why, tag, err, in, want)
		}
		switch {
		case lied:
			seen[lie]++
		case err == nil:
			seen["success"]++
		default:
			seen[bad]++
		}
	}
	t.Log(seen)
	if *plantedCount >= 60 {
		for _, what := range append(lies, "success", "syntax", "long", "double", "raise", "null") {
			if seen[what] == 0 {
				t.Errorf("no COPY was of %q", what)
			}
		}
	}
}

// copyLies says what is wrong about what a COPY has said, by the rows that are in behind it; "" for
// nothing. want is the error of PostgreSQL's own COPY. lied: the server did not say what it did.
func copyLies(said int64, err, want error, in int, block, lied bool) string {
	var got, direct *pgconn.PgError
	switch errors.As(want, &direct); {
	case err == nil && int(said) != in:
		return "a success that is none"
	case err == nil && want != nil:
		return "no error"
	case err == nil:
		return ""
	case !errors.As(err, &got):
		return "not an error of the protocol"
	case got.Code == "08007": // the outcome of one batch is unknown
		if !lied {
			return "unknown without a reason"
		}
		return ""
	}
	stay := 0
	if m := rowsIn.FindStringSubmatch(got.Detail); m != nil {
		stay, _ = strconv.Atoi(m[1])
	}
	switch {
	case in != stay:
		return "other rows stay than it says"
	case block && in > 0:
		return "rows of a block that has failed"
	case lied:
		return ""
	case direct == nil:
		return "an error where PostgreSQL has none"
	case got.Code != direct.Code || got.Message != direct.Message:
		return "another error"
	}
	return ""
}
