package constraint

import (
	"bytes"
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Pending is the job that a CREATE INDEX has begun in a transaction whose end the client was not sent yet.
// The server starts the job when the transaction is committed. So the client gets the tag of the commit
// behind the job's end, or an error in its place:
//
//	outside of a block   the tag of the CREATE INDEX, where nothing follows it
//	in a block           the tag of its COMMIT, where nothing follows that
//	with more behind     the ReadyForQuery of the request, behind all tags
//
// A job that is not awaited costs a WARNING: where more follows a COMMIT, or where the transaction has
// changed something else, which an error would call undone. The zero value is no job. A session tells
// it of answers in their order; it keeps no more than one tag.
type Pending struct {
	id     string             // of the job, as sys.jobs has it; "" for none
	absent *rewrite.IndexName // of an IF NOT EXISTS that has begun none, with its tag; else nil
	tag    []byte             // for the client when the job is done; nil for none
	ends   bool               // the transaction is committed, and tag is that of its COMMIT
	beside bool               // the transaction has changed something else
	waits  bool               // the request's ReadyForQuery has come, and waits
}

// Begun takes the answer to a CREATE INDEX that is to be awaited: id is that of its job, "" where it has
// begun none, and named then is the index of its IF NOT EXISTS, or nil. alone says that the statement is
// a transaction, as far as it has come. It returns what the client is sent now.
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
	if p.id != "" { // nobody follows two
		now, p.beside = Unawaited(), true
	}
	if p.id = id; alone && now == nil {
		p.tag = bytes.Clone(tag)
		return nil
	}
	return append(now, tag...)
}

// Ran is told of any other statement that has run.
func (p *Pending) Ran(kind rewrite.Kind) { p.beside = p.beside || kind >= rewrite.Write }

// Failed is told of an error in the transaction, behind which nothing of it will be committed.
func (p *Pending) Failed() { *p = Pending{} }

// Ended is told of a statement that has ended the transaction.
func (p *Pending) Ended(committed bool) {
	if !committed || p.id == "" {
		*p = Pending{}
		return
	}
	p.ends = true
}

// Ends reports whether the transaction is committed, and the client was not sent that yet.
func (p *Pending) Ends() bool { return p.ends }

// Holds is told of the tag of each statement behind Ended. It reports whether the client gets that tag
// from Follows or Take, and returns what goes in front of one that the client gets now. again says that
// the session is in a block, in which nobody can be asked.
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

// Follows is told that another answer follows in the request, or that the client wants what there is. It
// returns what the client is sent in front.
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

// Open reports whether answers must be looked at, since a job is pending.
func (p *Pending) Open() bool { return p.id != "" || p.tag != nil }

// Held reports whether the client waits for a tag.
func (p *Pending) Held() bool { return p.tag != nil }

// Ready is told of the status of a request's ReadyForQuery, which waits for the job from now on, if it is to be
// awaited (Waits). It returns what the client is sent in front of one that does not wait.
func (p *Pending) Ready(status byte) (now []byte) {
	switch {
	case !p.Open():
	case status == 'T':
		return p.Follows()
	case status != 'I':
		p.Failed()
	case p.beside && p.tag == nil: // behind a tag of its own an error is of the CREATE INDEX only
		*p = Pending{}
		return Unawaited()
	default:
		p.waits = true
	}
	return nil
}

// Waits reports whether the ReadyForQuery of the request waits for the job.
func (p *Pending) Waits() bool { return p.waits }

// Take returns what is awaited, and the tag that the client gets for an index that is valid in the end: nil where it
// has all tags. Nothing is pending then.
func (p *Pending) Take() Pending {
	taken := *p
	*p = Pending{}
	return taken
}

// Job returns the follower of what Take has returned.
func (p *Pending) Job(server Server) *IndexJob { return NewIndexJob(server, p.id, p.absent) }

// Tag returns the tag that the client is sent where the index is valid; nil where it has all tags.
func (p *Pending) Tag() []byte { return p.tag }
