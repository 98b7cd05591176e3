// Package mappederror changes errors and notices about queries with mapped columns (bytea keys stored as text), so that
// the client gets its own column names and values.
//
// Only the fields change in which PostgreSQL puts names and values of tables: message, detail, hint, column and
// constraint. A text that cannot be parsed for certain is unchanged, since a wrong value is worse than a physical name.
package mappederror

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// HintHexCast is the hint for a cluster without encode and decode, which by default convert bytea stored as text.
const HintHexCast = "The server has no encode() and decode(), with which mapped columns are converted: set rewrite.bytea: hex-cast. sluice doctor tells what a cluster has."

// HintNoBytea is the hint if the client gave a mapped column (bytea stored as text) a value of another type than
// bytea. The server's error is about encode(), which the client did not call.
const HintNoBytea = "A column of type bytea that is stored as hexadecimal digits (rewrite.bytea) meets a value of another type: cast the value to bytea."

// ConversionHint returns the hint for a missing function with which Sluice converts bytea stored as text, or "".
func ConversionHint(message []byte) string {
	switch string(message) {
	case "function pg_catalog.encode(bytea, unknown) does not exist", "function pg_catalog.encode(unknown, unknown) does not exist",
		"function pg_catalog.decode(text, unknown) does not exist":
		return HintHexCast
	}
	if bytes.HasPrefix(message, []byte("function pg_catalog.encode(")) {
		return HintNoBytea
	}
	return ""
}

// Renamer puts the client's column names and values into an error's fields. The zero value changes nothing.
type Renamer struct {
	On bool // the statement touches mapped columns
	// Relation is the relation that the server's error is about, or nil if unknown.
	Relation *schema.Relation
}

// RenameInField returns the value of an error's field with the client's column names and values.
func (d Renamer) RenameInField(code byte, value []byte) []byte {
	if !d.On {
		return value
	}
	switch code {
	case 'M', 'H', 'c', 'n':
		return []byte(clientColumnNames(string(value)))
	case 'D':
		return []byte(d.renameInDetail(string(value)))
	}
	return value
}

// renameInDetail returns an error's DETAIL with the client's names. A DETAIL about a key or a row also has values. If
// names and values differ in number, because a value contains a comma, the detail does not change.
func (d Renamer) renameInDetail(text string) string {
	if rest, ok := strings.CutPrefix(text, "Key ("); ok {
		return "Key (" + clientKeyDetail(rest)
	}
	if rest, ok := strings.CutPrefix(text, "Failing row contains ("); ok && strings.HasSuffix(rest, ").") && d.Relation != nil {
		return "Failing row contains (" + clientRowValues(d.Relation, strings.TrimSuffix(rest, ").")) + ")."
	}
	return clientColumnNames(text)
}

// clientColumnNames removes the suffix of mapped columns at the ends of names in text. A suffix alone remains.
func clientColumnNames(text string) string {
	var b strings.Builder
	for {
		at := strings.Index(text, schema.MappedSuffix)
		if at < 0 {
			break
		}
		end := at + len(schema.MappedSuffix)
		b.WriteString(text[:at])
		if at == 0 && b.Len() == 0 || end < len(text) && isNameByte(text[end]) {
			b.WriteString(schema.MappedSuffix) // part of another name
		}
		text = text[end:]
	}
	return b.String() + text
}

// isNameByte reports whether a byte may belong to an SQL name that needs no quotes.
func isNameByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// keyDetailEnds lists the texts that follow a key's values in PostgreSQL's DETAIL. DSQL's messages are English.
var keyDetailEnds = []string{") already exists.", ") is not present in table ", ") is still referenced from table ", ") is duplicated.", ") conflicts with existing key "}

// clientKeyDetail converts the part of a DETAIL after "Key (", which has names, values, and the problem. If another
// value contains a comma, names and values differ in number, and the text is returned unchanged.
func clientKeyDetail(text string) string {
	names, rest, ok := strings.Cut(text, ")=(")
	end := -1
	for _, e := range keyDetailEnds {
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
		if natural := clientColumnNames(column); natural != column {
			columns[i], values[i] = natural, clientByteaValue(values[i])
		}
	}
	return strings.Join(columns, ", ") + ")=(" + strings.Join(values, ", ") + rest[end:]
}

// clientRowValues converts the values of a row in an error's DETAIL to the client's. If their number is not that of the
// relation's columns, it returns text unchanged.
func clientRowValues(r *schema.Relation, text string) string {
	values := strings.Split(text, ", ")
	if len(values) != len(r.Columns) {
		return text
	}
	for i, c := range r.Columns {
		if c.Mapped {
			values[i] = truncateShownValue(clientByteaValue(values[i]))
		}
	}
	return strings.Join(values, ", ")
}

// clientByteaValue converts a mapped column's digits to the output form of bytea. Other texts, such as null, do not
// change. The server may have cut the value and appended "...".
func clientByteaValue(value string) string {
	digits := strings.TrimSuffix(value, "...")
	if strings.IndexFunc(digits, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') }) >= 0 {
		return value // such as null
	}
	return `\x` + value
}

// maxShownValue is how many bytes of a value PostgreSQL shows in an error about a row (maxfieldlen of its
// ExecBuildSlotValueDescription).
const maxShownValue = 64

// truncateShownValue cuts a value to the length that an error about a row shows.
func truncateShownValue(value string) string {
	if plain := strings.TrimSuffix(value, "..."); len(plain) > maxShownValue {
		return plain[:maxShownValue] + "..."
	}
	return value
}

// AppendFields appends to dst the fields of an error or notice, with the values that the function field returns.
// It leaves out a field for which field returns false. For a malformed payload it returns nil.
func AppendFields(dst, payload []byte, field func(code byte, value []byte) ([]byte, bool)) []byte {
	for len(payload) > 1 && payload[0] != 0 {
		value, rest, ok := wire.CutCString(payload[1:])
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
