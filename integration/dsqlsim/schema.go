package dsqlsim

import (
	"sync/atomic"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// schemaVersion counts the schema changes of all sessions, and how many of these one session has seen.
type schemaVersion struct {
	changes  *atomic.Uint64 // of all sessions
	known    uint64         // the number of changes that this session knows
	changing bool           // the session is changing the schema
}

// isStale reports whether another session has changed the schema since this session last looked.
func (c *schemaVersion) isStale() bool { return c.known != c.changes.Load() }

func (c *schemaVersion) updateKnown() { c.known = c.changes.Load() }

// announceChange records a change of the schema by this session, so that isStale returns true for all other sessions.
func (c *schemaVersion) announceChange() { c.known = c.changes.Add(1) }

// schemaConflictFor returns the conflict of a statement that needs the catalog, if the session has missed a change of
// the schema. The conflict is recorded of idle sessions, and of all statements up to the first of a block. Each change
// causes one conflict in a session.
func (s *session) schemaConflictFor(st *dialect.Statement, status byte) *failure {
	if !s.schema.isStale() || status == statusFailed || status == statusInBlock && s.block.hasSnapshot {
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
	s.schema.updateKnown()
	return schemaConflict
}
