package proxy_test

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A dialogue is a file of raw protocol frames. Each line is a frame to send
// (Q, P, B, D, E, C, H, S, d, c, f, F, X), or "< X..." to read answers up to the last
// of the given frame types in that order; "connect" starts anew. PostgreSQL is the oracle:
// whatever it answers directly must come through Sluice.
//
//	Q <sql>
//	P <name> | <sql> [| oid,oid]
//	B <portal> | <statement> [| value,value...]       text format; NULL is \N
//	D S|P <name>
//	E <portal> [max rows]
//	C S|P <name>
//	d <text>   f <message>
//
// "-" is the empty name.
func TestDialogues(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/protocol/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dialogues: %v", err)
	}
	pg := sharedPostgres(t)
	routes := map[string]string{}
	for name, opts := range map[string][]option{
		"transaction":       nil,
		"transaction/plain": {plainConn},
		"session":           {sessionPairing},
		"replay":            {withReplay},
		"replay/plain":      {withReplay, plainConn},
	} {
		routes[name] = startSluice(t, pg, opts...).addr
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := perform(t, pg.addr, string(script))
			if os.Getenv("SHOW_DIALOGUES") != "" {
				t.Logf("\n%s", want)
			}
			for name, addr := range routes {
				for round := range 2 { // the second finds everything prepared
					if got := perform(t, addr, string(script)); got != want {
						t.Errorf("through Sluice (%s, round %d):\n%s", name, round, firstDifference(got, want))
						break
					}
				}
			}
		})
	}
}

// firstDifference shows where two transcripts part.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < len(g) && i < len(w) && g[i] == w[i] {
		i++
	}
	around := func(lines []string, to int) string {
		return strings.Join(lines[max(0, min(i-6, len(lines))):min(i+to, len(lines))], "\n")
	}
	return fmt.Sprintf("line %d\n%s\n--- directly:\n%s", i+1, around(g, 3), around(w, 3))
}

// perform plays a dialogue and returns what was answered, one frame a line.
func perform(t *testing.T, addr, script string) string {
	t.Helper()
	var out strings.Builder
	var c *rawClient
	defer func() {
		if c != nil {
			c.conn.Close()
		}
	}()
	connect := func() {
		if c != nil {
			c.conn.Close()
		}
		c = dialRaw(t, addr)
	}
	connect()
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if line == "connect" {
			connect()
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		if verb == "tell" { // shows ParameterStatus of that parameter
			c.tells = rest
			continue
		}
		if verb == "<" {
			fmt.Fprintf(&out, "< %s\n%s", rest, c.readThrough(strings.ReplaceAll(rest, " ", "")))
			continue
		}
		fmt.Fprintf(&out, "%s\n", line)
		c.queue(encodeLine(t, verb, rest))
	}
	c.queue([]byte{'X', 0, 0, 0, 4})
	c.flush()
	return out.String()
}

func encodeLine(t *testing.T, verb, rest string) []byte {
	t.Helper()
	args := strings.Split(rest, " | ")
	for i := range args {
		if args[i] == "-" {
			args[i] = ""
		}
	}
	name := func(s string) string { return strings.ReplaceAll(s, "-", "") }
	var m pgproto3.FrontendMessage
	switch verb {
	case "Q":
		m = &pgproto3.Query{String: strings.ReplaceAll(rest, `\n`, "\n")}
	case "P":
		args = append(args, "")
		p := &pgproto3.Parse{Name: args[0], Query: strings.TrimSuffix(args[1], " |")}
		if args[2] != "" {
			for o := range strings.SplitSeq(args[2], ",") {
				n, err := strconv.Atoi(o)
				if err != nil {
					t.Fatal(err)
				}
				p.ParameterOIDs = append(p.ParameterOIDs, uint32(n))
			}
		}
		m = p
	case "B":
		b := &pgproto3.Bind{DestinationPortal: args[0], PreparedStatement: args[1]}
		if len(args) > 2 {
			for v := range strings.SplitSeq(args[2], ",") {
				if v == `\N` {
					b.Parameters = append(b.Parameters, nil)
				} else {
					b.Parameters = append(b.Parameters, []byte(v))
				}
			}
		}
		m = b
	case "D":
		m = &pgproto3.Describe{ObjectType: rest[0], Name: name(rest[2:])}
	case "C":
		m = &pgproto3.Close{ObjectType: rest[0], Name: name(rest[2:])}
	case "E":
		portal, rows, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(rows)
		m = &pgproto3.Execute{Portal: name(portal), MaxRows: uint32(n)}
	case "H":
		m = &pgproto3.Flush{}
	case "S":
		m = &pgproto3.Sync{}
	case "d":
		m = &pgproto3.CopyData{Data: []byte(strings.ReplaceAll(rest, `\n`, "\n"))}
	case "c":
		m = &pgproto3.CopyDone{}
	case "f":
		m = &pgproto3.CopyFail{Message: rest}
	case "F":
		call := &pgproto3.FunctionCall{Function: 1597, ArgFormatCodes: []uint16{}, Arguments: nil} // pg_client_encoding()
		if len(rest) > 0 {
			oid, err := strconv.ParseUint(args[0], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			call.Function = uint32(oid)
			for v := range strings.SplitSeq(args[1], ",") {
				if v == `\N` {
					call.Arguments = append(call.Arguments, nil)
				} else {
					call.Arguments = append(call.Arguments, []byte(v))
				}
			}
		}
		m = call
	case "X":
		m = &pgproto3.Terminate{}
	case "hex":
		b, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return b
	default:
		t.Fatalf("unknown line %q", verb)
	}
	b, err := m.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rawClient is a client that sees every frame.
type rawClient struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	// reports has ParameterStatus shown too.
	reports bool
	// tells is the parameter whose ParameterStatus is shown; "" for none.
	tells string
}

// startupGreeting is a client on conn whose startup packet is still to be flushed.
func startupGreeting(t *testing.T, conn net.Conn, params map[string]string) *rawClient {
	t.Helper()
	startup := &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30,
		Parameters: map[string]string{"user": "postgres", "database": "postgres"}}
	maps.Copy(startup.Parameters, params)
	b, err := startup.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &rawClient{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), out: b}
}

