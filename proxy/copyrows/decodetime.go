package copyrows

import (
	"math"
	"strconv"
)

// These are bounds of PostgreSQL's dates and times. Days count from 2000-01-01, and times are in microseconds.
const (
	microsPerSecond = 1_000_000
	microsPerDay    = 86_400 * microsPerSecond
	firstDay        = -2451545                  // 4714-11-24 BC
	lastDay         = 2145031948                // 5874897-12-31
	firstMicro      = -211_813_488_000_000_000  // of a timestamp
	endMicro        = 9_223_371_331_200_000_000 // after the last
	mostZone        = 16*3600 - 1               // seconds
	epochJulian     = 2451545
)

func errOutOfRange(what string) *Error { return &Error{Code: "22008", Message: what + " out of range"} }

func appendDate(dst, v []byte) ([]byte, *Error) {
	switch days := int64(int32At(v)); {
	case days == math.MaxInt32:
		return append(dst, "infinity"...), nil
	case days == math.MinInt32:
		return append(dst, "-infinity"...), nil
	case days < firstDay || days > lastDay:
		return nil, errOutOfRange("date")
	default:
		dst, bc := appendDay(dst, days)
		return append(dst, bc...), nil
	}
}

// appendDay appends a calendar day as text. bc is "" or " BC", which the caller appends after the whole value.
func appendDay(dst []byte, days int64) (_ []byte, bc string) {
	// This is the arithmetic of Fliegel and Van Flandern, which computes the date from the day's Julian number. The
	// number is shifted so that all terms are positive.
	j := days + epochJulian + 32044
	g := j / 146097
	dg := j % 146097
	c := (dg/36524 + 1) * 3 / 4
	dc := dg - c*36524
	b := dc / 1461
	db := dc % 1461
	a := (db/365 + 1) * 3 / 4
	da := db - a*365
	y := g*400 + c*100 + b*4 + a
	m := (da*5+308)/153 - 2
	day := da - (m+4)*153/5 + 122
	year, month := y-4800+(m+2)/12, (m+2)%12+1
	if year <= 0 {
		year, bc = 1-year, " BC"
	}
	dst = appendPadded(dst, year, 4)
	dst = appendPadded(append(dst, '-'), month, 2)
	return appendPadded(append(dst, '-'), day+1, 2), bc
}

// appendPadded appends a number. It puts zeros before the number, so that at least width characters are appended.
func appendPadded(dst []byte, n int64, width int) []byte {
	s := strconv.FormatInt(n, 10)
	for i := len(s); i < width; i++ {
		dst = append(dst, '0')
	}
	return append(dst, s...)
}

// appendClock appends a time of day as hours, minutes and seconds, none of which is negative.
func appendClock(dst []byte, micros int64) []byte {
	seconds := micros / microsPerSecond
	dst = appendPadded(dst, seconds/3600, 2)
	dst = appendPadded(append(dst, ':'), seconds/60%60, 2)
	dst = appendPadded(append(dst, ':'), seconds%60, 2)
	return appendPadded(append(dst, '.'), micros%microsPerSecond, 6)
}

func appendTime(dst, v []byte) ([]byte, *Error) {
	micros := int64At(v)
	if micros < 0 || micros > microsPerDay {
		return nil, errOutOfRange("time")
	}
	return appendClock(dst, micros), nil
}

func appendTimeTZ(dst, v []byte) ([]byte, *Error) {
	zone := int64(int32At(v[8:])) // seconds west of Greenwich
	dst, err := appendTime(dst, v[:8])
	switch {
	case err != nil:
		return nil, err
	case zone < -mostZone || zone > mostZone:
		return nil, &Error{Code: "22009", Message: "time zone displacement out of range"}
	}
	sign := byte('-')
	if zone <= 0 {
		sign, zone = '+', -zone
	}
	dst = appendPadded(append(dst, sign), zone/3600, 2)
	dst = appendPadded(append(dst, ':'), zone/60%60, 2)
	return appendPadded(append(dst, ':'), zone%60, 2), nil
}

// appendTimestamp appends a binary timestamp as text. zone is the text after the time.
func appendTimestamp(dst, v []byte, zone string) ([]byte, *Error) {
	micros := int64At(v)
	switch {
	case micros == math.MaxInt64:
		return append(dst, "infinity"...), nil
	case micros == math.MinInt64:
		return append(dst, "-infinity"...), nil
	case micros < firstMicro || micros >= endMicro:
		return nil, errOutOfRange("timestamp")
	}
	days, rest := micros/microsPerDay, micros%microsPerDay
	if rest < 0 {
		days, rest = days-1, rest+microsPerDay
	}
	dst, bc := appendDay(dst, days)
	dst = appendClock(append(dst, ' '), rest)
	dst = append(dst, zone...)
	return append(dst, bc...), nil
}

// appendInterval appends a binary interval as text. Each field has a sign, so that the text means the same under every
// IntervalStyle.
func appendInterval(dst, v []byte) ([]byte, *Error) {
	micros, days, months := int64At(v), int64(int32At(v[8:])), int64(int32At(v[12:]))
	signed := func(n int64) []byte {
		if n >= 0 {
			dst = append(dst, '+')
		}
		return strconv.AppendInt(dst, n, 10)
	}
	dst = append(signed(months), " mons "...)
	dst = append(signed(days), " days "...)
	switch {
	case micros == math.MinInt64: // no server reads this value as a clock
		return append(dst, "-2562047788 hours -54.775808 secs"...), nil
	case micros < 0:
		return appendClock(append(dst, '-'), -micros), nil
	}
	return appendClock(append(dst, '+'), micros), nil
}
