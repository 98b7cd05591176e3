package stored

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// sent are types with a function that makes the binary format of a value, and values at their edges.
var sent = []struct {
	oid         uint32
	name, sends string
	edges       []string
	draw        func(*rand.Rand) string
}{
	{float4, "float4", "float4send", []string{"NaN", "Infinity", "-Infinity", "-0", "0", "1e-45", "3.4028235e38", "-1.1754944e-38", "16777216", "1e15", "1e16"}, func(r *rand.Rand) string {
		return floatText(float64(math.Float32frombits(r.Uint32())), r)
	}},
	{float8, "float8", "float8send", []string{"NaN", "Infinity", "-Infinity", "-0", "0", "5e-324", "1.7976931348623157e308", "2.2250738585072014e-308", "9007199254740993", "0.30000000000000004", "1e22", "1e23"}, func(r *rand.Rand) string {
		return floatText(math.Float64frombits(r.Uint64()), r)
	}},
	{1700, "numeric", "numeric_send", []string{"NaN", "Infinity", "-Infinity", "0", "-0", "0.000", "-0.00", "1e1000", "1e-1000", "-1.50", "10000", "100000000", "0.0001", "0.00010000", "12345.6789", "9999.9999", "1e131071", "0.00000", "1e-16383"}, numericText},
	{1082, "date", "date_send", []string{"infinity", "-infinity", "4713-01-01 BC", "0001-12-31 BC", "0001-01-01", "0005-02-28 BC", "2000-02-29", "1900-02-28", "5874897-12-31", "9999-12-31", "10000-01-01"}, func(r *rand.Rand) string {
		return fmt.Sprintf("%04d-%02d-%02d%s", 1+r.IntN([]int{3000, 4712, 4712}[r.IntN(3)]), 1+r.IntN(12), 1+r.IntN(28), []string{"", "", " BC"}[r.IntN(3)])
	}},
	{1083, "time", "time_send", []string{"00:00:00", "24:00:00", "23:59:59.999999", "12:00:00.1", "12:00:00.000001"}, clockText},
	{1266, "timetz", "timetz_send", []string{"00:00:00+00", "24:00:00-15:59", "23:59:59.999999+15:59:59", "12:00:00.1-00:00:01"}, func(r *rand.Rand) string { return clockText(r) + zoneText(r) }},
	{1114, "timestamp", "timestamp_send", []string{"infinity", "-infinity", "294276-12-31 23:59:59.999999", "4713-01-01 00:00:00 BC", "4714-11-24 00:00:00 BC", "0001-01-01 00:00:00", "0001-12-31 23:59:59.5 BC", "1999-12-31 23:59:59.999999", "2000-01-01"}, func(r *rand.Rand) string {
		return instantText(r, "")
	}},
	{1184, "timestamptz", "timestamptz_send", []string{"infinity", "-infinity", "294276-12-31 23:59:59.999999+00", "4714-11-24 00:00:00+00 BC", "0001-01-01 00:00:00+00", "1800-01-01 00:00:00+00", "1937-05-05 01:02:03.4+00", "2000-01-01 00:00:00+00"}, func(r *rand.Rand) string {
		return instantText(r, zoneText(r))
	}},
	{1186, "interval", "interval_send", []string{"0", "178000000 years", "-178000000 years", "2147483647 days", "-2147483648 days", "2562047788:00:54.775807", "-2562047788:00:54.775807", "1 mon -1 day 00:00:01", "-1 mon 1 day -00:00:00.000001", "11 mons", "-11 mons 5 days",
		"1 year -13 mons", "1 day", "-1 day", "100:00:00", "-10:00:00", "1 year 10:00:00", "00:00:00.5"}, func(r *rand.Rand) string {
		var parts []string
		for _, unit := range []string{"months", "days", "microseconds"} {
			if r.IntN(3) > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", r.Int64N(1<<(1+r.IntN(30)))*int64(1-2*r.IntN(2)), unit))
			}
		}
		if parts == nil {
			return "0"
		}
		return strings.Join(parts, " ")
	}},
}

