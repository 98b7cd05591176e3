package copyrows

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var (
	copySeed  = flag.Uint64("copy.seed", 1, "the seed of the oracle of COPY")
	copyCount = flag.Int("copy.count", 600, "how many COPYs it tries")
)

// copied is one COPY of random data.
type copied struct {
	options Options
	with    string // the options as SQL
	types   []string
	data    []byte
}

// TestOracle has PostgreSQL carry out random COPYs, and the rows of a Reader as INSERTs: the
// tables are the same, or the error is, at the same line.
func TestOracle(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	seen := map[string]int{}
	for n := range *copyCount {
		r := rand.New(rand.NewPCG(*copySeed, uint64(n)))
		c := newCopied(r)
		want, got := c.byPostgres(t, conn), c.byReader(t, conn, r)
		if err := differs(want, got); err != "" {
			t.Fatalf("COPY %d %v (%s) of\n%q\n%s:\n got %+v\nwant %+v", n, c.types, c.with, c.data, err, got, want)
		}
		seen[want.code]++
	}
	t.Log(seen)
	for _, code := range []string{"", "22P02", "22P04", "22021", "22001", "23502"} {
		if seen[code] < 1+*copyCount/1000 {
			t.Errorf("%d COPYs ended with %q: such data are too rare", seen[code], code)
		}
	}
}

// outcome is what came of a COPY.
type outcome struct {
	rows          []string
	code, message string
	line          int
	where         string
	read          bool // the Reader has found the error
}

// differs says what differs; "" for nothing. Which of several errors of one line is found first
// may differ: a Reader looks at all of the line, and the server at all constants of an INSERT.
func differs(want, got outcome) string {
	switch {
	case want.code == "" && got.code == "":
		if !slices.Equal(want.rows, got.rows) {
			return "other rows"
		}
	case want.code == "" || got.code == "":
		return "one is an error"
	case want.line != got.line:
		return "another line"
	case got.code == want.code:
		if got.read && got.message == want.message && got.where != want.where {
			return "another place"
		}
	case !got.read && !slices.Contains([]string{"22003", "22P02", "22001", "23502"}, got.code):
		return "another error"
	}
	return ""
}