// greetRaw starts a session on conn, and returns the payload of BackendKeyData.
func greetRaw(t *testing.T, conn net.Conn, params map[string]string) (c *rawClient, key []byte) {
	t.Helper()
	c = startupGreeting(t, conn, params)
	c.flush()
	for {
		typ, payload, err := c.frame()
		switch {
		case err != nil || typ == 'E':
			t.Fatalf("startup: %q, %v", payload, err)
		case typ == 'K':
			key = payload
		case typ == 'Z':
			return c, key
		}
	}
}

func dialTCP(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// startRaw connects with those startup parameters, and returns the payload of
// BackendKeyData as well.
func startRaw(t *testing.T, addr string, params map[string]string) (c *rawClient, key []byte) {
	t.Helper()
	return greetRaw(t, dialTCP(t, addr), params)
}

func dialRaw(t *testing.T, addr string) *rawClient {
	t.Helper()
	c, _ := startRaw(t, addr, nil)
	return c
}

// dialWith connects with those startup parameters, and returns what was answered too.
func dialWith(t *testing.T, addr string, params map[string]string) (*rawClient, string) {
	t.Helper()
	c := startupGreeting(t, dialTCP(t, addr), params)
	c.reports = params != nil
	got := c.readThrough("Z")
	if !strings.HasSuffix(got, "Z I\n") {
		t.Fatalf("startup: %q", got)
	}
	return c, got
}

func (c *rawClient) queue(b []byte) { c.out = append(c.out, b...) }

func (c *rawClient) flush() {
	c.conn.Write(c.out)
	c.out = nil
}

// frame reads one frame; io.EOF and its like when the stream has ended.
func (c *rawClient) frame() (typ byte, payload []byte, err error) {
	c.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	var h [5]byte
	if _, err := io.ReadFull(c.in, h[:]); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, binary.BigEndian.Uint32(h[1:])-4)
	_, err = io.ReadFull(c.in, payload)
	return h[0], payload, err
}

// readThrough sends what is queued and reads until the given types have come
// in that order. It returns the frames in a form that does not depend on the
// server's process, names or source lines.
func (c *rawClient) readThrough(types string) string {
	c.flush()
	var out strings.Builder
	for i := 0; i < len(types); {
		typ, payload, err := c.frame()
		if err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				out.WriteString("TIMEOUT\n")
			} else {
				out.WriteString("EOF\n")
			}
			return out.String()
		}
		if name, value, _ := strings.Cut(string(payload), "\x00"); typ == 'S' && (c.reports || name == c.tells) {
			fmt.Fprintf(&out, "S %s=%s\n", name, strings.TrimSuffix(value, "\x00"))
		}
		if line := showFrame(typ, payload); line != "" {
			out.WriteString(line)
			out.WriteByte('\n')
		}
		if typ == types[i] {
			i++
		}
	}
	return out.String()
}

func showFrame(typ byte, payload []byte) string {
	switch typ {
	case 'S', 'K', 'R':
		return ""
	case 'E', 'N':
		var fields []string
		for len(payload) > 1 {
			v, rest, _ := strings.Cut(string(payload[1:]), "\x00")
			if strings.ContainsRune("SCMDHP", rune(payload[0])) {
				fields = append(fields, string(payload[0])+"="+v)
			}
			payload = []byte(rest)
		}
		return string(typ) + " " + strings.Join(fields, " ")
	case 'T': // names and types; table OIDs differ between rounds
		var cols []string
		n := int(binary.BigEndian.Uint16(payload))
		payload = payload[2:]
		for range n {
			name, rest, _ := strings.Cut(string(payload), "\x00")
			cols = append(cols, fmt.Sprintf("%s:%d/%d", name, binary.BigEndian.Uint32([]byte(rest)[6:]), binary.BigEndian.Uint16([]byte(rest)[16:])))
			payload = []byte(rest)[18:]
		}
		return "T " + strings.Join(cols, " ")
	}
	return fmt.Sprintf("%c %s", typ, strings.Trim(strconv.QuoteToASCII(string(payload)), `"`))
}

// SHOW of a parameter that nobody knows fails at its Parse, as PostgreSQL has it; of one that is known to
// the server or to Sluice it is prepared, and run.
func TestShowIsParsed(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for name, opts := range map[string][]option{"postgres": nil, "dsql": {asDSQL, fastReplay}, "session": {sessionPairing}} {
		s := startSluice(t, pg, opts...)
		for _, around := range []string{"", "Q BEGIN\n< Z\n"} {
			got := perform(t, s.addr, around+"P s | SHOW nosuch\nS\n< Z\n")
			_, got, _ = strings.Cut(got, "P s | SHOW nosuch\n")
			if strings.Contains(got, "1 \n") || !strings.Contains(got, "C=42704") {
				t.Errorf("%s, %q: %s", name, around, got)
			}
			for _, known := range []string{"TimeZone", "work_mem", "transaction_isolation"} {
				got := perform(t, s.addr, around+"P s | SHOW "+known+"\nD S s\nB - | s\nE -\nS\n< Z\n")
				if !strings.Contains(got, "C SHOW") {
					t.Errorf("%s, %q: %s", name, around, got)
				}
			}
		}
	}
}