// floatText is a float as Go writes it, or a shorter one that is near.
func floatText(n float64, r *rand.Rand) string {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return "NaN"
	case r.IntN(3) == 0:
		return fmt.Sprintf("%.*g", 1+r.IntN(9), n)
	case r.IntN(3) == 0:
		return fmt.Sprint(float64(r.IntN(1000000)) / 1000)
	}
	return fmt.Sprintf("%.17g", n)
}

func numericText(r *rand.Rand) string {
	digits := func() string {
		var b strings.Builder
		for range 1 + r.IntN(1+r.IntN(30)) {
			b.WriteByte("0001234567899"[r.IntN(13)])
		}
		return b.String()
	}
	text := []string{"", "-"}[r.IntN(2)] + digits()
	if r.IntN(3) > 0 {
		text += "." + digits()
	}
	if r.IntN(4) == 0 {
		text += fmt.Sprintf("e%d", r.IntN(2000)-1000)
	}
	return text
}

func clockText(r *rand.Rand) string {
	text := fmt.Sprintf("%02d:%02d:%02d", r.IntN(24), r.IntN(60), r.IntN(60))
	if r.IntN(2) == 0 {
		text += fmt.Sprintf(".%06d", r.IntN(1000000))
	}
	return text
}

func zoneText(r *rand.Rand) string {
	return fmt.Sprintf("%c%02d:%02d:%02d", "+-"[r.IntN(2)], r.IntN(15), r.IntN(2)*r.IntN(60), r.IntN(2)*r.IntN(60))
}

func instantText(r *rand.Rand, zone string) string {
	return fmt.Sprintf("%04d-%02d-%02d %s%s%s", 1+r.IntN([]int{3000, 4712}[r.IntN(2)]), 1+r.IntN(12), 1+r.IntN(28), clockText(r), zone, []string{"", "", " BC"}[r.IntN(3)])
}

// What a value is in the binary format is what PostgreSQL makes of it, or it is refused; by its own
// settings none is refused. Floats are asked for with the digits that they have by default.
func TestBinaryAsPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	conn, err := pgconn.Connect(t.Context(), server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	foreign := map[string]int{}
	for _, styles := range [][2]string{{"ISO", "postgres"}, {"ISO, DMY", "postgres"}, {"SQL", "sql_standard"}, {"German", "iso_8601"}, {"Postgres", "postgres_verbose"}} {
		for _, zone := range []string{"Europe/Amsterdam", "America/St_Johns", "<+15:59>-15:59"} {
			own := strings.HasPrefix(styles[0], "ISO")
			for _, typ := range sent {
				values := append([]string(nil), typ.edges...)
				for range 12 {
					values = append(values, typ.draw(r))
				}
				for _, value := range values {
					sql := fmt.Sprintf("SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC'; CREATE TEMP TABLE v AS SELECT '%s'::%s AS v; SET DateStyle = '%s'; SET IntervalStyle = '%s'; SET TimeZone = '%s'; SET extra_float_digits = %d; "+
						"SELECT v::text, encode(%s(v), 'hex') FROM v; DROP TABLE v", value, typ.name, styles[0], styles[1], zone, 1+r.IntN(3), typ.sends)
					results, err := conn.Exec(t.Context(), sql).ReadAll()
					if err != nil { // drawn beyond what the type has
						if !strings.Contains(err.Error(), "out of range") && !strings.Contains(err.Error(), "overflow") {
							t.Fatalf("%s: %v", sql, err)
						}
						conn.Exec(t.Context(), "DROP TABLE IF EXISTS v").ReadAll()
						continue
					}
					row := results[8].Rows[0]
					got, ok := binaryEncoders[typ.oid](row[0])
					switch {
					case !ok && !own:
						foreign[typ.name]++
					case !ok:
						t.Errorf("seed %d: %s %q is refused", seed, typ.name, row[0])
					case hex.EncodeToString(got) != string(row[1]):
						t.Errorf("seed %d: %s %q (%v, %s) is %x, want %s", seed, typ.name, row[0], styles, zone, got, row[1])
					}
				}
			}
		}
	}
	for _, name := range []string{"date", "timestamp", "timestamptz", "interval"} {
		if foreign[name] == 0 {
			t.Errorf("of %s nothing was refused by other styles", name)
		}
	}
	t.Logf("by other styles refused: %v", foreign)
}

