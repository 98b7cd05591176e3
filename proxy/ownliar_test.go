package proxy_test

import (
	"encoding/binary"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// liar stands between Sluice and PostgreSQL. It knows what Sluice sends on its own account by the
// clientWord that is missing there, and changes the answer to one such text.
type liar struct {
	listener
	mu   sync.Mutex
	seen []string // the forms of Sluice's own texts, in order of their first appearance
	form string   // of the text whose next answer is a lie; "": none
	lie  string
	lied bool
}

// The lies about Sluice's own texts, beside those of a planter.
const (
	silence   = "nothing but the end has come"
	fewerRows = "a row is missing"
)

var ownLieKinds = append([]string{silence, fewerRows}, lies...)

func startLiar(t *testing.T, target string) *liar {
	l := &liar{}
	l.listener = startListener(t, func(down net.Conn) {
		asked := make(chan ownUnit, 10000)
		passEach(target, func(to, from net.Conn) { l.toServer(to, from, asked) }, func(to, from net.Conn) { l.toClient(to, from, asked) })(down)
	})
	return l
}

// arm has l lie so about the next text of that form, and returns whether it has lied since the last call.
func (l *liar) arm(form, lie string) (lied bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lied = l.lied
	l.form, l.lie, l.lied = form, lie, false
	return lied
}

// forms are those of the own texts that were seen.
func (l *liar) forms() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// ownUnit is a frame that the server answers.
type ownUnit struct {
	typ   byte
	lie   string // what becomes of the answer
	front bool   // only of the answer to its first statement
	tag   string // in the place of the server's
}

// ownNumbers are the constants of a text, serverSpeltSettings the ends of names that are drawn.
var (
	ownNumbers          = regexp.MustCompile(`'[^']*'|\d+`)
	serverSpeltSettings = regexp.MustCompile(`(__(?:adding|new|was)_)[0-9a-f]{8}`)
)

// unit is the ownUnit of a Query or Execute of that text.
func (l *liar) unit(typ byte, text string) ownUnit {
	u := ownUnit{typ: typ}
	if lock, _, two := strings.Cut(text, " FOR UPDATE; "); two && typ == 'Q' {
		text, u.front = lock, true
	}
	if text == "" || strings.Contains(text, clientWord) {
		return u
	}
	form := string(typ) + " " + ownNumbers.ReplaceAllString(serverSpeltSettings.ReplaceAllString(text, "$1?"), "?")
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.seen, form) {
		l.seen = append(l.seen, form)
	}
	if l.form == form && !l.lied && (typ == 'Q' || l.lie != rollsBack && l.lie != wrongEnd) && !(u.front && l.lie == wrongEnd) {
		u.lie, l.lied = l.lie, true
	}
	return u
}

func (l *liar) toServer(to, from net.Conn, asked chan<- ownUnit) {
	defer close(asked)
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return
	}
	startup := make([]byte, binary.BigEndian.Uint32(length[:]))
	copy(startup, length[:])
	io.ReadFull(from, startup[4:])
	to.Write(startup)
	statements, portals := map[string]string{}, map[string]string{}
	for {
		f, err := readFrame(from)
		if err != nil {
			return
		}
		first, rest, _ := strings.Cut(string(f[5:]), "\x00")
		second, _, _ := strings.Cut(rest, "\x00")
		u := ownUnit{typ: f[0]}
		switch f[0] {
		case 'P':
			statements[first] = second
			if run, tag := ownAsync(second); tag != "" {
				f = slices.Concat(f[:5], []byte(first+"\x00"+run+"\x00"), f[5+len(first)+1+len(second)+1:])
				binary.BigEndian.PutUint32(f[1:], uint32(len(f)-1))
			}
		case 'B':
			portals[first] = statements[second]
		case 'Q':
			u = l.unit('Q', first)
			var run string
			if run, u.tag = ownAsync(first); u.tag != "" {
				f, _ = (&pgproto3.Query{String: run}).Encode(nil)
			}
		case 'E':
			u = l.unit('E', portals[first])
			_, u.tag = ownAsync(portals[first])
		}
		if u.lie == rollsBack {
			f, _ = (&pgproto3.Query{String: "ROLLBACK"}).Encode(nil)
		}
		if strings.IndexByte("QPBEDCSF", f[0]) >= 0 {
			asked <- u
		}
		if _, err := to.Write(f); err != nil {
			return
		}
	}
}

