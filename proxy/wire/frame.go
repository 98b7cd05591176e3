// Package wire has the parts of the PostgreSQL protocol that the client's side and the server's side share: types and
// encoding of frames, buffers for reading and collecting frames, and Sluice's own errors. The package does not know
// sessions.
//
//	frame.go   types and bounds of frames; the Append functions write them
//	reader.go  Reader, which reads frames from a connection
//	message.go BodyReader, which reads the body of a frame as PostgreSQL does
//	params.go  BindParams, the part of a Bind after the names
//	bind.go    SplitBind, which finds the result formats of a Bind
//	rows.go    parts of DataRows
//	batch.go   Batch, which collects bytes for one write
//	buffer.go  the pool of buffers
//	error.go   Error
package wire

import (
	"bytes"
	"encoding/binary"
)

// These are the types of frames from client to server, with the protocol's names.
const (
	Query        = 'Q'
	Parse        = 'P'
	Bind         = 'B'
	Describe     = 'D'
	Execute      = 'E'
	Close        = 'C'
	Sync         = 'S'
	Flush        = 'H'
	FunctionCall = 'F'
	CopyData     = 'd'
	CopyDone     = 'c'
	CopyFail     = 'f'
	Terminate    = 'X'
)

// These are the types of frames from server to client, except the types that exist in both directions.
const (
	ParseComplete        = '1'
	BindComplete         = '2'
	CloseComplete        = '3'
	NotificationResponse = 'A'
	CommandComplete      = 'C'
	DataRow              = 'D'
	ErrorResponse        = 'E'
	CopyInResponse       = 'G'
	CopyOutResponse      = 'H'
	EmptyQueryResponse   = 'I'
	BackendKeyData       = 'K'
	NoticeResponse       = 'N'
	Authentication       = 'R'
	ParameterStatus      = 'S'
	RowDescription       = 'T'
	FunctionCallResponse = 'V'
	CopyBothResponse     = 'W'
	ReadyForQuery        = 'Z'
	NoData               = 'n'
	PortalSuspended      = 's'
	ParameterDescription = 't'
)

const (
	// HeaderLen is the length in bytes of a frame's type and length fields.
	HeaderLen = 5
	// maxFrame is PostgreSQL's bound on the length of a message (MaxAllocSize, 1 GiB - 1).
	maxFrame = 1<<30 - 1
	// smallFrame bounds the length of messages that carry names only (PQ_SMALL_MESSAGE_LIMIT of PostgreSQL's libpq.h).
	smallFrame = 10000
)

// ClientFrameLimit returns the largest length field that a client's frame of a type may have. ClientFrameLimit returns
// 0 for a type that no client sends.
func ClientFrameLimit(typ byte) int {
	switch typ {
	case Query, Parse, Bind, FunctionCall, CopyData, CopyFail:
		return maxFrame
	case Describe, Execute, Close, Sync, Flush, CopyDone, Terminate:
		return smallFrame
	}
	return 0
}

// HasMinimumPayload reports whether a backend's frame has at least the payload that its type requires. whole says that
// b is the whole frame, otherwise b is its beginning. Rows are not checked.
func HasMinimumPayload(b []byte, whole bool) bool {
	n := len(b) - HeaderLen
	switch b[0] {
	case ParseComplete, BindComplete, CloseComplete, CopyDone, EmptyQueryResponse, NoData, PortalSuspended:
		return n == 0
	case ReadyForQuery:
		return n == 1
	case CommandComplete, ErrorResponse, NoticeResponse:
		return n >= 1 && (!whole || b[len(b)-1] == 0)
	case ParameterStatus:
		return n >= 2 && (!whole || b[len(b)-1] == 0)
	case RowDescription, ParameterDescription, DataRow:
		return n >= 2
	case CopyInResponse, CopyOutResponse, CopyBothResponse:
		return n >= 3
	case FunctionCallResponse:
		return n >= 4
	case NotificationResponse:
		return n >= 6
	}
	return true
}

