package stored

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
)

// Dates, times and intervals in the binary format, from their texts. How a text is written is a
// setting of the session that has read it: taken is that of DateStyle ISO, whose order of year,
// month and day no other has, and of IntervalStyle postgres, in which each number has its unit. Of
// any other there is no binary form. A time with a time zone has its offset in the text, so that
// TimeZone says nothing about its value.

// The bounds of PostgreSQL's types, in days and microseconds from 2000-01-01 on.
const (
	second = 1_000_000
	day    = 86_400 * second
	// epoch is that day by the Julian count, which begins with the first date that there is.
	epoch        = 2451545
	mostDays     = 2145031949                 // a date of 5874898-01-01 is one too many
	firstInstant = int64(-epoch) * day        // 4714-11-24 BC
	endInstant   = int64(9223371331200000000) // 294277-01-01
)

// reader reads a text from its beginning. bad: it was not what was wanted.
type reader struct {
	rest []byte
	bad  bool
}

// takes reads a byte, if it is the next.
func (r *reader) takes(c byte) bool {
	if len(r.rest) == 0 || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// wants reads a byte that must be the next.
func (r *reader) wants(c byte) { r.bad = !r.takes(c) || r.bad }

// number reads at least so many digits, and at most so many.
func (r *reader) number(least, most int) (n int64) {
	i := 0
	for ; i < len(r.rest) && i < most && r.rest[i] >= '0' && r.rest[i] <= '9'; i++ {
		n = 10*n + int64(r.rest[i]-'0')
	}
	r.rest = r.rest[i:]
	r.bad = r.bad || i < least
	return n
}

// upTo reads two digits of a number that has a greatest.
func (r *reader) upTo(most int64) int64 {
	n := r.number(2, 2)
	r.bad = r.bad || n > most
	return n
}

// ended reports whether all was read, and was what was wanted.
func (r *reader) ended() bool { return !r.bad && len(r.rest) == 0 }

// daysOf are those of each month of a leap year.
var daysOf = [...]int64{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// date reads year, month and day; the era is read behind all else, where of is made. Years are those
// that are written: 1 BC is the year in front of 1.
func (r *reader) date() (of func(beforeChrist bool) (days int64, ok bool)) {
	year := r.number(4, 7)
	r.wants('-')
	month := r.number(2, 2)
	r.wants('-')
	d := r.number(2, 2)
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
		// An instant of the first day may be the day before, by its offset.
		days := julian(y, month, d) - epoch
		return days, days >= -epoch-1 && days < mostDays
	}
}

// julian counts days as PostgreSQL's date2j does; years in front of 1 are 0 and below.
func julian(year, month, d int64) int64 {
	if month > 2 {
		month, year = month+1, year+4800
	} else {
		month, year = month+13, year+4799
	}
	century := year / 100
	return year*365 - 32167 + year/4 - century + century/4 + 7834*month/256 + d
}

// era reads the end of a date.
func (r *reader) era() (beforeChrist bool) {
	if r.takes(' ') {
		r.wants('B')
		r.wants('C')
		return true
	}
	return false
}

// clock reads hours, of at least two digits and at most so many, minutes and seconds: microseconds.
func (r *reader) clock(digits int) (hours, rest int64) {
	hours = r.number(2, digits)
	r.wants(':')
	rest = r.upTo(59) * 60 * second
	r.wants(':')
	rest += r.upTo(59) * second
	if r.takes('.') {
		before := len(r.rest)
		n := r.number(1, 6)
		for range 6 - (before - len(r.rest)) {
			n *= 10
		}
		rest += n
	}
	return hours, rest
}

// ofDay reads a time of the day; mayEnd: 24:00:00 is one.
func (r *reader) ofDay(mayEnd bool) int64 {
	hours, rest := r.clock(2)
	n := hours*3600*second + rest
	r.bad = r.bad || n > day || n == day && !mayEnd
	return n
}

// zone reads an offset, in seconds east of Greenwich.
func (r *reader) zone() int64 {
	west := r.takes('-')
	if !west {
		r.wants('+')
	}
	n := r.upTo(15) * 3600
	if r.takes(':') {
		n += r.upTo(59) * 60
		if r.takes(':') {
			n += r.upTo(59)
		}
	}
	if west {
		n = -n
	}
	return n
}

// infinite is the value that stands for one of the infinities in the binary format, of so many bits.
func infinite(text []byte, bits int) (value []byte, ok bool) {
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

func binaryDate(text []byte) ([]byte, bool) {
	if value, ok := infinite(text, 32); ok {
		return value, true
	}
	r := reader{rest: text}
	of := r.date()
	days, ok := of(r.era())
	return binary.BigEndian.AppendUint32(nil, uint32(int32(days))), ok && days >= -epoch && r.ended()
}

func binaryTime(text []byte) ([]byte, bool) {
	r := reader{rest: text}
	n := r.ofDay(true)
	return binary.BigEndian.AppendUint64(nil, uint64(n)), r.ended()
}

// binaryTimeTZ has the offset in seconds west of Greenwich.
func binaryTimeTZ(text []byte) ([]byte, bool) {
	r := reader{rest: text}
	n := r.ofDay(true)
	b := binary.BigEndian.AppendUint64(nil, uint64(n))
	b = binary.BigEndian.AppendUint32(b, uint32(int32(-r.zone())))
	return b, r.ended()
}

// binaryTimestamp is of a timestamp; zoned: with a time zone.
func binaryTimestamp(zoned bool) binaryOf {
	return func(text []byte) ([]byte, bool) {
		if value, ok := infinite(text, 64); ok {
			return value, true
		}
		r := reader{rest: text}
		of := r.date()
		r.wants(' ')
		n := r.ofDay(false)
		if zoned {
			n -= r.zone() * second
		}
		days, ok := of(r.era())
		if !ok || !r.ended() || days > endInstant/day+1 {
			return nil, false
		}
		n += days * day
		return binary.BigEndian.AppendUint64(nil, uint64(n)), n >= firstInstant && n < endInstant
	}
}

// units are those of an interval in front of its time, in the order in which they come, in months
// or days.
var units = [...]struct {
	name   string
	months int64
}{{"year", 12}, {"mon", 1}, {"day", 0}}

// binaryInterval is microseconds, days and months. Each number has a sign of its own.
func binaryInterval(text []byte) ([]byte, bool) {
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
		if micros, ok = span(words[0]); !ok {
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

// mostHours are those of the longest time that an interval may have, and restMicros what it has
// beside them; the one that is as long, and negative, is a microsecond longer.
const (
	mostHours  = math.MaxInt64 / (3600 * second)
	restMicros = math.MaxInt64 % (3600 * second)
)

// span reads the time of an interval, with its sign.
func span(text []byte) (micros int64, ok bool) {
	r := reader{rest: text}
	negative := r.takes('-')
	if !negative {
		r.takes('+')
	}
	hours, rest := r.clock(10)
	switch {
	case !r.ended() || hours > mostHours:
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
