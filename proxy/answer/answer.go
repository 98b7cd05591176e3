// Package answer says what a frame of the server means for the request that it answers, and what becomes of
// the server's errors. It holds no state.
package answer

import (
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// Meaning is what a frame means for the request at the head of the queue.
type Meaning uint8

const (
	Unexpected   Meaning = iota // nobody asked for such a frame: the backend is out of step
	Continues                   // more follows for the same request
	Ends                        // the request is answered
	Prepares                    // as Ends: the server has taken a text
	Binds                       // as Ends: the columns are those that were described
	Parameters                  // the first half of a description
	Describes                   // as Ends: the other half
	Completes                   // as Ends: a statement has run
	CompletesOne                // a statement of a simple Query has run, and more may follow
	Copies                      // the server waits for COPY data
	Settles                     // ReadyForQuery: the turn is over
)

// meanings has the meaning by the type of the request and that of the server's frame. Rows and what comes
// unasked do not get here.
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

// To returns what a frame means that answers a request of that type. Both types are below 128.
func To(request, frame byte) Meaning { return meanings[request][frame] }

// Frame is a frame of the server, with its meaning.
type Frame struct {
	Type  byte
	Means Meaning
	Bytes []byte // cut short where Total, its whole length, exceeds a buffer
	Total int
}

// Ends reports whether the frame ends a statement.
func (f *Frame) Ends() bool { return f.Means == Completes || f.Means == CompletesOne }

// Cut reports whether the frame has not come whole.
func (f *Frame) Cut() bool { return f.Total > len(f.Bytes) }

// Row reports whether the frame is a row of a result.
func (f *Frame) Row() bool { return f.Type == wire.DataRow }

// Tag returns the tag of a CommandComplete; "" for any other frame.
func (f *Frame) Tag() string {
	if f.Type != wire.CommandComplete {
		return ""
	}
	return string(f.Bytes[wire.HeaderLen : len(f.Bytes)-1])
}

// Verb returns the first word of that tag.
func (f *Frame) Verb() string {
	verb, _, _ := strings.Cut(f.Tag(), " ")
	return verb
}

// Error is what becomes of an error of the server.
type Error struct {
	// Instead is what the client gets in its place; nil: the error.
	Instead []byte
	// Forced: the server was sent what fails, so the error says nothing of what the server holds.
	Forced bool
	// Final: the transaction is not run again for it.
	Final bool
	// Front goes to the client in front of the error.
	Front []byte
	// Hint is given with the error, where the text has none; "" for none.
	Hint string
}
