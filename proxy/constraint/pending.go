package constraint

import (
	"bytes"
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// PendingJob is the job that a CREATE INDEX has started in a transaction. The server runs the job after the commit. The
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
// The zero PendingJob has no job. A session reports answers in their order, and PendingJob holds at most one tag.
type PendingJob struct {
	id     string             // of the job in sys.jobs; "" for none
	absent *rewrite.IndexName // the index of an IF NOT EXISTS without a job, with its tag; otherwise nil
	tag    []byte             // sent to the client when the job is done; nil for none
	ends   bool               // the transaction is committed, and tag is that of its COMMIT
	beside bool               // the transaction has changed something else
	waits  bool               // the request's ReadyForQuery has arrived, and waits
}

// RecordBegun records the answer to a CREATE INDEX that should be awaited. id is the id of the statement's job, or
// "" if the statement started no job. In that case named is the index of its IF NOT EXISTS, or nil. alone says that
// the transaction has no other statement so far. RecordBegun returns the bytes that the client gets now.
func (p *PendingJob) RecordBegun(id string, named *rewrite.IndexName, tag []byte, alone bool) (now []byte) {
	if id == "" {
		switch {
		case named == nil:
			return tag
		case alone && p.id == "":
			p.absent, p.tag = named, bytes.Clone(tag)
			return nil
		}
		return slices.Concat(UncheckedIndexWarning(named), tag)
	}
	if p.id != "" { // only one job is followed
		now, p.beside = UnawaitedJobWarning(), true
	}
	if p.id = id; alone && now == nil {
		p.tag = bytes.Clone(tag)
		return nil
	}
	return append(now, tag...)
}

// RecordStatement records the end of a statement that started no job.
func (p *PendingJob) RecordStatement(kind rewrite.StatementKind) {
	p.beside = p.beside || kind >= rewrite.Write
}

// Clear records an error in the transaction, so that nothing of the transaction will be committed.
func (p *PendingJob) Clear() { *p = PendingJob{} }

// RecordTxEnd records that a statement has ended the transaction.
func (p *PendingJob) RecordTxEnd(committed bool) {
	if !committed || p.id == "" {
		*p = PendingJob{}
		return
	}
	p.ends = true
}

// IsCommitted reports whether the transaction is committed while the client has not been sent the tag of its COMMIT.
func (p *PendingJob) IsCommitted() bool { return p.ends }

// HoldTag records the tag of a statement, after RecordTxEnd. If holds is true, the client gets the tag later, from
// ReleaseTag or TakeJob. Otherwise the client gets the bytes in now, and after them the tag. again says that the
// session is in a block, in which the server cannot be asked about the job.
func (p *PendingJob) HoldTag(tag []byte, again bool) (holds bool, now []byte) {
	switch {
	case !p.ends || p.tag != nil:
		return false, nil
	case again || p.beside:
		*p = PendingJob{}
		return false, UnawaitedJobWarning()
	}
	p.tag = bytes.Clone(tag)
	return true, nil
}

// ReleaseTag records that another answer follows in the request, or that the client asks for the answers so far
// (Flush). ReleaseTag returns the bytes that the client gets before that answer.
func (p *PendingJob) ReleaseTag() (now []byte) {
	tag := p.tag
	switch p.tag = nil; {
	case tag == nil:
		return nil
	case p.absent != nil:
		now = UncheckedIndexWarning(p.absent)
		*p = PendingJob{}
	case p.ends:
		now = UnawaitedJobWarning()
		*p = PendingJob{}
	}
	return append(now, tag...)
}

// IsOpen reports whether a job is awaited, or a statement's tag is held back from the client. If so, the session
// must report each answer.
func (p *PendingJob) IsOpen() bool { return p.id != "" || p.tag != nil }

// HasHeldTag reports whether the tag of a statement is held back from the client.
func (p *PendingJob) HasHeldTag() bool { return p.tag != nil }

// RecordReady records the status of a request's ReadyForQuery. After it, IsWaiting reports whether the ReadyForQuery
// waits for the job. RecordReady returns the bytes that the client gets before a ReadyForQuery that does not wait.
func (p *PendingJob) RecordReady(status byte) (now []byte) {
	switch {
	case !p.IsOpen():
	case status == 'T':
		return p.ReleaseTag()
	case status != 'I':
		p.Clear()
	case p.beside && p.tag == nil: // after a separate tag an error would concern the CREATE INDEX only
		*p = PendingJob{}
		return UnawaitedJobWarning()
	default:
		p.waits = true
	}
	return nil
}

// IsWaiting reports whether the ReadyForQuery of the request must wait for the job's end.
func (p *PendingJob) IsWaiting() bool { return p.waits }

// TakeJob returns the pending job, with the tag that the client gets if the index is valid. Nothing is pending
// afterwards.
func (p *PendingJob) TakeJob() PendingJob {
	taken := *p
	*p = PendingJob{}
	return taken
}

// FollowJob returns an IndexJob that follows a job from TakeJob.
func (p *PendingJob) FollowJob(server Server) *IndexJob { return NewIndexJob(server, p.id, p.absent) }

// HeldTag returns the tag that the client gets if the index is valid, or nil if the client has all tags.
func (p *PendingJob) HeldTag() []byte { return p.tag }
