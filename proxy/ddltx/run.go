package ddltx

import (
	"cmp"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// This file commits a part of a block and begins the next part, in the necessary order.

// A CommandRunner runs commands in nested turns and sends the client warnings. An error of its methods ends the
// session.
type CommandRunner interface {
	// RunSilently runs a command of Sluice itself, which does not belong to the client's block. The client gets only
	// notices.
	RunSilently(sql string, want silent.ExpectedAnswer) (feature.NestedResult, error)
	// Warn sends the client a WARNING. early means that it is about an early commit, which is counted.
	Warn(warning *wire.Error, early bool) error
}

// A Runner is what a Tx sees of the session whose block it commits in parts.
type Runner interface {
	CommandRunner
	// OpenPart returns the session's state in the part of the block that is not committed yet.
	OpenPart() OpenPart
	// PureReads reports whether no statement that looks like a read has changed anything.
	PureReads() bool
	// ReadsClock reports whether the open part may have read the transaction's time, for example by now(). The open
	// part is the statements since the block's last early commit.
	ReadsClock() bool
	// Commit sends the COMMIT of the open (uncommitted) part. asksTime means that Commit first asks the server for the
	// part's transaction time (SetAskedTime).
	Commit(asksTime bool) (feature.NestedResult, error)
	// CommitSkipped reports whether the server has skipped the COMMIT, so that the part is still open.
	CommitSkipped() bool
	// Begin sends the BEGIN of the next part. optedOut means that the client wants no replay of the block. t is the
	// block's transaction time, or nil. If the backend of a session with a pin is gone, Begin does nothing.
	Begin(optedOut bool, t *txtime.Time) (feature.NestedResult, error)
}

// OpenPart is a session's state in the part of a block that is not committed yet.
type OpenPart struct {
	// Savepoints are the names of the part's savepoints, oldest first. Empty are the last savepoints among them, after
	// which no statement ran.
	Savepoints, Empty []string
	// Options are the client's options, or nil.
	Options *rewrite.ClientOptions
	// OptedOut means that the client wants no replay of its block.
	OptedOut bool
	// SeenTime is the transaction time that the client has already seen in the block, or nil. AskedTime is the part's
	// transaction time, if the server has returned it already.
	SeenTime  *txtime.Time
	AskedTime txtime.Value
}

// Commit commits what a block has run since its last early commit, and begins the block again. An error is for the
// client, whose block has then failed, or the error ends the session.
func (x *Tx) Commit(r Runner) error {
	lists, part := x.changing(r.PureReads()), r.OpenPart()
	left, err := x.commitPart(r, &part)
	if err == nil {
		err = x.begin(r, left.Err)
	}
	if err == nil && left.Err == nil {
		if err = x.restoreSavepoints(r, part.Empty); err == nil {
			err = r.Warn(committedWarning(&lists), true)
		}
	}
	return cmp.Or(err, left.Cause())
}

// RunOutside commits the open part of a block, calls run to run the statement st outside the block, and begins the
// block again. sql is the text of st. If the statement itself contains a DROP (a DROP COLUMN in ALTER TABLE, say), that
// DROP would be committed early too. failed means that the statement has failed, and the client has its error. The
// caller then makes the block fail. The error is for the client, or ends the session.
func (x *Tx) RunOutside(r Runner, st *rewrite.Statement, sql string, run func() (feature.NestedResult, error)) (failed bool, err error) {
	if err := x.checkOutside(st, sql, r.PureReads()); err != nil {
		return false, err
	}
	lists, part := x.changing(r.PureReads()), r.OpenPart()
	left, err := x.commitPart(r, &part)
	if err != nil {
		return false, err
	}
	stopped := left.Cause()
	if left.Err == nil && !lists.IsEmpty() {
		if err := r.Warn(committedWarning(&lists), true); err != nil {
			return false, err
		}
	}
	var ran feature.NestedResult
	var own listing.Statements
	if stopped == nil {
		if ran, err = run(); err != nil {
			return false, err
		}
		if own.Add(sql); !ran.Failed {
			x.committed.AppendAll(own)
		}
	}
	if err := x.begin(r, left.Err); err != nil {
		return false, err
	}
	switch {
	case stopped != nil:
		return false, stopped
	case ran.Failed:
		return true, nil
	}
	return false, r.Warn(committedWarning(&own), true)
}

// commitPart commits what a block has run since its last early commit. If the result has an error, that part is not
// committed, or the outcome is unknown (08007). After commitPart the next part is open, and empty.
func (x *Tx) commitPart(r Runner, part *OpenPart) (feature.NestedResult, error) {
	x.commits++
	x.keepSavepoints(part.Savepoints)
	x.options.Keep(part.Options)
	asks := !x.prepareTime(part.SeenTime, part.AskedTime) && r.ReadsClock()
	left, err := r.Commit(asks)
	if asks {
		x.fixTime()
	}
	if err == nil && r.CommitSkipped() {
		_, err = r.RunSilently("ROLLBACK", silent.ExpectRollback) // if it fails, so does begin
	}
	if err == nil && left.Err == nil {
		x.committed.AppendAll(x.changing(r.PureReads()))
	}
	x.openDemand, x.openStatements, x.optedOut = rewrite.TxDemand{}, listing.Statements{}, part.OptedOut
	return left, err
}

// begin begins a block again after commitPart, even if that COMMIT failed, since the client's error then fails the new
// block. uncommitted is the error of that COMMIT, or nil. The session ends if BEGIN fails, since the client expects a
// block.
func (x *Tx) begin(r Runner, uncommitted *wire.Error) error {
	begun, err := r.Begin(x.optedOut, x.timed)
	if err == nil && begun.Err != nil {
		err = x.errNotBegun(begun.Err, uncommitted)
	}
	return err
}

// restoreSavepoints sets savepoints again at the beginning of a part of a block. It removes them from the savepoints
// of committed parts. If a savepoint cannot be set, Sluice later refuses ROLLBACK TO that savepoint.
func (x *Tx) restoreSavepoints(r Runner, names []string) error {
	for _, name := range names {
		set, err := r.RunSilently("SAVEPOINT "+parse.QuoteIdent(name), silent.ExpectInBlock("SAVEPOINT"))
		if err != nil {
			return err
		}
		if set.Err != nil {
			return nil
		}
		x.savepointRestored(name)
	}
	return nil
}
