package ddltx

import (
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/options"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Tx is the state of a client's block that Sluice may commit in several transactions (parts) for its DDL. Outside of a
// block a Tx has the policy only. A nil *Tx belongs to a session whose transactions are not committed in parts. Methods
// that accept a nil *Tx say so.
type Tx struct {
	// policy is the client's value of ddl.in_transactions, and never RefuseDDL. It is constant in a block.
	policy rewrite.DDLInTransactions
	// options has the client's options (ddl.in_transactions and the like) since an early commit of a part.
	options options.BlockOptions
	// openDemand describes what the uncommitted part contains, and openStatements lists its statements. committed lists
	// the statements of the committed parts.
	openDemand     rewrite.TxDemand
	openStatements listing.Statements
	committed      listing.Statements
	// savepoints are the savepoints of committed parts, newest last. No rollback to these savepoints is possible.
	savepoints []string
	// optedOut means that the client wants no replay of its block.
	optedOut bool
	// timed is the transaction time of the first part that read the clock, or nil. Statements of later parts return the
	// same time (time.go). asked is the time of the part that is being committed.
	timed   *txtime.Time
	asked   txtime.Value
	commits int // see CommitCount
}

// New returns the state for blocks that are committed in parts by the policy, or nil if the policy refuses DDL in
// blocks.
func New(policy rewrite.DDLInTransactions) *Tx {
	if policy == rewrite.RefuseDDL {
		return nil
	}
	return &Tx{policy: policy}
}

// IsOn reports whether transactions may be committed in parts, because of their DDL.
func (x *Tx) IsOn() bool { return x != nil }

// Policy returns whether transactions with DDL are committed in parts. x may be nil.
func (x *Tx) Policy() rewrite.DDLInTransactions {
	if x == nil {
		return rewrite.RefuseDDL
	}
	return x.policy
}

// CommitCount returns how many parts of the block Sluice has committed early, or may have committed. x may be nil.
func (x *Tx) CommitCount() (n int) {
	if x != nil {
		n = x.commits
	}
	return n
}

// Reset clears the state of a block, but not the policy. No block may be open.
func (x *Tx) Reset() { *x = Tx{policy: x.policy} }

// EndBlock forgets the committed parts at the end of the client's block. The COMMIT between two parts does not end the
// client's block. x may be nil.
func (x *Tx) EndBlock() {
	if x != nil {
		x.options, x.committed, x.savepoints, x.timed = options.BlockOptions{}, listing.Statements{}, nil, nil
	}
}

// HasCommittedPart reports whether a part of the client's transaction is committed already. x may be nil.
func (x *Tx) HasCommittedPart() bool {
	return x != nil && (x.options.Values() != nil || !x.committed.IsEmpty() || len(x.savepoints) > 0)
}

// Committed returns the list of the statements in committed parts of the client's transaction. The list is valid until
// the next call of a method. x may be nil, and the list is then empty.
func (x *Tx) Committed() *listing.Statements {
	if x == nil {
		return &listing.Statements{}
	}
	return &x.committed
}

// Options returns the client's options for the rest of a block of which a part is committed. The options belong to the
// Tx, and a SET in the block changes them. x may be nil, and the result is then nil.
func (x *Tx) Options() *options.BlockOptions {
	if x == nil {
		return nil
	}
	return &x.options
}

// Mark is a copy of the state of a block's uncommitted part, made at a savepoint.
type Mark struct {
	options        options.BlockOptions
	openDemand     rewrite.TxDemand
	openStatements listing.Statements
}

// Mark copies the state of the uncommitted part, for a later ROLLBACK TO SAVEPOINT. x may be nil, and the result is
// then nil.
func (x *Tx) Mark() *Mark {
	if x == nil {
		return nil
	}
	return &Mark{x.options, x.openDemand, x.openStatements.Snapshot()}
}

// Restore restores the state of the uncommitted part at a savepoint. x and m may be nil.
func (x *Tx) Restore(m *Mark) {
	if x != nil && m != nil {
		x.options, x.openDemand, x.openStatements = m.options, m.openDemand, m.openStatements.Snapshot()
	}
}
