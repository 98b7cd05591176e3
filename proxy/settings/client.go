package settings

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Client holds the settings of one client. It has the carried values, which move with the client from backend to
// backend, and the local values, which no server sees. It also has the state before the client's transaction. One
// goroutine owns a Client.
type Client struct {
	shared *Interned
	treat  Treatments
	// InForce are the client's current carried values, those that backends get. RESET returns to Startup.
	InForce, Startup *Values
	// Staged are the changes of settings by the current transaction at the server.
	Staged Staged
	// Reported are the parameters that the client was sent. While no backend is lent, they are current for the values
	// ReportedFor. A nil ReportedFor means that they are current for no values.
	Reported    *Reports
	ReportedFor *Values

	local localValues
	// before is the state before the transaction's first change of a local setting, or nil without a change. changes
	// are the changes of local settings that are repeated when the transaction commits.
	before  *Snapshot
	changes []localChange
	marks   []localMark // the server's savepoints in the transaction
	// renamed means that reported local settings may have changed since the client was sent known.
	renamed bool
	known   values
}

// Bytes returns the approximate memory of the client's settings. It includes all values that the end of the
// transaction, or a return to a savepoint, may restore.
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

// Needs returns approximately how many more bytes a change of a setting needs, while it is staged and afterwards. In a
// block the old value stays until the block ends.
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

// Most is the greatest number of settings of a client. Each SET copies all settings, and so does a backend that gets
// them.
const Most = 1000

// Takes reports whether the client will have at most Most settings after these statements.
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

// Start sets the values of a client's startup. It returns an error for an invalid value of a local setting.
func (c *Client) Start(of *Values) error {
	c.Startup = c.shared.Share(of)
	c.InForce = c.Startup
	var err error
	c.local, err = c.Startup.atStart()
	return err
}

// Stage records a change of a setting by a statement at the server.
func (c *Client) Stage(change rewrite.Change) { c.Staged.Stage(c.merged(change)) }

// merged returns a change with the value that results at the server, which merges a SET of DateStyle with the current
// value.
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

// Commit applies the changes of settings that the server's transaction has staged, and returns them. unseen says that a
// function may have changed further settings.
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

// Adopt applies committed changes of settings to InForce.
func (c *Client) Adopt(changes []rewrite.Change) {
	if len(changes) > 0 {
		c.InForce = c.shared.Share(c.InForce.With(changes, c.Startup))
	}
}

// Rollback ends a failed transaction and drops all its changes of settings.
func (c *Client) Rollback() {
	c.Staged.Rollback()
	c.EndKept(true)
}

// Mark records the settings at a SAVEPOINT of the server.
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

// Release records a RELEASE SAVEPOINT of the server.
func (c *Client) Release(name string) {
	c.Staged.Release(name)
	if i := c.find(name); i >= 0 {
		c.marks = slices.Clip(c.marks[:i])
	}
}

// Return restores the settings after a ROLLBACK TO SAVEPOINT of the server.
func (c *Client) Return(name string) {
	c.Staged.Return(name)
	if i := c.find(name); i >= 0 {
		c.marks = slices.Clip(c.marks[:i+1])
		c.Restore(c.marks[i].stood)
	}
}

// find returns the index of the newest savepoint with a name, or -1.
func (c *Client) find(name string) int {
	for i, m := range slices.Backward(c.marks) {
		if m.name == name {
			return i
		}
	}
	return -1
}

// Progress has the changes of settings by a transaction's statements at the server so far. Changes of local settings
// are not included.
type Progress struct {
	staged Staged
	marks  []localMark
}

// Progress returns a copy of the transaction's progress, which later statements do not change.
func (c *Client) Progress() Progress { return Progress{c.Staged.Snapshot(), slices.Clip(c.marks)} }

// Resume returns to an earlier Progress of the transaction, because the statements since then are sent again.
func (c *Client) Resume(p Progress) {
	c.Staged, c.marks = p.staged.Snapshot(), slices.Clip(p.marks)
}

// Undone returns the carried values that a client has again after its block has failed, because a RESET that Sluice
// answered itself is undone. Undone returns nil if InForce stays.
func (c *Client) Undone() *Values {
	if c.before == nil || c.before.inForce == c.InForce || len(c.marks) > 0 {
		return nil
	}
	return c.before.inForce
}

// Marked reports whether the server's transaction has a savepoint.
func (c *Client) Marked() bool { return len(c.marks) > 0 }

// Unsettled reports whether the end of the transaction may change any setting.
func (c *Client) Unsettled() bool { return len(c.Staged.Changes) > 0 || c.before != nil }