func connect(t *testing.T) *pgconn.PgConn {
	pg := pgtest.Start(t)
	config, err := pgconn.ParseConfig("sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.Host, config.Port, config.User, config.Database = pg.SocketDir, uint16(pg.Port), pg.User, pg.NewDatabase(t)
	conn, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func newCopied(r *rand.Rand) *copied {
	c := &copied{}
	kinds := []string{"text", "text", "int", "varchar(3)", "text NOT NULL", "boolean", "bytea"}
	for i := range 1 + r.IntN(3) {
		c.types = append(c.types, kinds[r.IntN(len(kinds))])
		c.options.Columns = append(c.options.Columns, Column{Name: string(rune('a' + i)), Type: 25})
	}
	o := &c.options
	o.Delimiter, o.Null = '\t', `\N`
	var with []string
	say := func(format string, args ...any) { with = append(with, fmt.Sprintf(format, args...)) }
	if r.IntN(2) == 0 {
		o.Format, o.Delimiter, o.Null, o.Quote, o.Escape = CSV, ',', "", '"', '"'
		say("FORMAT csv")
		if r.IntN(4) == 0 {
			o.Quote = "'|\\"[r.IntN(3)]
			o.Escape = o.Quote
			say("QUOTE %s", quote(string(o.Quote)))
		}
		if r.IntN(4) == 0 {
			o.Escape = "\\'e"[r.IntN(3)]
			say("ESCAPE %s", quote(string(o.Escape)))
		}
	}
	if r.IntN(4) == 0 {
		o.Delimiter = ";|,\t"[r.IntN(4)]
		if o.Delimiter == o.Quote {
			o.Delimiter = ';'
		}
		say("DELIMITER %s", quote(string(o.Delimiter)))
	}
	if r.IntN(4) == 0 {
		if o.Null = []string{"", "NULL", "n", `\x`}[r.IntN(4)]; strings.IndexByte(o.Null, o.Quote) >= 0 && o.Format == CSV {
			o.Null = "NULL"
		}
		say("NULL %s", quote(o.Null))
	}
	if r.IntN(4) == 0 {
		o.Header = Header(1 + r.IntN(2))
		say("HEADER %s", []string{"", "true", "match"}[o.Header])
	}
	if o.Format == CSV {
		o.ForceNull = c.forced(r, "FORCE_NULL", say)
		o.ForceNotNull = c.forced(r, "FORCE_NOT_NULL", say)
	}
	if len(with) > 0 {
		c.with = "(" + strings.Join(with, ", ") + ")"
	}
	c.data = c.make(r)
	return c
}

// forced picks columns for an option.
func (c *copied) forced(r *rand.Rand, option string, say func(string, ...any)) (forced []bool) {
	if r.IntN(4) > 0 {
		return nil
	}
	var names []string
	for _, column := range c.options.Columns {
		forced = append(forced, r.IntN(2) == 0)
		if forced[len(forced)-1] {
			names = append(names, column.Name)
		}
	}
	if names == nil {
		return nil
	}
	say("%s (%s)", option, strings.Join(names, ", "))
	return forced
}

// make makes data that are mostly well-formed.
func (c *copied) make(r *rand.Rand) []byte {
	var b bytes.Buffer
	o := &c.options
	end := []string{"\n", "\n", "\r\n", "\r"}[r.IntN(4)]
	rare := func() bool { return r.IntN(60) == 0 }
	if o.Header != NoHeader {
		for i, column := range o.Columns {
			if i > 0 {
				b.WriteByte(o.Delimiter)
			}
			b.WriteString(column.Name)
			if rare() {
				b.WriteString("x")
			}
		}
		b.WriteString(end)
	}
	rows := r.IntN(6)
	for i := range rows {
		for j, kind := range c.types {
			if j > 0 && !rare() {
				b.WriteByte(o.Delimiter)
			}
			b.WriteString(c.value(r, kind))
		}
		if rare() {
			b.WriteByte(o.Delimiter)
		}
		if rare() {
			b.WriteString(`\.`)
		}
		switch {
		case rare():
			b.WriteString([]string{"\n", "\r\n", "\r", ""}[r.IntN(4)])
		case i < rows-1 || r.IntN(4) > 0:
			b.WriteString(end)
		}
	}
	if r.IntN(4) == 0 {
		b.WriteString(`\.` + []string{end, end, end, "", "x"}[r.IntN(5)])
		if r.IntN(3) == 0 {
			b.WriteString("1\n")
		}
	}
	return b.Bytes()
}

// value makes a value.
func (c *copied) value(r *rand.Rand, kind string) string {
	o := &c.options
	if r.IntN(8) == 0 {
		return o.Null
	}
	var s string
	switch kind {
	case "int":
		s = []string{"1", "-7", " 5 ", "2147483647", "2147483648", "x"}[min(r.IntN(90), r.IntN(6))]
	case "boolean":
		s = []string{"t", "no", "yes"}[r.IntN(3)]
	case "bytea":
		s = []string{`\\x00ff`, `\\x`, "ab", `\\000`}[r.IntN(4)]
		if o.Format == CSV {
			s = strings.ReplaceAll(s, `\\`, `\`)
		}
	default:
		pieces := []string{"a", "é", "'", `"`, "\\\\", `\t`, `\n`, `\x41`, `\x4`, `\101`, `\7`, `\q`, "x", " ", "|", ",", ";", "", "", "日", "e", `\N`, "NULL", `\b`}
		if r.IntN(40) == 0 {
			pieces = append(pieces, "\xff", "\xc3", "\x00", `\xff`, `\000`, `\xc3\xa9`, "\n", "\r", `\.`, "\xed\xa0\x80", `\x`, "\\\n", "\t")
		}
		for range r.IntN(4) {
			s += pieces[r.IntN(len(pieces))]
		}
	}
	if o.Format != CSV {
		if r.IntN(20) > 0 {
			s = strings.ReplaceAll(s, string(o.Delimiter), `\`+string(o.Delimiter))
		}
		return s
	}
	if strings.ContainsAny(s, string(o.Delimiter)+string(o.Quote)) || r.IntN(4) == 0 {
		q, e := string(o.Quote), string(o.Escape)
		if e != q {
			s = strings.ReplaceAll(s, e, e+e)
		}
		s = strings.ReplaceAll(s, q, e+q)
		if r.IntN(6) == 0 {
			s += []string{"\n", "\r\n", "\r"}[r.IntN(3)] + "z"
		}
		s = q + s + q
		if r.IntN(30) == 0 {
			s = s[1:]
		}
	}
	return s
}

var lineOf = regexp.MustCompile(`COPY t, line (\d+)`)

// failed is the outcome that an error is.
func failed(t *testing.T, err error) outcome {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	o := outcome{code: e.Code, message: e.Message, where: e.Where}
	if m := lineOf.FindStringSubmatch(e.Where); m != nil {
		o.line, _ = strconv.Atoi(m[1])
	}
	return o
}

// table makes the table anew.
func (c *copied) table(t *testing.T, conn *pgconn.PgConn) {
	var columns []string
	for i, kind := range c.types {
		columns = append(columns, c.options.Columns[i].Name+" "+kind)
	}
	if _, err := conn.Exec(t.Context(), "SET client_min_messages = warning; DROP TABLE IF EXISTS t; CREATE TABLE t (n int GENERATED BY DEFAULT AS IDENTITY, "+strings.Join(columns, ", ")+")").ReadAll(); err != nil {
		t.Fatal(err)
	}
}

func (c *copied) columns() string {
	var names []string
	for _, column := range c.options.Columns {
		names = append(names, column.Name)
	}
	return strings.Join(names, ", ")
}

// rowsOf are the rows of the table.
func rowsOf(t *testing.T, conn *pgconn.PgConn, columns string) (rows []string) {
	results, err := conn.Exec(t.Context(), "SELECT "+columns+" FROM t ORDER BY n").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range results[0].Rows {
		said := ""
		for _, v := range row {
			if v == nil {
				said += "NULL,"
			} else {
				said += fmt.Sprintf("%q,", v)
			}
		}
		rows = append(rows, said)
	}
	return rows
}

func (c *copied) byPostgres(t *testing.T, conn *pgconn.PgConn) outcome {
	c.table(t, conn)
	if _, err := conn.CopyFrom(context.Background(), bytes.NewReader(c.data), "COPY t ("+c.columns()+") FROM STDIN "+c.with); err != nil {
		return failed(t, err)
	}
	return outcome{rows: rowsOf(t, conn, c.columns())}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// byReader inserts row by row.
func (c *copied) byReader(t *testing.T, conn *pgconn.PgConn, r *rand.Rand) outcome {
	c.table(t, conn)
	reader := NewReader(c.options)
	rest := bytes.Clone(c.data)
	for {
		row, e := reader.Next()
		switch {
		case e != nil:
			return outcome{code: e.Code, message: e.Message, line: e.Line, where: e.Context("t"), read: true}
		case row != nil:
			if err := insert(t, conn, "t", c.columns(), row.Fields); err != nil {
				o := failed(t, err)
				o.line = row.Line
				return o
			}
		case reader.ended:
			return outcome{rows: rowsOf(t, conn, c.columns())}
		case len(rest) == 0:
			reader.EndInput()
		default:
			n := 1 + r.IntN(min(len(rest), 9))
			piece := bytes.Clone(rest[:n])
			reader.Feed(piece)
			clear(piece)
			rest = rest[n:]
		}
	}
}

// insert inserts a row of values as text.
func insert(t *testing.T, conn *pgconn.PgConn, table, columns string, fields [][]byte) error {
	var values []string
	for _, f := range fields {
		if f == nil {
			values = append(values, "NULL")
		} else {
			values = append(values, quote(string(f)))
		}
	}
	_, err := conn.Exec(t.Context(), "INSERT INTO "+table+" ("+columns+") VALUES ("+strings.Join(values, ", ")+")").ReadAll()
	return err
}
