package retry

import (
	"bytes"
	"encoding/binary"
)

// headerLen is the length of a protocol frame's type and length fields.
const headerLen = 5

// ErrorField returns the field with a code from the payload of an ErrorResponse or NoticeResponse, or nil. In a
// truncated payload, ErrorField finds complete fields only.
func ErrorField(payload []byte, code byte) []byte {
	for len(payload) > 1 && payload[0] != 0 {
		i := bytes.IndexByte(payload[1:], 0)
		if i < 0 {
			return nil
		}
		if payload[0] == code {
			return payload[1 : 1+i]
		}
		payload = payload[i+2:]
	}
	return nil
}

// AppendErrorWithHint appends the server's ErrorResponse to dst, with detail and hint added. The server's own fields
// remain, and the added text follows the server's DETAIL or HINT in the same field. A malformed frame is appended
// unchanged.
func AppendErrorWithHint(dst, frame []byte, detail, hint string) []byte {
	start := len(dst)
	if len(frame) < headerLen {
		return append(dst, frame...)
	}
	dst = append(dst, frame[:headerLen]...)
	for rest := frame[headerLen:]; ; {
		if len(rest) == 1 && rest[0] == 0 {
			break
		}
		end := bytes.IndexByte(rest, 0)
		if end < 1 {
			return append(dst[:start], frame...)
		}
		dst = append(dst, rest[:end]...)
		switch {
		case rest[0] == 'D' && detail != "":
			dst, detail = append(append(dst, ' '), detail...), ""
		case rest[0] == 'H' && hint != "":
			dst, hint = append(append(dst, ' '), hint...), ""
		}
		dst = append(dst, 0)
		rest = rest[end+1:]
	}
	if detail != "" {
		dst = append(append(append(dst, 'D'), detail...), 0)
	}
	if hint != "" {
		dst = append(append(append(dst, 'H'), hint...), 0)
	}
	dst = append(dst, 0)
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-1))
	return dst
}