// CutCString splits b at its first NUL. ok is false when b has no NUL.
func CutCString(b []byte) (s, rest []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return nil, nil, false
	}
	return b[:i], b[i+1:], true
}

// AppendHeader appends the header of a frame whose payload has n bytes.
func AppendHeader(dst []byte, typ byte, n int) []byte {
	dst = append(dst, typ)
	return binary.BigEndian.AppendUint32(dst, uint32(n+4))
}

// AppendStrings appends a frame whose payload is the given strings, each with a NUL.
func AppendStrings(dst []byte, typ byte, ss ...string) []byte {
	n := 0
	for _, s := range ss {
		n += len(s) + 1
	}
	dst = AppendHeader(dst, typ, n)
	for _, s := range ss {
		dst = append(dst, s...)
		dst = append(dst, 0)
	}
	return dst
}

// AppendCommandComplete appends a CommandComplete with a tag.
func AppendCommandComplete(dst []byte, tag string) []byte {
	return AppendStrings(dst, CommandComplete, tag)
}

// AppendReadyForQuery appends a ReadyForQuery with a transaction status.
func AppendReadyForQuery(dst []byte, status byte) []byte {
	return append(dst, ReadyForQuery, 0, 0, 0, 5, status)
}

// AppendParse appends a Parse of sql for the statement name. oids are the parameter types in wire format, with their
// count.
func AppendParse(dst []byte, name, sql string, oids []byte) []byte {
	dst = AppendParseHead(dst, name, len(sql), len(oids))
	dst = append(dst, sql...)
	dst = append(dst, 0)
	return append(dst, oids...)
}

// AppendParseHead appends a Parse up to its text. sql and oids are the lengths of the text and of the parameter types,
// which the caller appends.
func AppendParseHead(dst []byte, name string, sql, oids int) []byte {
	dst = AppendHeader(dst, Parse, len(name)+1+sql+1+oids)
	dst = append(dst, name...)
	return append(dst, 0)
}

// AppendBindHead appends a Bind up to and including its two names. n is the length of the rest, which the caller
// appends or forwards.
func AppendBindHead(dst, portal []byte, statement string, n int) []byte {
	dst = AppendHeader(dst, Bind, len(portal)+1+len(statement)+1+n)
	dst = append(append(dst, portal...), 0)
	dst = append(dst, statement...)
	return append(dst, 0)
}

// AppendDescribeOrClose appends a Describe or Close of a statement ('S') or portal ('P').
func AppendDescribeOrClose(dst []byte, typ, what byte, name string) []byte {
	dst = AppendHeader(dst, typ, 1+len(name)+1)
	dst = append(dst, what)
	dst = append(dst, name...)
	return append(dst, 0)
}

// These are frames without content, of both directions.
var (
	FrameParseComplete   = []byte{ParseComplete, 0, 0, 0, 4}
	FrameBindComplete    = []byte{BindComplete, 0, 0, 0, 4}
	FrameCloseComplete   = []byte{CloseComplete, 0, 0, 0, 4}
	FramePortalSuspended = []byte{PortalSuspended, 0, 0, 0, 4}
	FrameNoData          = []byte{NoData, 0, 0, 0, 4}
	FrameEmptyQuery      = []byte{EmptyQueryResponse, 0, 0, 0, 4}
	FrameSync            = []byte{Sync, 0, 0, 0, 4}
	FrameFlush           = []byte{Flush, 0, 0, 0, 4}
	// FrameExecuteAll is an Execute of the unnamed portal without a row limit.
	FrameExecuteAll = []byte{Execute, 0, 0, 0, 9, 0, 0, 0, 0, 0}
	// FrameNoParams is a ParameterDescription of no parameters.
	FrameNoParams = []byte{ParameterDescription, 0, 0, 0, 6, 0, 0}
	NoOIDs        = []byte{0, 0}
)
