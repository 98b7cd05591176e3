package settings

import (
	"errors"
	"fmt"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"math"
	"strconv"
	"strings"
	"time"
)

// This file parses, checks and shows the values of Sluice-local settings (no server sees them) as PostgreSQL does.
// For example, 1500ms is shown for '1.5s', and 5s for 5000.

// valueFormat is the notation of a setting's values, for example a time with a unit.
type valueFormat struct {
	read     func(f *valueFormat, name, value string) (string, *wire.Error)
	units    []unit // in descending order; nil for a number without a unit
	base     string // the unit of a plain number
	plain    bool   // shown as a plain number
	off      bool   // a time limit, which is 0 unless a session has set it
	min, max int64
	words    string // accepted words, the shown one first, then its synonyms
	offered  string // the values in an error's hint
}

// unit is a unit in values of settings, with its size in base units.
type unit struct {
	name string
	size float64
}

var (
	millis = []unit{{"d", 86_400_000}, {"h", 3_600_000}, {"min", 60_000}, {"s", 1000}, {"ms", 1}, {"us", 1.0 / 1000}}
	secs   = []unit{{"d", 86_400}, {"h", 3600}, {"min", 60}, {"s", 1}, {"ms", 1.0 / 1000}, {"us", 1.0 / 1_000_000}}
	kilo   = []unit{{"TB", 1 << 30}, {"GB", 1 << 20}, {"MB", 1 << 10}, {"kB", 1}, {"B", 1.0 / 1024}}
)

// valueFormats has the notations of settings that no server sees, of settings ignored by default, and of some server
// settings (rewrite.SetConfigColumn). A setting that is missing here accepts any text.
var valueFormats = map[string]*valueFormat{
	"statement_timeout":                   {read: readNumber, units: millis, base: "ms", max: math.MaxInt32},
	"idle_in_transaction_session_timeout": {read: readNumber, units: millis, base: "ms", max: math.MaxInt32},
	"lock_timeout":                        {read: readNumber, units: millis, base: "ms", max: math.MaxInt32, off: true},
	"client_connection_check_interval":    {read: readNumber, units: millis, base: "ms", max: math.MaxInt32, off: true},
	"tcp_user_timeout":                    {read: readNumber, units: millis, base: "ms", plain: true, max: math.MaxInt32},
	"tcp_keepalives_idle":                 {read: readNumber, units: secs, base: "s", plain: true, max: math.MaxInt32},
	"tcp_keepalives_interval":             {read: readNumber, units: secs, base: "s", plain: true, max: math.MaxInt32},
	"tcp_keepalives_count":                {read: readNumber, max: math.MaxInt32},
	"work_mem":                            {read: readNumber, units: kilo, base: "kB", min: 64, max: math.MaxInt32},
	"maintenance_work_mem":                {read: readNumber, units: kilo, base: "kB", min: 1024, max: math.MaxInt32},
	"check_function_bodies":               {read: readBool},
	"jit":                                 {read: readBool},
	"extra_float_digits":                  {read: readNumber, min: -15, max: 3},
	"intervalstyle": {read: readWord, words: "postgres postgres_verbose sql_standard iso_8601",
		offered: "postgres, postgres_verbose, sql_standard, iso_8601"},
	"row_security":                  {read: readBool},
	"default_transaction_read_only": {read: readBool},
	"standard_conforming_strings":   {read: readBool},
	"synchronize_seqscans":          {read: readBool},
	"synchronous_commit": {read: readWord, words: "local remote_write remote_apply on,true,yes,1 off,false,no,0",
		offered: "local, remote_write, remote_apply, on, off"},
	"client_min_messages": {read: readWord, words: "debug5 debug4 debug3 debug2,debug debug1 log info notice warning error",
		offered: "debug5, debug4, debug3, debug2, debug1, log, notice, warning, error"},
	"xmloption": {read: readWord, words: "content document", offered: "content, document"},
}

// Normalize returns the value of a setting as PostgreSQL shows it, or PostgreSQL's error for an invalid value.
func Normalize(name, value string) (string, *wire.Error) {
	f := valueFormats[name]
	if f == nil {
		return value, nil
	}
	return f.read(f, name, value)
}

func errInvalidValue(name, value, hint string) *wire.Error {
	return &wire.Error{Code: "22023", Message: fmt.Sprintf("invalid value for parameter %q: \"%s\"", name, value), Hint: hint}
}

// ErrOneArgument returns the error for a SET of a list to a setting that takes one value.
func ErrOneArgument(name string) *wire.Error {
	return &wire.Error{Code: "22023", Message: "SET " + name + " takes only one argument"}
}

func readNumber(f *valueFormat, name, value string) (string, *wire.Error) {
	n, err := f.parseNumber(name, value)
	if err != nil || n == 0 || f.units == nil || f.plain {
		return strconv.FormatInt(n, 10), err
	}
	for _, u := range f.units {
		if u.size <= 1 || n%int64(u.size) == 0 {
			return strconv.FormatInt(int64(math.RoundToEven(float64(n)/u.size)), 10) + u.name, nil
		}
	}
	return "", errInvalidValue(name, value, "")
}

