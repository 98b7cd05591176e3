package dsqlsim

import (
	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// maxNamed bounds the prepared statements, and the portals, that are kept track of.
// Beyond it they work, but rules that look at their execution do not see them.
const maxNamed = 10_000

// prepared is a prepared statement of the client's.
type prepared struct {
	text *dialect.Text
	// plan is that of its one statement, nil when it has no locking clause.
	plan *occ.Plan
	// types are the parameter types of its Parse, as they stand in the frame.
	types []byte
}

// statement is the one that it consists of, nil when it has another number.
func (p *prepared) statement() *dialect.Statement {
	if p == nil || len(p.text.Statements) != 1 {
		return nil
	}
	return &p.text.Statements[0]
}

// portal is a bound statement. started is true from its first Execute on.
type portal struct {
	of      *prepared
	bind    []byte // body of its Bind
	epoch   int    // that of the names when it was bound
	started bool
	bytes   int // bytes of its Bind
}

// values is the part of a Bind's body behind its names.
func (p *portal) values() []byte {
	_, rest, _ := cString(p.bind)
	_, rest, _ = cString(rest)
	return rest
}

// names are what PostgreSQL knows by name in a session.
type names struct {
	statements map[string]*prepared // the client's
	portals    map[string]*portal   // the client's
	standing   map[string]string    // the texts of our own statements that stay prepared
	// epoch counts how often PostgreSQL has dropped portals that are still here.
	epoch int
}

func newNames() names {
	return names{
		statements: make(map[string]*prepared),
		portals:    make(map[string]*portal),
		standing:   make(map[string]string),
	}
}

// prepare enters a statement, unless there are too many.
func (n *names) prepare(name string, p *prepared) {
	if n.statements[name] != nil || len(n.statements) < maxNamed {
		n.statements[name] = p
	}
}

// bind enters a portal, unless there are too many.
func (n *names) bind(name string, p *portal) {
	if len(n.portals) < maxNamed {
		p.epoch = n.epoch
		n.portals[name] = p
	}
}

// find returns a statement (kind S), or a portal and its statement (kind P); nil
// for what nobody knows.
func (n *names) find(kind byte, name string) (*prepared, *portal) {
	if kind == 'S' {
		return n.statements[name], nil
	}
	if p := n.portals[name]; p != nil {
		return p.of, p
	}
	return nil, nil
}

// gone tells whether PostgreSQL has dropped a portal that is still here.
func (n *names) gone(p *portal) bool { return p.epoch != n.epoch }

// undo forgets what a frame has done to the names that PostgreSQL has skipped.
func (n *names) undo(r *pendingReply) {
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
