// Package answer classifies the frames of the server by the request that they answer. The package also describes how
// Sluice treats the server's errors. The package holds no state.
package answer

import (
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// Meaning says how a frame of the server continues or ends the answer to the oldest request without an answer.
type Meaning uint8

const (
	Unexpected   Meaning = iota // no request awaits the frame: the backend and Sluice disagree
	Continues                   // more frames follow for the same request
	Ends                        // the request is answered
	Prepares                    // a Parse succeeded, which ends the request
	Binds                       // a Bind succeeded, which ends the request; the columns are as described before
	Parameters                  // the first frame of an answer to Describe, with the parameters
	Describes                   // the second frame of an answer to Describe, which ends the request
	Completes                   // an Execute is complete, which ends the request
	CompletesOne                // one statement of a simple Query is complete, and more may follow
	Copies                      // the server waits for COPY data
	Settles                     // ReadyForQuery, which ends the turn
)

// meanings maps the type of a request and the type of a frame to a Meaning. Rows and asynchronous frames have no entry,
// because they are handled elsewhere.
var meanings = func() (table [128][128]Meaning) {
	for asked, frames := range map[byte]map[byte]Meaning{
		wire.Parse:    {wire.ParseComplete: Prepares},
		wire.Bind:     {wire.BindComplete: Binds},
		wire.Close:    {wire.CloseComplete: Ends},
		wire.Describe: {wire.ParameterDescription: Parameters, wire.RowDescription: Describes, wire.NoData: Describes},
		wire.Execute: {wire.CommandComplete: Completes, wire.EmptyQueryResponse: Completes, wire.PortalSuspended: Completes,
			wire.CopyInResponse: Copies, wire.CopyBothResponse: Copies, wire.CopyOutResponse: Continues, wire.CopyDone: Continues},
		wire.Query: {wire.CommandComplete: CompletesOne, wire.EmptyQueryResponse: CompletesOne, wire.RowDescription: Continues,
			wire.CopyInResponse: Copies, wire.CopyBothResponse: Copies, wire.CopyOutResponse: Continues, wire.CopyDone: Continues,
			wire.ReadyForQuery: Settles},
		wire.FunctionCall: {wire.FunctionCallResponse: Continues, wire.ReadyForQuery: Settles},
		wire.Sync:         {wire.ReadyForQuery: Settles},
	} {
		for typ, a := range frames {
			table[asked][typ] = a
		}
	}
	return table
}()

// MeaningOf returns the meaning of a server's frame that answers a request. request and frame are frame types, below
// 128.
func MeaningOf(request, frame byte) Meaning { return meanings[request][frame] }

// Frame is a frame of the server with its Meaning.
type Frame struct {
	Type  byte
	Means Meaning
	Bytes []byte // incomplete if Total, the frame's length, exceeds a buffer
	Total int
}

// EndsStatement reports whether the frame ends the answer to a statement.
func (f *Frame) EndsStatement() bool { return f.Means == Completes || f.Means == CompletesOne }

// IsCut reports whether Bytes has only the beginning of the frame.
func (f *Frame) IsCut() bool { return f.Total > len(f.Bytes) }

// IsRow reports whether the frame is a row of a result.
func (f *Frame) IsRow() bool { return f.Type == wire.DataRow }

// CommandTag returns the tag of a CommandComplete, or "" for any other frame.
func (f *Frame) CommandTag() string {
	if f.Type != wire.CommandComplete {
		return ""
	}
	return string(f.Bytes[wire.HeaderLen : len(f.Bytes)-1])
}

// TagVerb returns the first word of the frame's command tag, or "" without a tag.
func (f *Frame) TagVerb() string {
	verb, _, _ := strings.Cut(f.CommandTag(), " ")
	return verb
}

// ErrorHandling says how Sluice treats an error of the server.
type ErrorHandling struct {
	// Instead is the frame that the client gets instead of the error, or nil if the client gets the error itself.
	Instead []byte
	// Forced means that the error answers a statement of Sluice that always fails, so that it says nothing about the
	// data.
	Forced bool
	// Final means that Sluice does not replay the transaction after this error.
	Final bool
	// Front has frames that the client gets before the error.
	Front []byte
	// Hint is a HINT that Sluice adds to an error without one, or "".
	Hint string
}
