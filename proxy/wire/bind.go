package wire

import (
	"bytes"
	"encoding/binary"
)

// SplitBind splits the part of a Bind after its two names into parameters and result formats. The formats have two
// bytes each, and are nil if all are text. ok is false if the part is malformed. values and formats share the memory of
// rest.
func SplitBind(rest []byte) (values, formats []byte, ok bool) {
	at := 0
	count := func() int {
		if len(rest) < at+2 {
			ok = false
			return 0
		}
		at += 2
		return int(binary.BigEndian.Uint16(rest[at-2:]))
	}
	ok = true
	at += 2 * count()
	for n := count(); n > 0 && ok; n-- {
		if ok = len(rest) >= at+4; ok {
			at += 4 + max(int(int32(binary.BigEndian.Uint32(rest[at:]))), 0)
		}
	}
	if !ok || len(rest) < at {
		return nil, nil, false
	}
	values = rest[:at]
	if n := count(); !ok || len(rest) != at+2*n {
		return nil, nil, false
	}
	if bytes.Count(rest[at:], []byte{0}) == len(rest)-at {
		return values, nil, true
	}
	return values, rest[at:], true
}
