package settings

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Client holds the settings of one client: the values that move with the client from backend to
// backend, the local values that only Sluice has, and the state before its transaction. One
// goroutine owns it.
type Client struct {
	shared *Interned
	treat  Treatments
	// InForce are the client's current carried values. RESET returns to Startup.
	InForce, Startup *Values
	// Staged are the changes by the current transaction at the server.
	Staged Staged
	// Reported are the parameters that the client was sent. They are current for the values
	// ReportedFor while no backend is lent; nil means for none.
	Reported    *Reports
	ReportedFor *Values

	local localValues
	// before is the state at the transaction's first local change; nil for none. changes are the
	// local changes to repeat when it commits.
	before  *Snapshot
	changes []localChange
	marks   []localMark // the server's savepoints in the transaction
	// renamed: reported settings may have changed since the client was sent known.
	renamed bool
	known   values
}

// Bytes returns the approximate memory of the settings, with all that the end of the transaction,
// or a return to a savepoint, may restore.
func (c *Client) Bytes() int {
	n := c.InForce.Bytes() + int(c.local.bytes) + c.Staged.Bytes()
	if c.Startup != c.InForce {
		n += c.Startup.Bytes()
	}
	if b := c.before; b != nil {
		if n += int(b.local.bytes); b.inForce != c.InForce && b.inForce != c.Startup {
			n += b.inForce.Bytes()
		}
	}
	for i := range c.changes {
		n += settingCost + len(c.changes[i].value)
	}
	if last := len(c.marks) - 1; last >= 0 {
		n += c.marks[last].bytes
	}
	return n
}

// Needs returns approximately how many more bytes a change needs, while it is staged and
// afterwards. In a block the old value stays until the block ends.
func (c *Client) Needs(change *rewrite.Change, inBlock bool) int {
	n := 2 * ChangeBytes(change)
	replaced := len(c.InForce.SQL[change.Name]) + len(c.InForce.Shown[change.Name])
	if change.Name == "search_path" { // with the names of its schemas
		n, replaced = 2*n, 3*replaced
	}
	if inBlock {
		return n
	}
	return n - replaced
}

// Most bounds the settings of a client. Each SET copies all of them, and so does a backend that
// gets them.
const Most = 1000

// Takes reports whether the client has at most Most settings after the statements.
func (c *Client) Takes(statements []rewrite.Statement) bool {
	more := 0
	for i := range statements {
		more += len(statements[i].Changes)
	}
	if len(c.InForce.SQL)+len(c.Staged.Changes)+more <= Most {
		return true
	}
	added := map[string]bool{}
	add := func(changes []rewrite.Change) {
		for i := range changes {
			if _, has := c.InForce.SQL[changes[i].Name]; !has && changes[i].Action == rewrite.Set {
				added[changes[i].Name] = true
			}
		}
	}
	add(c.Staged.Changes)
	before := len(added)
	for i := range statements {
		add(statements[i].Changes)
	}
	return len(added) == before || len(c.InForce.SQL)+len(added) <= Most
}

// NewClient returns the settings of a client that has set nothing.
func NewClient(treat Treatments, shared *Interned) Client {
	return Client{shared: shared, treat: treat, InForce: shared.None(), Startup: shared.None()}
}

// Start sets the values of a client's startup. It returns an error for an invalid local value.
func (c *Client) Start(of *Values) error {
	c.Startup = c.shared.Share(of)
	c.InForce = c.Startup
	var err error
	c.local, err = c.Startup.atStart()
	return err
}

// Stage records a change by a statement at the server.
func (c *Client) Stage(change rewrite.Change) { c.Staged.Stage(c.merged(change)) }

