package proxy

import (
	"bytes"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Errors and notices about texts with mapped columns (rewrite.bytea): the client is told of
// its own columns and values. mappedError and noticed ask for the fields.
//
// Only the fields that PostgreSQL fills with names and values of the table are dressed:
// message, detail, hint, column and constraint. Where a text cannot be taken apart for
// certain it stays as the server wrote it: a physical name in an error is odd, a wrong value
// would be false.

// hintSchemaChanged goes with an error about a name that the snapshot has.
const hintSchemaChanged = "Another process may have changed the schema meanwhile, which is read again before the next statement: retry."

// hintHexCast goes with the error of a cluster that lacks what the default converts with.
const hintHexCast = "The server has no encode() and decode(), with which mapped columns are converted: set rewrite.bytea: hex-cast. sluice doctor tells what a cluster has."

// hintNoBytea goes with the error of a value that the client gave where bytea belongs: the
// server is asked to encode it, which the client has never heard of.
const hintNoBytea = "A column of type bytea that is stored as hexadecimal digits (rewrite.bytea) meets a value of another type: cast the value to bytea."

// hintOfConversion is the hint for an error that says that the server has no function of that
// name and argument, which is one with which Sluice converts; "" for any other.
func hintOfConversion(message []byte) string {
	switch string(message) {
	case "function pg_catalog.encode(bytea, unknown) does not exist", "function pg_catalog.encode(unknown, unknown) does not exist",
		"function pg_catalog.decode(text, unknown) does not exist":
		return hintHexCast
	}
	if bytes.HasPrefix(message, []byte("function pg_catalog.encode(")) {
		return hintNoBytea
	}
	return ""
}

// dresser puts the client's names and values into the fields of an error. The zero value
// changes nothing.
type dresser struct {
	on bool // the statement touches mapped columns
	// row is the relation that the error is about; nil where nobody knows.
	row *schema.Relation
}

// dresserOf is what dresses the error or notice of that payload, about a text of that plan.
// The relation is looked up in the newest snapshot, by the names that the server gives.
func (srv *Server) dresserOf(plan *rewrite.Plan, payload []byte) dresser {
	if plan == nil || !plan.Mapped {
		return dresser{}
	}
	d := dresser{on: true}
	if now := srv.keeper.now.Load(); now != nil {
		d.row = now.Relation(string(retry.Field(payload, 's')), string(retry.Field(payload, 't')))
	}
	return d
}

// field is the value of a field as the client gets it.
func (d dresser) field(code byte, value []byte) []byte {
	if !d.on {
		return value
	}
	switch code {
	case 'M', 'H', 'c', 'n':
		return []byte(naturalNames(string(value)))
	case 'D':
		return []byte(d.detail(string(value)))
	}
	return value
}

// detail is the detail of an error. What it says of keys and rows has values beside the names;
// where the two do not count up, a value has a comma in it, and the detail stays as it is.
func (d dresser) detail(text string) string {
	if rest, ok := strings.CutPrefix(text, "Key ("); ok {
		return "Key (" + naturalKeys(rest)
	}
	if rest, ok := strings.CutPrefix(text, "Failing row contains ("); ok && strings.HasSuffix(rest, ").") && d.row != nil {
		return "Failing row contains (" + naturalRow(d.row, strings.TrimSuffix(rest, ").")) + ")."
	}
	return naturalNames(text)
}

// naturalNames takes the suffix of mapped columns off the names in a text. A longer name that
// merely has it inside, and the suffix alone, stay.
func naturalNames(text string) string {
	var b strings.Builder
	for {
		at := strings.Index(text, schema.MappedSuffix)
		if at < 0 {
			break
		}
		end := at + len(schema.MappedSuffix)
		b.WriteString(text[:at])
		if at == 0 && b.Len() == 0 || end < len(text) && isNameByte(text[end]) {
			b.WriteString(schema.MappedSuffix) // of another name
		}
		text = text[end:]
	}
	return b.String() + text
}

// isNameByte reports whether a byte may belong to a name that needs no quotes.
func isNameByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// keyEnds are what stands behind the values of a key, in PostgreSQL's messages about unique
// indexes, foreign keys and exclusion constraints. lc_messages of DSQL is English.
var keyEnds = []string{") already exists.", ") is not present in table ", ") is still referenced from table ", ") is duplicated.", ") conflicts with existing key "}

// naturalKeys is the rest of a detail behind "Key (": names, values, and what is wrong with
// them. The digits of a mapped value have no comma; where another value has one, names and
// values do not count up, and the text is returned as it is.
func naturalKeys(text string) string {
	names, rest, ok := strings.Cut(text, ")=(")
	end := -1
	for _, e := range keyEnds {
		end = max(end, strings.LastIndex(rest, e))
	}
	if !ok || end < 0 {
		return text
	}
	columns, values := strings.Split(names, ", "), strings.Split(rest[:end], ", ")
	if len(columns) != len(values) {
		return text
	}
	for i, column := range columns {
		if natural := naturalNames(column); natural != column {
			columns[i], values[i] = natural, naturalValue(values[i])
		}
	}
	return strings.Join(columns, ", ") + ")=(" + strings.Join(values, ", ") + rest[end:]
}

// naturalRow are the values of a row of a relation, in their order. text is returned as it is
// where it has more or fewer values than the relation has columns.
func naturalRow(r *schema.Relation, text string) string {
	values := strings.Split(text, ", ")
	if len(values) != len(r.Columns) {
		return text
	}
	for i, c := range r.Columns {
		if c.Mapped {
			values[i] = cutValue(naturalValue(values[i]))
		}
	}
	return strings.Join(values, ", ")
}

// naturalValue is a value of a mapped column as bytea is shown; what is no such value stays.
// The server cuts long values, and marks that with three dots.
func naturalValue(value string) string {
	digits := strings.TrimSuffix(value, "...")
	if strings.IndexFunc(digits, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') }) >= 0 {
		return value // null, for one
	}
	return `\x` + value
}

// mostShown is how much of a value PostgreSQL shows in an error about a row, in bytes
// (maxfieldlen of its ExecBuildSlotValueDescription).
const mostShown = 64

// cutValue is a value as an error about a row shows it.
func cutValue(value string) string {
	if plain := strings.TrimSuffix(value, "..."); len(plain) > mostShown {
		return plain[:mostShown] + "..."
	}
	return value
}

// noticed is a notice of the server's as the client gets it; nil for one that passes as it is.
func (s *session) noticed(frame []byte) []byte {
	if s.t.owed.empty() || s.t.phase != live {
		return nil
	}
	plan, _ := s.t.owed.first().sent()
	payload := frame[wire.HeaderLen:]
	d := s.srv.dresserOf(plan, payload)
	if !d.on {
		return nil
	}
	out := appendFields(nil, payload, func(code byte, value []byte) ([]byte, bool) { return d.field(code, value), true })
	if out == nil {
		return nil
	}
	out = append(out, 0)
	return slices.Concat(wire.AppendHeader(nil, wire.NoticeResponse, len(out)), out)
}

// appendFields appends the fields of an error or notice, each as field returns it, or left out
// where that says false; nil for one that cannot be read.
func appendFields(dst, payload []byte, field func(code byte, value []byte) ([]byte, bool)) []byte {
	for len(payload) > 1 && payload[0] != 0 {
		value, rest, ok := wire.CString(payload[1:])
		if !ok {
			return nil
		}
		code := payload[0]
		payload = rest
		if value, ok = field(code, value); ok {
			dst = append(append(append(dst, code), value...), 0)
		}
	}
	return dst
}
