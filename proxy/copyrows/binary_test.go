package copyrows

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// binaryValues are SQL expressions for values of each type that is read.
var binaryValues = map[uint32]struct {
	name   string
	values []string
}{
	boolType:        {"boolean", []string{"true", "false"}},
	byteaType:       {"bytea", []string{`'\x'`, `'\x00ff27'`, `decode(md5(random()::text), 'hex')`}},
	int2Type:        {"smallint", []string{"0", "-32768", "32767"}},
	int4Type:        {"integer", []string{"0", "-2147483648", "2147483647"}},
	int8Type:        {"bigint", []string{"0", "-9223372036854775808", "9223372036854775807"}},
	oidType:         {"oid", []string{"0", "4294967295"}},
	textType:        {"text", []string{"''", `'it''s \ "x"'`, "'é日'", "repeat('a', 300)"}},
	jsonType:        {"json", []string{`'{"a": [1, null]}'`, "'1'"}},
	float4Type:      {"real", []string{"0", "'-0'", "'NaN'", "'Infinity'", "'-Infinity'", "3.4028235e38", "1e-45", "0.1", "random()::real"}},
	float8Type:      {"double precision", []string{"0", "'-0'", "'NaN'", "'-Infinity'", "1.7976931348623157e308", "5e-324", "0.1", "random()", "random() * 1e17"}},
	bpcharType:      {"char(5)", []string{"''", "'ab'", "'é'"}},
	varcharType:     {"varchar(9)", []string{"''", "'ab '"}},
	dateType:        {"date", []string{"'infinity'", "'-infinity'", "'4714-11-24 BC'", "'5874897-12-31'", "'0001-01-01'", "'0001-12-31 BC'", "'2000-02-29'", "'1900-03-01'", "date '2000-01-01' + (random() * 2000000000 - 2000000)::int"}},
	timeType:        {"time", []string{"'00:00'", "'24:00'", "'23:59:59.999999'", "'00:00'::time + random() * interval '1 day'"}},
	timestampType:   {"timestamp", []string{"'infinity'", "'-infinity'", "'4714-11-24 00:00:00 BC'", "'294276-12-31 23:59:59.999999'", "'1999-12-31 23:59:59.999999'", "'2000-01-01'::timestamp + (random() - 0.02) * interval '280000 years'"}},
	timestamptzType: {"timestamptz", []string{"'infinity'", "'4714-11-24 00:00:00 UTC BC'", "'1999-12-31 23:59:59.000001+05:30'", "now()"}},
	intervalType:    {"interval", []string{"'0'", "'-1 mon +2 days -03:04:05.6'", "'-1 mon'", "'-5 days'", "'-00:00:00.000001'", "'178000000 years'", "'2147483647 hours'", "'2147483648 hours'", "'-3 mons 9223372036854775807 microseconds'", "'1 day -9223372036854775807 microseconds'", "'-9223372036854775808 microseconds'", "'-2147483647 days'"}},
	timetzType:      {"timetz", []string{"'00:00+00'", "'24:00-15:59:59'", "'12:34:56.789+15:59:59'", "'01:02:03-07:30'"}},
	numericType:     {"numeric", []string{"0", "0.00", "'NaN'", "'Infinity'", "'-Infinity'", "-1", "10000", "0.0001", "0.00010000", "-123456789.0123456789000", "1e100", "1e-100", "random()::numeric * 10::numeric ^ (random() * 50)::int"}},
	uuidType:        {"uuid", []string{"gen_random_uuid()", "'00000000-0000-0000-0000-000000000000'"}},
	jsonbType:       {"jsonb", []string{`'{"a": [1, null, "é"]}'`, "'1'"}},
}

