package options

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// BlockOptions are a client's options in a block that is committed in parts, after the first early commit. A commit
// ends SET LOCAL, so the next part needs this copy of the options. The zero BlockOptions mean that no part is
// committed. Later calls do not change a copy of a BlockOptions, so a savepoint can store one.
type BlockOptions struct {
	values *rewrite.ClientOptions // replaced, never changed
}

// Keep records, before an early commit, the client's options in the parameter now, which is nil for none.
func (b *BlockOptions) Keep(now *rewrite.ClientOptions) { b.values = now }

// Values returns the options of the block, or nil if there are none. The pointer changes with the values. b may be nil.
func (b *BlockOptions) Values() *rewrite.ClientOptions {
	if b == nil {
		return nil
	}
	return b.values
}

// RecordResetAll records a RESET ALL or DISCARD ALL in the block. startup are the options of the client's startup, or
// nil for none.
func (b *BlockOptions) RecordResetAll(startup *rewrite.ClientOptions) {
	switch {
	case b.values == nil:
	case startup != nil:
		b.values = startup
	default:
		b.values = &rewrite.ClientOptions{}
	}
}

// set changes one option of the block, if the block has options. b may be nil.
func (b *BlockOptions) set(key, value string) {
	if b != nil && b.values != nil {
		now := b.values.WithOption(key, value)
		b.values = &now
	}
}

// Ran says whether a block has run any statement but BEGIN and SETs of Sluice's own settings.
type Ran bool

// Record records the plan of a query that is about to be sent. After COMMIT or ROLLBACK the next block has run nothing.
// Record is called for each query, since two branches cost less than a lookup of whether clients may set options.
func (r *Ran) Record(plan *rewrite.Plan) {
	if len(plan.Statements) == 0 {
		*r = true
	}
	for i := range plan.Statements {
		switch st := &plan.Statements[i]; {
		case st.Tx.Verb.EndsBlock():
			*r = false
		case st.Tx.Verb != rewrite.Begin && (len(st.Changes) != 1 || !settings.IsProxySetting(st.Changes[0].Name)):
			*r = true
		}
	}
}