// ownAsync is what PostgreSQL runs for a text that is ASYNC (ownCluster), and the tag that a cluster answers it with;
// "" for any other text.
func ownAsync(text string) (run, tag string) {
	plain := strings.Replace(text, " ASYNC ", " ", 1)
	switch {
	case plain == text:
		return "", ""
	case strings.HasPrefix(text, "ALTER"):
		tag = "ALTER TABLE"
	default:
		tag = "CREATE INDEX"
	}
	return "SELECT job_id FROM own_job($own$" + plain + "$own$) AS job_id", tag
}

// answersEnd are the frames that end the answer to a frame of each type.
var answersEnd = map[byte]string{'Q': "Z", 'S': "Z", 'F': "Z", 'P': "1", 'B': "2", 'C': "3", 'D': "Tn", 'E': "CIs", 0: "Z"}

func (l *liar) toClient(to, from net.Conn, asked <-chan ownUnit) {
	u, knows := ownUnit{}, true // at first the startup is answered
	var held [][]byte
	for {
		f, err := readFrame(from)
		if err != nil {
			return
		}
		if !knows && strings.IndexByte("NAS", f[0]) < 0 {
			u, knows = <-asked, true
		}
		if f[0] == 'C' && u.tag != "" && u.lie != rollsBack {
			f, _ = (&pgproto3.CommandComplete{CommandTag: []byte(u.tag)}).Encode(nil)
		}
		ends := strings.IndexByte(answersEnd[u.typ], f[0]) >= 0
		if f[0] == 'E' && u.typ != 0 && u.typ != 'Q' && u.typ != 'F' {
			if to.Write(f); u.typ != 'S' {
				for u = range asked {
					if u.typ == 'S' {
						break
					}
				}
			}
			held = nil
			continue
		}
		out := f
		if u.lie != "" {
			held, out = append(held, f), nil
			if ends {
				out, held = slices.Concat(ownLie(u, held)...), nil
			}
		}
		knows = knows && !ends
		if _, err := to.Write(out); err != nil {
			return
		}
	}
}

// ownLie is what stands for an answer.
func ownLie(u ownUnit, frames [][]byte) (out [][]byte) {
	tag := func(s string) []byte {
		b, _ := (&pgproto3.CommandComplete{CommandTag: []byte(s)}).Encode(nil)
		return b
	}
	last, rows := -1, 0
	for i, f := range frames {
		if f[0] == 'C' && (last < 0 || !u.front) {
			last = i
		}
	}
	if u.front && last >= 0 && u.lie != rollsBack {
		u.front = false
		return append(ownLie(u, frames[:last+1]), frames[last+1:]...)
	}
	for i, f := range frames {
		switch {
		case f[0] == 'D' && u.lie == fewerRows:
			if rows++; rows == 1 {
				continue
			}
		case u.lie == silence && f[0] != 'Z' && (u.typ == 'Q' || f[0] != 'C'):
			continue
		case u.lie == wrongEnd && f[0] == 'Z':
			f = []byte{'Z', 0, 0, 0, 5, map[byte]byte{'I': 'T', 'T': 'I', 'E': 'I'}[f[5]]}
		case i != last:
		case u.lie == otherTag && strings.HasPrefix(string(f[5:]), "LISTEN"):
			f = tag("SET")
		case u.lie == otherTag:
			f = tag("LISTEN")
		case u.lie == noTag && u.typ == 'Q':
			continue
		case u.lie == twoTags:
			f = append(slices.Clone(f), f...)
		case u.lie == longTag:
			f = tag(strings.Repeat(strings.TrimSuffix(string(f[5:]), "\x00"), 3000))
		}
		out = append(out, f)
	}
	return out
}