// TestBinaryTypes reads what PostgreSQL writes of every type: inserted as text, the values have
// the same binary form.
func TestBinaryTypes(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	for _, style := range []string{"postgres", "sql_standard", "iso_8601", "postgres_verbose"} {
		run(t, conn, "SET client_min_messages = warning; SET TimeZone = 'Asia/Kolkata'; SET DateStyle = 'German, DMY'; SET bytea_output = escape; SET IntervalStyle = "+style)
		for oid := range decoders {
			kind, ok := binaryValues[oid]
			if !ok {
				t.Fatalf("no values of the type %d", oid)
			}
			run(t, conn, fmt.Sprintf("DROP TABLE IF EXISTS s, t; CREATE TABLE s (n int, a %s, b %[1]s); CREATE TABLE t (LIKE s)", kind.name))
			for n, v := range kind.values {
				for i := range 4 {
					run(t, conn, fmt.Sprintf("INSERT INTO s VALUES (%d, %s, NULL)", 4*n+i, v))
				}
			}
			var want, got bytes.Buffer
			copyTo(t, conn, &want, "s")
			o := Options{Format: Binary, Columns: []Column{{"n", int4Type}, {"a", oid}, {"b", oid}}}
			for row, e := range rowsIn(o, want.Bytes(), 1000) {
				if e != nil {
					t.Fatalf("%s: %v", kind.name, e)
				}
				if err := insert(t, conn, "t", "n, a, b", row.Fields); err != nil {
					t.Fatalf("%s: %q: %v", kind.name, row.Fields, err)
				}
			}
			copyTo(t, conn, &got, "t")
			if !bytes.Equal(want.Bytes(), got.Bytes()) {
				t.Errorf("%s under %s becomes other values", kind.name, style)
			}
		}
	}
}

func run(t *testing.T, conn *pgconn.PgConn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func copyTo(t *testing.T, conn *pgconn.PgConn, b *bytes.Buffer, table string) {
	if _, err := conn.CopyTo(t.Context(), b, "COPY (SELECT * FROM "+table+" ORDER BY n) TO STDOUT (FORMAT binary)"); err != nil {
		t.Fatal(err)
	}
}

// rowsIn are the rows that data have, fed in pieces, up to an error.
func rowsIn(o Options, data []byte, piece int) func(func(*Row, *Error) bool) {
	return func(yield func(*Row, *Error) bool) {
		r := NewReader(o)
		for {
			row, e := r.Next()
			switch {
			case row != nil || e != nil:
				if !yield(row, e) || e != nil {
					return
				}
			case r.ended:
				return
			case len(data) == 0:
				r.EndInput()
			default:
				n := min(piece, len(data))
				fed := bytes.Clone(data[:n])
				r.Feed(fed)
				clear(fed)
				data = data[n:]
			}
		}
	}
}

// TestBinaryOracle damages binary data: the Reader and its INSERTs end as PostgreSQL does.
func TestBinaryOracle(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	oids := []uint32{int4Type, textType, numericType, dateType, timestampType, timetzType, uuidType, jsonbType, float8Type, boolType}
	seen := map[string]int{}
	for n := range *copyCount / 2 {
		r := rand.New(rand.NewPCG(*copySeed+7, uint64(n)))
		c := &copied{with: "(FORMAT binary)"}
		c.options.Format = Binary
		var values []string
		for i := range 1 + r.IntN(3) {
			oid := oids[r.IntN(len(oids))]
			kind := binaryValues[oid]
			c.types = append(c.types, kind.name)
			c.options.Columns = append(c.options.Columns, Column{Name: string(rune('a' + i)), Type: oid})
			values = append(values, "("+kind.values[r.IntN(len(kind.values))]+")::"+kind.name)
		}
		var b bytes.Buffer
		query := "SELECT " + strings.Join(values, ", ")
		if _, err := conn.CopyTo(t.Context(), &b, "COPY ("+query+" UNION ALL "+query+") TO STDOUT (FORMAT binary)"); err != nil && slices.Contains(c.types, "jsonb") {
			t.Fatal(err)
		}
		c.data = b.Bytes()
		if len(c.data) == 0 {
			continue
		}
		for range 1 + r.IntN(2) {
			at := r.IntN(len(c.data))
			if r.IntN(3) > 0 {
				at = min(len(c.data)-1, 19+r.IntN(20))
			}
			switch r.IntN(4) {
			case 0:
				c.data = c.data[:at+1]
			case 1:
				c.data = append(c.data, 0)
			default:
				c.data[at] = []byte{0, 1, 2, 5, 0x7f, 0x80, 0xff, byte(r.IntN(256))}[r.IntN(8)]
			}
		}
		want, got := c.byPostgres(t, conn), c.byReader(t, conn, r)
		if err := differs(want, got); err != "" {
			t.Fatalf("COPY %d %v of\n%q\n%s:\n got %+v\nwant %+v", n, c.types, c.data, err, got, want)
		}
		seen[want.code]++
	}
	t.Log(seen)
	if seen[""] < *copyCount/50 || seen["22P04"] < *copyCount/50 || seen["22P03"] < *copyCount/300 {
		t.Error("such data are too rare")
	}
}