// notTexts are such as no server writes.
var notTexts = map[uint32][]string{
	float8: {"", "0x1p3", "1_0", "inf", "+1", "nan", ".5", "1e999", "--1", " 1", "1e"}, 1700: {"", "1e5", "-", ".", "1.", ".5", "+1", "1.2.3", "nan", "1 "},
	1082: {"", "2000-1-1", "2000-02-30", "1900-02-29", "2000-13-01", "0000-01-01", "2000-01-01 AD", "2000-01-01 BCE", "01-02-2000", "01/02/2000", "12345678-01-01", "2000-01-00", "4715-01-01 BC"},
	1083: {"", "1:00:00", "25:00:00", "24:00:01", "00:60:00", "00:00:60", "00:00:00.", "00:00:00.1234567", "00:00"}, 1266: {"00:00:00", "00:00:00Z", "00:00:00+1", "00:00:00+16", "00:00:00+00:60"},
	1114: {"2000-01-01", "2000-01-01T00:00:00", "2000-01-01 24:00:00", "294277-01-01 00:00:00", "4715-11-24 00:00:00 BC", "2000-01-01 00:00:00+00"}, 1184: {"2000-01-01 00:00:00", "2000-01-01 00:00:00 UTC", "294277-01-01 00:00:00+00"},
	1186: {"0", "P1Y", "1-2", "@ 1 year", "1 year 2 years", "1 day 1 mon", "1 week", "1", "4:05:06", "3 4:05:06", "1 mon ago", "9999999999 days", "178956971 years", "2562047788:00:54.775808", "", "1 day "},
}

func TestBinaryOfOtherTexts(t *testing.T) {
	t.Parallel()
	for oid, texts := range notTexts {
		for _, text := range texts {
			if value, ok := binaryEncoders[oid]([]byte(text)); ok {
				t.Errorf("%d: %q is %x", oid, text, value)
			}
		}
	}
}

// sizes are those of values of a fixed size.
var sizes = map[uint32]int{float4: 4, float8: 8, 1082: 4, 1083: 8, 1266: 12, 1114: 8, 1184: 8, 1186: 16}

// fuzzBinary finds that no text of these types has a converter panic, and that what it makes has its type's size.
func fuzzBinary(f *testing.F, oids ...uint32) {
	for i, oid := range oids {
		for _, typ := range sent {
			for _, text := range typ.edges {
				if typ.oid == oid {
					f.Add(byte(i), []byte(text))
				}
			}
		}
		for _, text := range notTexts[oid] {
			f.Add(byte(i), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, text []byte) {
		oid := oids[int(which)%len(oids)]
		value, ok := binaryEncoders[oid](text)
		if size := sizes[oid]; ok && size != 0 && len(value) != size {
			t.Errorf("%d: %q is %x", oid, text, value)
		} else if ok && size == 0 && (len(value) < 8 || len(value) != 8+2*int(value[0])<<8+2*int(value[1])) {
			t.Errorf("%d: %q is %x", oid, text, value)
		}
	})
}

func FuzzBinaryNumbers(f *testing.F) { fuzzBinary(f, float4, float8, 1700) }

func FuzzBinaryTimes(f *testing.F) { fuzzBinary(f, 1082, 1083, 1114, 1184, 1266, 1186) }
