package constraint

import (
	"bytes"
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Pending is the job that a CREATE INDEX has started in a transaction. The server runs the job after the commit. The
// client must not know of the commit before the job's end. So the client gets one of these answers after the job's end,
// or an error instead:
//
//	outside of a block   the tag of the CREATE INDEX, if nothing follows it
//	in a block           the tag of its COMMIT, if nothing follows that
//	otherwise            the ReadyForQuery of the request, after all tags
//
// In two cases the job is not awaited, and the client gets a WARNING. Either a COMMIT does not end the request, or the
// transaction has changed something else, which an error would call undone.
//
// The zero Pending has no job. A session reports answers in their order, and Pending holds at most one tag.
type Pending struct {
	id     string             // of the job in sys.jobs; "" for none
	absent *rewrite.IndexName // the index of an IF NOT EXISTS without a job, with its tag; otherwise nil
	tag    []byte             // sent to the client when the job is done; nil for none
	ends   bool               // the transaction is committed, and tag is that of its COMMIT
	beside bool               // the transaction has changed something else
	waits  bool               // the request's ReadyForQuery has arrived, and waits
}

// Begun records the answer to a CREATE INDEX that should be awaited. id is that of its job, or "" if it started none.
// named is then the index of its IF NOT EXISTS, or nil. alone says that the transaction has no other statement so far.
// Begun returns the bytes that the client gets now.
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

// Ran records that a statement has finished that started no job.
func (p *Pending) Ran(kind rewrite.Kind) { p.beside = p.beside || kind >= rewrite.Write }

// Failed records an error in the transaction, so that nothing of the transaction will be committed.
func (p *Pending) Failed() { *p = Pending{} }

// Ended records that a statement has ended the transaction.
func (p *Pending) Ended(committed bool) {
	if !committed || p.id == "" {
		*p = Pending{}
		return
	}
	p.ends = true
}

// Ends reports whether the transaction is committed while the client has not been sent the tag of its COMMIT.
func (p *Pending) Ends() bool { return p.ends }

// Holds records the tag of each statement after Ended. If holds is true, the client gets the tag later, from Follows or
// Take. Otherwise the client gets now and then the tag. again says that the session is in a block, in which the server
// cannot be asked about the job.
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

// Follows records that another answer follows in the request, or that the client asks for the answers so far (Flush).
// It returns the bytes that the client gets before.
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

// Open reports whether a job or a tag is pending, so that answers must be checked.
func (p *Pending) Open() bool { return p.id != "" || p.tag != nil }

// Held reports whether the tag of a statement is held back from the client.
func (p *Pending) Held() bool { return p.tag != nil }

// Ready records the status of a request's ReadyForQuery. Waits then reports whether the ReadyForQuery waits for the
// job. Ready returns the bytes that the client gets before a ReadyForQuery that does not wait.
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

// Waits reports whether the ReadyForQuery of the request must wait for the job's end.
func (p *Pending) Waits() bool { return p.waits }

// Take returns the pending job, with the tag that the client gets if the index is valid. Nothing is pending afterwards.
func (p *Pending) Take() Pending {
	taken := *p
	*p = Pending{}
	return taken
}

// Job returns an IndexJob that follows a job from Take.
func (p *Pending) Job(server Server) *IndexJob { return NewIndexJob(server, p.id, p.absent) }

// Tag returns the tag that the client gets if the index is valid, or nil if the client has all tags.
func (p *Pending) Tag() []byte { return p.tag }