// merged returns a change with its resulting value: a server merges a SET of DateStyle with the
// current value.
func (c *Client) merged(change rewrite.Change) rewrite.Change {
	if change.Name != "datestyle" || change.SQL == "" {
		return change
	}
	reset := ReadDateStyle(DateStyle{}, c.Startup.SQL[change.Name], DateStyle{})
	was := ReadDateStyle(DateStyle{}, c.InForce.SQL[change.Name], DateStyle{})
	if last := c.Staged.Last(change.Name); last != nil {
		if was = reset; last.SQL != "" {
			was = ReadDateStyle(DateStyle{}, last.SQL, DateStyle{})
		}
	}
	now := ReadDateStyle(was, change.SQL, reset)
	change.SQL, change.Text = now.SQL(), now.String()
	return change
}

// Commit applies the staged changes of the server's transaction, and returns them. unseen says that
// a function may have made others.
func (c *Client) Commit() (done []rewrite.Change, unseen bool) {
	done = c.Staged.Commit()
	n := len(done)
	done = slices.DeleteFunc(done, func(o rewrite.Change) bool { return o.Name == Unseen.Name })
	c.Adopt(done)
	if c.before != nil { // later local changes belong to the next transaction
		c.before.inForce = c.InForce
	}
	return done, len(done) < n
}

// Adopt applies committed changes.
func (c *Client) Adopt(changes []rewrite.Change) {
	if len(changes) > 0 {
		c.InForce = c.shared.Share(c.InForce.With(changes, c.Startup))
	}
}

// Rollback ends a failed transaction and drops all its changes.
func (c *Client) Rollback() {
	c.Staged.Rollback()
	c.EndKept(true)
}

// Mark performs a SAVEPOINT of the server.
func (c *Client) Mark(name string) {
	c.Staged.Mark(name)
	m := localMark{name: name}
	if n := len(c.marks); n > 0 && c.before == nil {
		m.stood = c.marks[n-1].stood // no change since
	} else {
		m.stood = c.Snapshot()
	}
	m.bytes = 2*settingCost + len(m.stood.changes)*settingCost
	if n := len(c.marks); n == 0 || c.marks[n-1].stood != m.stood {
		m.bytes += int(m.stood.local.bytes)
	}
	if n := len(c.marks); n > 0 {
		if last := &c.marks[n-1]; last.stood.inForce != m.stood.inForce {
			m.bytes += m.stood.inForce.Bytes()
		}
		m.bytes += c.marks[n-1].bytes
	}
	c.marks = append(c.marks, m)
}

// Release performs a RELEASE SAVEPOINT of the server.
func (c *Client) Release(name string) {
	c.Staged.Release(name)
	if i := c.find(name); i >= 0 {
		c.marks = slices.Clip(c.marks[:i])
	}
}

// Return performs a ROLLBACK TO SAVEPOINT of the server.
func (c *Client) Return(name string) {
	c.Staged.Return(name)
	if i := c.find(name); i >= 0 {
		c.marks = slices.Clip(c.marks[:i+1])
		c.Restore(c.marks[i].stood)
	}
}

// find returns the index of the newest savepoint of a name, or -1.
func (c *Client) find(name string) int {
	for i, m := range slices.Backward(c.marks) {
		if m.name == name {
			return i
		}
	}
	return -1
}

// Progress is the effect of the server's statements of a transaction so far, without local ones.
type Progress struct {
	staged Staged
	marks  []localMark
}

// Progress returns a copy that later statements do not change.
func (c *Client) Progress() Progress { return Progress{c.Staged.Snapshot(), slices.Clip(c.marks)} }

// Resume returns to an earlier progress of the transaction, because the statements since then are
// sent again.
func (c *Client) Resume(p Progress) {
	c.Staged, c.marks = p.staged.Snapshot(), slices.Clip(p.marks)
}

// Undone returns the values that a client has again after its block has failed, because a local
// RESET is undone. It returns nil if InForce stays.
func (c *Client) Undone() *Values {
	if c.before == nil || c.before.inForce == c.InForce || len(c.marks) > 0 {
		return nil
	}
	return c.before.inForce
}

// Marked reports whether the server has a savepoint of the transaction.
func (c *Client) Marked() bool { return len(c.marks) > 0 }

// Unsettled reports whether the end of the transaction may change anything.
func (c *Client) Unsettled() bool { return len(c.Staged.Changes) > 0 || c.before != nil }
