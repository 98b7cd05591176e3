package stored

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
)

// This file converts dates, times and intervals from text to the binary format. The form of a text depends on settings
// of the session that read it. Only DateStyle ISO, whose order of year, month and day is unique, and IntervalStyle
// postgres, in which each number has its unit, are converted. A time with a time zone contains its offset, so its value
// does not depend on TimeZone.

// These are bounds of PostgreSQL's types, in days and microseconds since 2000-01-01.
const (
	second = 1_000_000
	day    = 86_400 * second
	// epoch is the day 2000-01-01 in the Julian count, which starts at the first possible date.
	epoch        = 2451545
	mostDays     = 2145031949                 // 5874898-01-01, the first day that is too late
	firstInstant = int64(-epoch) * day        // 4714-11-24 BC
	endInstant   = int64(9223371331200000000) // 294277-01-01
)

// textReader parses a text from its start. A mismatch sets bad.
type textReader struct {
	rest []byte
	bad  bool
}

// accept consumes c if it is the next byte, and reports whether it is.
func (r *textReader) accept(c byte) bool {
	if len(r.rest) == 0 || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// expect consumes c. If c is not the next byte, expect sets bad.
func (r *textReader) expect(c byte) { r.bad = !r.accept(c) || r.bad }

// readNumber consumes a decimal number of at least least and at most most digits, and returns it.
func (r *textReader) readNumber(least, most int) (n int64) {
	i := 0
	for ; i < len(r.rest) && i < most && r.rest[i] >= '0' && r.rest[i] <= '9'; i++ {
		n = 10*n + int64(r.rest[i]-'0')
	}
	r.rest = r.rest[i:]
	r.bad = r.bad || i < least
	return n
}

// readUpTo consumes a number of two digits, which must not exceed most.
func (r *textReader) readUpTo(most int64) int64 {
	n := r.readNumber(2, 2)
	r.bad = r.bad || n > most
	return n
}

// isAtEnd reports whether the reader has consumed the whole text without a mismatch.
func (r *textReader) isAtEnd() bool { return !r.bad && len(r.rest) == 0 }

// daysOf has the number of days of each month in a leap year.
var daysOf = [...]int64{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// readDate consumes year, month and day. Its result of is a function that returns the day for an era (BC or not),
// because the text has the era at its end. days counts from 2000-01-01.
func (r *textReader) readDate() (of func(beforeChrist bool) (days int64, ok bool)) {
	year := r.readNumber(4, 7)
	r.expect('-')
	month := r.readNumber(2, 2)
	r.expect('-')
	d := r.readNumber(2, 2)
	r.bad = r.bad || year < 1 || month < 1 || month > 12 || d < 1
	return func(beforeChrist bool) (int64, bool) {
		if r.bad || d > daysOf[month-1] {
			return 0, false
		}
		y := year
		if beforeChrist {
			y = 1 - year
		}
		if leap := y%4 == 0 && (y%100 != 0 || y%400 == 0); month == 2 && d == 29 && !leap {
			return 0, false
		}
		// The day before PostgreSQL's first day is accepted here. By its time zone's offset, an instant of the first
		// day may be on the day before.
		days := julianDay(y, month, d) - epoch
		return days, days >= -epoch-1 && days < mostDays
	}
}

// julianDay returns the Julian number of a day, as PostgreSQL's date2j does. 1 BC is the year 0, and earlier years are
// negative.
func julianDay(year, month, d int64) int64 {
	if month > 2 {
		month, year = month+1, year+4800
	} else {
		month, year = month+13, year+4799
	}
	century := year / 100
	return year*365 - 32167 + year/4 - century + century/4 + 7834*month/256 + d
}

// readEra consumes " BC" at the end of a date, and reports whether it is there.
func (r *textReader) readEra() (beforeChrist bool) {
	if r.accept(' ') {
		r.expect('B')
		r.expect('C')
		return true
	}
	return false
}

// readClock consumes a time: hours (two digits, or more up to the number digits), minutes and seconds. rest is the
// minutes and seconds in microseconds.
func (r *textReader) readClock(digits int) (hours, rest int64) {
	hours = r.readNumber(2, digits)
	r.expect(':')
	rest = r.readUpTo(59) * 60 * second
	r.expect(':')
	rest += r.readUpTo(59) * second
	if r.accept('.') {
		before := len(r.rest)
		n := r.readNumber(1, 6)
		for range 6 - (before - len(r.rest)) {
			n *= 10
		}
		rest += n
	}
	return hours, rest
}

// readTimeOfDay consumes a time of day and returns it in microseconds. mayEnd allows 24:00:00.
func (r *textReader) readTimeOfDay(mayEnd bool) int64 {
	hours, rest := r.readClock(2)
	n := hours*3600*second + rest
	r.bad = r.bad || n > day || n == day && !mayEnd
	return n
}

// readZone consumes the offset of a time zone and returns it, in seconds east of Greenwich.
func (r *textReader) readZone() int64 {
	west := r.accept('-')
	if !west {
		r.expect('+')
	}
	n := r.readUpTo(15) * 3600
	if r.accept(':') {
		n += r.readUpTo(59) * 60
		if r.accept(':') {
			n += r.readUpTo(59)
		}
	}
	if west {
		n = -n
	}
	return n
}

// encodeInfinity returns the binary value of an infinite date (32 bits) or timestamp (64 bits). ok is false for other
// texts.
func encodeInfinity(text []byte, bits int) (value []byte, ok bool) {
	var n int64
	switch string(text) {
	case "infinity":
		n = math.MaxInt64 >> (64 - bits)
	case "-infinity":
		n = math.MinInt64 >> (64 - bits)
	default:
		return nil, false
	}
	return binary.BigEndian.AppendUint64(nil, uint64(n))[8-bits/8:], true
}

func encodeDate(text []byte) ([]byte, bool) {
	if value, ok := encodeInfinity(text, 32); ok {
		return value, true
	}
	r := textReader{rest: text}
	of := r.readDate()
	days, ok := of(r.readEra())
	return binary.BigEndian.AppendUint32(nil, uint32(int32(days))), ok && days >= -epoch && r.isAtEnd()
}

func encodeTime(text []byte) ([]byte, bool) {
	r := textReader{rest: text}
	n := r.readTimeOfDay(true)
	return binary.BigEndian.AppendUint64(nil, uint64(n)), r.isAtEnd()
}

// encodeTimeTZ converts a time with time zone to the binary format, whose offset is in seconds west of Greenwich.
func encodeTimeTZ(text []byte) ([]byte, bool) {
	r := textReader{rest: text}
	n := r.readTimeOfDay(true)
	b := binary.BigEndian.AppendUint64(nil, uint64(n))
	b = binary.BigEndian.AppendUint32(b, uint32(int32(-r.readZone())))
	return b, r.isAtEnd()
}

// timestampEncoder returns the function that converts a timestamp to the binary format, with a time zone if zoned.
func timestampEncoder(zoned bool) binaryEncoder {
	return func(text []byte) ([]byte, bool) {
		if value, ok := encodeInfinity(text, 64); ok {
			return value, true
		}
		r := textReader{rest: text}
		of := r.readDate()
		r.expect(' ')
		n := r.readTimeOfDay(false)
		if zoned {
			n -= r.readZone() * second
		}
		days, ok := of(r.readEra())
		if !ok || !r.isAtEnd() || days > endInstant/day+1 {
			return nil, false
		}
		n += days * day
		return binary.BigEndian.AppendUint64(nil, uint64(n)), n >= firstInstant && n < endInstant
	}
}

// units are the units that precede the time in an interval, in their order. A unit with 0 months counts days.
var units = [...]struct {
	name   string
	months int64
}{{"year", 12}, {"mon", 1}, {"day", 0}}

// encodeInterval converts an interval to the binary format: microseconds, days and months. Each number in the text has
// a sign of its own.
func encodeInterval(text []byte) ([]byte, bool) {
	var months, days, micros int64
	next := 0
	words := bytes.Split(text, []byte(" "))
	for len(words) > 1 {
		n, err := strconv.ParseInt(string(words[0]), 10, 32)
		name := string(bytes.TrimSuffix(words[1], []byte("s")))
		for next < len(units) && units[next].name != name {
			next++
		}
		if err != nil || next == len(units) {
			return nil, false
		}
		if months += units[next].months * n; units[next].months == 0 {
			days = n
		}
		next++
		words = words[2:]
	}
	if len(words) == 1 {
		var ok bool
		if micros, ok = parseIntervalTime(words[0]); !ok {
			return nil, false
		}
	}
	if int64(int32(months)) != months {
		return nil, false
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(micros))
	b = binary.BigEndian.AppendUint32(b, uint32(int32(days)))
	return binary.BigEndian.AppendUint32(b, uint32(int32(months))), true
}

// mostHours and restMicros are the longest time of an interval: its hours, and the microseconds above the hours. The
// longest negative time is a microsecond longer.
const (
	mostHours  = math.MaxInt64 / (3600 * second)
	restMicros = math.MaxInt64 % (3600 * second)
)

// parseIntervalTime parses the signed hours, minutes and seconds of an interval's text. micros is their duration.
func parseIntervalTime(text []byte) (micros int64, ok bool) {
	r := textReader{rest: text}
	negative := r.accept('-')
	if !negative {
		r.accept('+')
	}
	hours, rest := r.readClock(10)
	switch {
	case !r.isAtEnd() || hours > mostHours:
		return 0, false
	case hours < mostHours || rest <= restMicros:
		micros = hours*3600*second + rest
	case negative && rest == restMicros+1:
		return math.MinInt64, true
	default:
		return 0, false
	}
	if negative {
		micros = -micros
	}
	return micros, true
}
