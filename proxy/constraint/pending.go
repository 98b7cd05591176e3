package constraint

import (
	"bytes"
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Pending is the job that a CREATE INDEX has started in a transaction whose end the client was not
// sent yet. The server runs the job after the commit. So the client gets the commit's tag after the
// job's end, or an error instead:
//
//	outside of a block   the tag of the CREATE INDEX, if nothing follows it
//	in a block           the tag of its COMMIT, if nothing follows that
//	otherwise            the ReadyForQuery of the request, after all tags
//
// A job is not awaited, with a WARNING, if a COMMIT does not end the request, or if the transaction
// has changed something else, which an error would call undone. The zero value has no job. A
// session reports answers in their order; Pending holds at most one tag.
type Pending struct {
	id     string             // of the job in sys.jobs; "" for none
	absent *rewrite.IndexName // the index of an IF NOT EXISTS without a job, with its tag; otherwise nil
	tag    []byte             // sent to the client when the job is done; nil for none
	ends   bool               // the transaction is committed, and tag is that of its COMMIT
	beside bool               // the transaction has changed something else
	waits  bool               // the request's ReadyForQuery has arrived, and waits
}

// Begun records the answer to a CREATE INDEX that should be awaited. id is that of its job, "" for
// none; named is then the index of its IF NOT EXISTS, or nil. alone says that the statement is a
// whole transaction so far. It returns what the client is sent now.
func (p *Pending) Begun(id string, named *rewrite.IndexName, tag []byte, alone bool) (now []byte) {
	if id == "" {
		switch {
		case named == nil:
			return tag
		case alone && p.id == "":
			p.absent, p.tag = named, bytes.Clone(tag)
			return nil
		}
		return slices.Concat(NotLookedAt(named), tag)
	}
	if p.id != "" { // only one job is followed
		now, p.beside = Unawaited(), true
	}
	if p.id = id; alone && now == nil {
		p.tag = bytes.Clone(tag)
		return nil
	}
	return append(now, tag...)
}

// Ran records any other finished statement.
func (p *Pending) Ran(kind rewrite.Kind) { p.beside = p.beside || kind >= rewrite.Write }

// Failed records an error in the transaction, of which nothing will be committed.
func (p *Pending) Failed() { *p = Pending{} }

// Ended records a statement that has ended the transaction.
func (p *Pending) Ended(committed bool) {
	if !committed || p.id == "" {
		*p = Pending{}
		return
	}
	p.ends = true
}

// Ends reports whether the transaction is committed and the client was not sent that yet.
func (p *Pending) Ends() bool { return p.ends }

// Holds records the tag of each statement after Ended. holds says that the client gets the tag from
// Follows or Take. now is sent before a tag that the client gets at once. again says that the
// session is in a block, in which the server cannot be asked.
func (p *Pending) Holds(tag []byte, again bool) (holds bool, now []byte) {
	switch {
	case !p.ends || p.tag != nil:
		return false, nil
	case again || p.beside:
		*p = Pending{}
		return false, Unawaited()
	}
	p.tag = bytes.Clone(tag)
	return true, nil
}

// Follows records that another answer follows in the request, or that the client requests what
// there is. It returns what the client is sent before.
func (p *Pending) Follows() (now []byte) {
	tag := p.tag
	switch p.tag = nil; {
	case tag == nil:
		return nil
	case p.absent != nil:
		now = NotLookedAt(p.absent)
		*p = Pending{}
	case p.ends:
		now = Unawaited()
		*p = Pending{}
	}
	return append(now, tag...)
}

// Open reports whether a job is pending, so that answers must be checked.
func (p *Pending) Open() bool { return p.id != "" || p.tag != nil }

// Held reports whether a tag is held back.
func (p *Pending) Held() bool { return p.tag != nil }

// Ready records the status of a request's ReadyForQuery, which waits for the job if that should be
// awaited (Waits). It returns what the client is sent before one that does not wait.
func (p *Pending) Ready(status byte) (now []byte) {
	switch {
	case !p.Open():
	case status == 'T':
		return p.Follows()
	case status != 'I':
		p.Failed()
	case p.beside && p.tag == nil: // after a separate tag an error would concern the CREATE INDEX only
		*p = Pending{}
		return Unawaited()
	default:
		p.waits = true
	}
	return nil
}

// Waits reports whether the ReadyForQuery of the request waits for the job.
func (p *Pending) Waits() bool { return p.waits }

// Take returns the pending job, and the tag that the client gets for a valid index: nil if it has
// all tags. Nothing is pending afterwards.
func (p *Pending) Take() Pending {
	taken := *p
	*p = Pending{}
	return taken
}

// Job returns the follower of a job from Take.
func (p *Pending) Job(server Server) *IndexJob { return NewIndexJob(server, p.id, p.absent) }

// Tag returns the tag for a valid index, nil if the client has all tags.
func (p *Pending) Tag() []byte { return p.tag }
