package dsqlsim

import (
	"sync/atomic"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// schema is what a session knows of the changes of the schema.
type schema struct {
	changes  *atomic.Uint64 // of all sessions
	known    uint64         // the last of them that this session knows
	changing bool           // the session is making one
}

// stale tells whether another session has changed the schema since this one
// looked.
func (c *schema) stale() bool { return c.known != c.changes.Load() }

func (c *schema) update() { c.known = c.changes.Load() }

// announce makes every other session's knowledge outdated.
func (c *schema) announce() { c.known = c.changes.Add(1) }

// schemaConflictFor is the conflict of a statement that needs the catalog, in a
// session that does not know its last change: recorded of idle sessions, and of
// every statement up to the first of a block. It happens once.
func (s *session) schemaConflictFor(st *dialect.Statement, status byte) *failure {
	if !s.schema.stale() || status == statusFailed || status == statusInBlock && s.block.hasSnapshot {
		return nil
	}
	switch st.Kind {
	case dialect.Begin, dialect.Commit, dialect.Rollback:
		return nil
	}
	switch st.Verb {
	case "SET", "RESET", "SHOW":
		return nil
	}
	s.schema.update()
	return schemaConflict
}
