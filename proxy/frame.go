package proxy

import (
	"bytes"
	"encoding/binary"
)

// Frame types, client to server.
const (
	msgQuery     = 'Q'
	msgParse     = 'P'
	msgBind      = 'B'
	msgDescribe  = 'D'
	msgExecute   = 'E'
	msgClose     = 'C'
	msgSync      = 'S'
	msgFlush     = 'H'
	msgFunction  = 'F'
	msgCopyData  = 'd'
	msgCopyDone  = 'c'
	msgCopyFail  = 'f'
	msgTerminate = 'X'
)

// Frame types, server to client, where they differ.
const (
	msgParseComplete    = '1'
	msgBindComplete     = '2'
	msgCloseComplete    = '3'
	msgNotification     = 'A'
	msgCommandComplete  = 'C'
	msgDataRow          = 'D'
	msgError            = 'E'
	msgCopyIn           = 'G'
	msgCopyOut          = 'H'
	msgEmptyQuery       = 'I'
	msgBackendKey       = 'K'
	msgNotice           = 'N'
	msgAuthentication   = 'R'
	msgParameterStatus  = 'S'
	msgRowDescription   = 'T'
	msgFunctionResponse = 'V'
	msgCopyBoth         = 'W'
	msgReady            = 'Z'
	msgNoData           = 'n'
	msgPortalSuspended  = 's'
	msgParameterDesc    = 't'
)

const (
	headerLen = 5
	// maxFrame is PostgreSQL's own bound on a message (MaxAllocSize, 1 GiB - 1).
	maxFrame = 1<<30 - 1
	// smallFrame bounds messages that carry names only (PQ_SMALL_MESSAGE_LIMIT
	// of PostgreSQL's libpq.h).
	smallFrame = 10000
)

// clientFrameLimit returns the longest length field that a client's frame of
// this type may have, or 0 for a type that no client sends.
func clientFrameLimit(typ byte) int {
	switch typ {
	case msgQuery, msgParse, msgBind, msgFunction, msgCopyData, msgCopyFail:
		return maxFrame
	case msgDescribe, msgExecute, msgClose, msgSync, msgFlush, msgCopyDone, msgTerminate:
		return smallFrame
	}
	return 0
}

// cstring splits b at its first NUL. ok is false when there is none.
func cstring(b []byte) (s, rest []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return nil, nil, false
	}
	return b[:i], b[i+1:], true
}

// appendHeader starts a frame whose payload has n bytes.
func appendHeader(dst []byte, typ byte, n int) []byte {
	dst = append(dst, typ)
	return binary.BigEndian.AppendUint32(dst, uint32(n+4))
}

// appendStrings appends a frame whose payload is the given NUL-terminated strings.
func appendStrings(dst []byte, typ byte, ss ...string) []byte {
	n := 0
	for _, s := range ss {
		n += len(s) + 1
	}
	dst = appendHeader(dst, typ, n)
	for _, s := range ss {
		dst = append(dst, s...)
		dst = append(dst, 0)
	}
	return dst
}

// appendCommand appends CommandComplete.
func appendCommand(dst []byte, tag string) []byte {
	return appendStrings(dst, msgCommandComplete, tag)
}

// appendReady appends ReadyForQuery.
func appendReady(dst []byte, status byte) []byte {
	return append(dst, msgReady, 0, 0, 0, 5, status)
}

// appendParse appends a Parse of sql under name; oids is the parameter-type
// part of a Parse as it stands on the wire, its count included.
func appendParse(dst []byte, name, sql string, oids []byte) []byte {
	dst = appendHeader(dst, msgParse, len(name)+1+len(sql)+1+len(oids))
	dst = append(dst, name...)
	dst = append(dst, 0)
	dst = append(dst, sql...)
	dst = append(dst, 0)
	return append(dst, oids...)
}

// appendNamed appends a Describe or Close of a statement ('S') or portal ('P').
func appendNamed(dst []byte, typ, what byte, name string) []byte {
	dst = appendHeader(dst, typ, 1+len(name)+1)
	dst = append(dst, what)
	dst = append(dst, name...)
	return append(dst, 0)
}

// Frames without content, in both directions.
var (
	frameParseComplete   = []byte{msgParseComplete, 0, 0, 0, 4}
	frameBindComplete    = []byte{msgBindComplete, 0, 0, 0, 4}
	frameCloseComplete   = []byte{msgCloseComplete, 0, 0, 0, 4}
	framePortalSuspended = []byte{msgPortalSuspended, 0, 0, 0, 4}
	frameNoData          = []byte{msgNoData, 0, 0, 0, 4}
	frameEmptyQuery      = []byte{msgEmptyQuery, 0, 0, 0, 4}
	frameSync            = []byte{msgSync, 0, 0, 0, 4}
	frameFlush           = []byte{msgFlush, 0, 0, 0, 4}
	// frameNoParams is a ParameterDescription of no parameters.
	frameNoParams = []byte{msgParameterDesc, 0, 0, 0, 6, 0, 0}
	noOIDs        = []byte{0, 0}
)