// parseNumber parses a value and returns it in base units, as parse_int does in PostgreSQL's guc.c.
func (f *valueFormat) parseNumber(name, value string) (int64, *wire.Error) {
	v, rest, ok := leadingNumber(value)
	if !ok {
		return 0, errInvalidValue(name, value, "")
	}
	if rest = strings.TrimLeft(rest, blanks); rest != "" {
		if f.units == nil {
			return 0, errInvalidValue(name, value, "")
		}
		if v, ok = f.toBaseUnits(v, strings.TrimRight(rest, blanks)); !ok {
			return 0, errInvalidValue(name, value, unitsHint(f.units))
		}
	}
	v = math.RoundToEven(v)
	if v > math.MaxInt32 || v < math.MinInt32 {
		return 0, errInvalidValue(name, value, "Value exceeds integer range.")
	}
	n := int64(v)
	if n < f.min || n > f.max {
		shown := strconv.FormatInt(n, 10)
		if f.base != "" {
			shown += " " + f.base
		}
		return 0, &wire.Error{Code: "22023", Message: fmt.Sprintf("%s is outside the valid range for parameter %q (%d .. %d)", shown, name, f.min, f.max)}
	}
	return n, nil
}

// blanks are the characters that C's isspace accepts.
const blanks = " \t\n\v\f\r"

// toBaseUnits converts an amount in the unit name to base units. A fraction is rounded to the next smaller unit.
func (f *valueFormat) toBaseUnits(v float64, name string) (float64, bool) {
	for i, u := range f.units {
		if u.name != name {
			continue
		}
		v *= u.size
		if i+1 < len(f.units) {
			smaller := f.units[i+1].size
			v = math.RoundToEven(v/smaller) * smaller
		}
		return v, true
	}
	return 0, false
}

func unitsHint(units []unit) string {
	if &units[0] == &kilo[0] {
		return `Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".`
	}
	return `Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".`
}

// leadingNumber parses the number at the start of value as C's strtol does with base 0. If a fraction or an exponent
// follows, or if the number is too large, leadingNumber parses as strtod does.
func leadingNumber(value string) (v float64, rest string, ok bool) {
	s := strings.TrimLeft(value, blanks)
	i := 0
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	sign, digits := s[:i], s[i:]
	base, skip := 10, 0
	switch {
	case len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'x' && digitValue(digits[2]) < 16:
		base, skip = 16, 2
	case strings.HasPrefix(digits, "0"):
		base = 8
	}
	n := skip
	for n < len(digits) && digitValue(digits[n]) < base {
		n++
	}
	whole, err := strconv.ParseInt(sign+digits[skip:n], base, 64)
	v, rest = float64(whole), digits[n:]
	if ends := errors.Is(err, strconv.ErrRange); ends || rest != "" && strings.IndexByte(".eE", rest[0]) >= 0 {
		if v, rest, err = leadingFloat(s); err != nil {
			return 0, value, false
		}
		return v, rest, true
	}
	return v, rest, n > skip
}

// leadingFloat parses a decimal number with fraction and exponent at the start of s.
func leadingFloat(s string) (float64, string, error) {
	i := 0
	digits := func() (n int) {
		for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			n++
		}
		return n
	}
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	n := digits()
	if i < len(s) && s[i] == '.' {
		i++
		n += digits()
	}
	if n == 0 {
		return 0, s, strconv.ErrSyntax
	}
	if end := i; i < len(s) && s[i]|0x20 == 'e' {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if digits() == 0 {
			i = end
		}
	}
	v, err := strconv.ParseFloat(s[:i], 64)
	return v, s[i:], err
}

// digitValue returns the value of a digit in any base up to 16, or 99 for another character.
func digitValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return 99
}

// readBool returns "on" or "off" for PostgreSQL's Boolean words and their unambiguous prefixes, and PostgreSQL's error
// for other values.
func readBool(_ *valueFormat, name, value string) (string, *wire.Error) {
	v := strings.ToLower(value)
	begins := func(word string, least int) bool { return len(v) >= least && strings.HasPrefix(word, v) }
	switch {
	case begins("true", 1), begins("yes", 1), v == "on", v == "1":
		return "on", nil
	case begins("false", 1), begins("no", 1), begins("off", 2), v == "0":
		return "off", nil
	}
	return "", &wire.Error{Code: "22023", Message: fmt.Sprintf("parameter %q requires a Boolean value", name)}
}

func readWord(f *valueFormat, name, value string) (string, *wire.Error) {
	for names := range strings.FieldsSeq(f.words) {
		shown, _, _ := strings.Cut(names, ",")
		for word := range strings.SplitSeq(names, ",") {
			if strings.EqualFold(word, value) {
				return shown, nil
			}
		}
	}
	return "", errInvalidValue(name, value, "Available values: "+f.offered+".")
}

// IsOffByDefault reports whether a setting is a time limit that is 0 unless a session sets it.
func IsOffByDefault(name string) bool {
	f := valueFormats[name]
	return f != nil && f.off
}

// ParseTimeout returns the value of a timeout setting as a duration.
func ParseTimeout(name, value string) (time.Duration, *wire.Error) {
	n, err := valueFormats[name].parseNumber(name, value)
	return time.Duration(n) * time.Millisecond, err
}
