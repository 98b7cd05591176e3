package dsqlsim

import (
	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// maxNamed bounds the prepared statements, and the portals, that a session remembers. Further ones work, but rules
// about their execution do not see them.
const maxNamed = 10_000

// preparedStatement is a prepared statement of the client.
type preparedStatement struct {
	text *dialect.Text
	// plan says how the statement runs without its locking clauses. It is nil if the statement has none.
	plan *occ.LockPlan
	// types are the parameter types of the client's Parse, encoded as in that frame.
	types []byte
}

// onlyStatement returns the only statement in the text of a Parse, nil when the text has none or several.
func (p *preparedStatement) onlyStatement() *dialect.Statement {
	if p == nil || len(p.text.Statements) != 1 {
		return nil
	}
	return &p.text.Statements[0]
}

// portal is a bound statement. started is true from the portal's first Execute on.
type portal struct {
	of      *preparedStatement
	bind    []byte // body of its Bind
	epoch   int    // that of the names when it was bound
	started bool
	bytes   int // bytes of its Bind
}

// bindValues returns the part of a Bind's body after the two names.
func (p *portal) bindValues() []byte {
	_, rest, _ := cutCString(p.bind)
	_, rest, _ = cutCString(rest)
	return rest
}

// sessionNames holds the prepared statements and portals that PostgreSQL has in a session.
type sessionNames struct {
	statements map[string]*preparedStatement // the client's
	portals    map[string]*portal            // the client's
	standing   map[string]string             // the texts of dsqlsim's own statements that stay prepared
	// epoch counts how often PostgreSQL has dropped portals which the map portals still lists.
	epoch int
}

func newSessionNames() sessionNames {
	return sessionNames{
		statements: make(map[string]*preparedStatement),
		portals:    make(map[string]*portal),
		standing:   make(map[string]string),
	}
}

// addStatement records a prepared statement, unless n already has maxNamed statements.
func (n *sessionNames) addStatement(name string, p *preparedStatement) {
	if n.statements[name] != nil || len(n.statements) < maxNamed {
		n.statements[name] = p
	}
}

// addPortal records a portal, unless n already has maxNamed portals.
func (n *sessionNames) addPortal(name string, p *portal) {
	if len(n.portals) < maxNamed {
		p.epoch = n.epoch
		n.portals[name] = p
	}
}

// findNamed returns a statement (kind S), or a portal and its statement (kind P), and nil for an unknown name.
func (n *sessionNames) findNamed(kind byte, name string) (*preparedStatement, *portal) {
	if kind == 'S' {
		return n.statements[name], nil
	}
	if p := n.portals[name]; p != nil {
		return p.of, p
	}
	return nil, nil
}

// isDropped reports whether PostgreSQL has dropped a portal that the map portals still lists.
func (n *sessionNames) isDropped(p *portal) bool { return p.epoch != n.epoch }

// undoFrame reverts the change that a Parse, Bind or Close made to these names, because PostgreSQL has skipped that
// frame.
func (n *sessionNames) undoFrame(r *pendingReply) {
	switch r.kind {
	case 'P', 'C':
		switch {
		case r.silent:
			delete(n.standing, r.name)
		case r.portal != nil:
			n.portals[r.name] = r.portal
		case r.previous != nil:
			n.statements[r.name] = r.previous
		case r.kind == 'P':
			delete(n.statements, r.name)
		}
	case 'B':
		switch {
		case r.silent:
		case r.portal != nil:
			n.portals[r.name] = r.portal
		default:
			delete(n.portals, r.name)
		}
	case 'E':
		if r.portal != nil {
			r.portal.started = false
		}
	}
}
