package settings

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Client is what one client has SET: the values that go with the client from backend to
// backend, those that Sluice keeps for it, and what the end of its transaction may still
// take back. One goroutine owns it.
type Client struct {
	shared *Interned
	treat  Treatments
	// InForce are the carried values in force for the client, and Startup those that RESET
	// returns to.
	InForce, Startup *Values
	// Staged are the changes that the server's transaction has made.
	Staged Staged
	// Reported are the parameters as the client knows them. ReportedFor are the values for
	// which that is the truth while no backend is lent; nil for none.
	Reported    *Reports
	ReportedFor *Values

	kept kept
	// before is how things stood at the first change of the transaction that was answered
	// here; nil for none. changes are those to be made again when it commits.
	before  *Snapshot
	changes []keptChange
	marks   []keptMark // the server's savepoints in the transaction
	// renamed: reported settings may have changed since the client knew them as known.
	renamed bool
	known   values
}

// Bytes is about what the settings take in memory, with all that the end of the transaction, or a return
// to one of its savepoints, may bring back.
func (c *Client) Bytes() int {
	n := c.InForce.Bytes() + int(c.kept.bytes) + c.Staged.Bytes()
	if c.Startup != c.InForce {
		n += c.Startup.Bytes()
	}
	if b := c.before; b != nil {
		if n += int(b.kept.bytes); b.inForce != c.InForce && b.inForce != c.Startup {
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

// Needs is about how many bytes more the client takes with a change: while it is staged, and when it is in
// force. In a block the value before it stays until the block ends.
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

// Most is how many settings a client may have. Each SET copies all of them, and so does a backend that gets
// them.
const Most = 1000

// Takes reports whether the client has at most Most settings when the statements have run.
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

// Start takes over what a client's startup gave. The error is that of a value that
// Sluice cannot keep.
func (c *Client) Start(of *Values) error {
	c.Startup = c.shared.Share(of)
	c.InForce = c.Startup
	var err error
	c.kept, err = c.Startup.atStart()
	return err
}

// Stage is told of a change that a server's statement has made.
func (c *Client) Stage(change rewrite.Change) { c.Staged.Stage(c.merged(change)) }

// merged is a change with the value that it leaves: a server adds what a SET of
// DateStyle says to what is in force.
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

// Commit makes what the server's transaction has staged the client's own, and returns
// those changes; unseen: a function may have made others.
func (c *Client) Commit() (done []rewrite.Change, unseen bool) {
	done = c.Staged.Commit()
	n := len(done)
	done = slices.DeleteFunc(done, func(o rewrite.Change) bool { return o.Name == Unseen.Name })
	c.Adopt(done)
	if c.before != nil { // what is answered here from now on is of the next transaction
		c.before.inForce = c.InForce
	}
	return done, len(done) < n
}

// Adopt makes committed changes the client's own.
func (c *Client) Adopt(changes []rewrite.Change) {
	if len(changes) > 0 {
		c.InForce = c.shared.Share(c.InForce.With(changes, c.Startup))
	}
}

// Rollback ends a transaction that has failed: nothing of it stays.
func (c *Client) Rollback() {
	c.Staged.Rollback()
	c.EndKept(true)
}

// Mark is SAVEPOINT at the server.
func (c *Client) Mark(name string) {
	c.Staged.Mark(name)
	m := keptMark{name: name}
	if n := len(c.marks); n > 0 && c.before == nil {
		m.stood = c.marks[n-1].stood // nothing has changed
	} else {
		m.stood = c.Snapshot()
	}
	m.bytes = 2*settingCost + len(m.stood.changes)*settingCost
	if n := len(c.marks); n == 0 || c.marks[n-1].stood != m.stood {
		m.bytes += int(m.stood.kept.bytes)
	}
	if n := len(c.marks); n > 0 {
		if last := &c.marks[n-1]; last.stood.inForce != m.stood.inForce {
			m.bytes += m.stood.inForce.Bytes()
		}
		m.bytes += c.marks[n-1].bytes
	}
	c.marks = append(c.marks, m)
}

// Release is RELEASE SAVEPOINT at the server.
func (c *Client) Release(name string) {
	c.Staged.Release(name)
	if i := c.find(name); i >= 0 {
		c.marks = slices.Clip(c.marks[:i])
	}
}

// Return is ROLLBACK TO SAVEPOINT at the server.
func (c *Client) Return(name string) {
	c.Staged.Return(name)
	if i := c.find(name); i >= 0 {
		c.marks = slices.Clip(c.marks[:i+1])
		c.Restore(c.marks[i].stood)
	}
}

// find is the newest savepoint of that name; -1 when there is none.
func (c *Client) find(name string) int {
	for i, m := range slices.Backward(c.marks) {
		if m.name == name {
			return i
		}
	}
	return -1
}

// Progress is what the server's statements of a transaction have done by now. What
// Sluice answers itself is no part of it.
type Progress struct {
	staged Staged
	marks  []keptMark
}

// Progress returns what later statements do not touch.
func (c *Client) Progress() Progress { return Progress{c.Staged.Snapshot(), slices.Clip(c.marks)} }

// Resume returns to an earlier progress of the transaction, because the statements since
// then are sent again.
func (c *Client) Resume(p Progress) {
	c.Staged, c.marks = p.staged.Snapshot(), slices.Clip(p.marks)
}

// Undone are the values that a client has back whose block has failed: a RESET that was
// answered here is undone. It returns nil where InForce stays.
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
