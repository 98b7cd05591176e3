package settings

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Client holds the settings of one client. Client has the carried values, which move with the client from backend to
// backend, and the local values, which no server sees. Client also has the state before the client's transaction. One
// goroutine owns a Client.
type Client struct {
	shared *InternTable
	treat  Treatments
	// InForce are the client's current carried values, those that backends get. RESET returns to Startup.
	InForce, Startup *Values
	// Staged are the changes of settings by the current transaction at the server.
	Staged Staged
	// Reported are the parameters that the client was sent. While no backend is lent, the parameters are current for the
	// values ReportedFor. A nil ReportedFor means that the parameters are current for no values.
	Reported    *Reports
	ReportedFor *Values

	local localValues
	// before is the state before the transaction's first change of a Sluice-local setting (no server sees it), or nil.
	// changes are its changes of Sluice-local settings, which a commit repeats.
	before  *Snapshot
	changes []localChange
	marks   []localSavepoint // the server's savepoints in the transaction
	// renamed means that Sluice-local settings of reportedLocal may have changed. known has the values that the client
	// was sent last.
	renamed bool
	known   reportedTuple
}

// Bytes returns the approximate memory of the client's settings. The memory includes all values that the end of the
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

// ExtraBytes returns approximately how many more bytes a change of a setting needs, before and after its transaction
// commits. In a block the old value stays until the block ends.
func (c *Client) ExtraBytes(change *rewrite.SettingChange, inBlock bool) int {
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

// MaxSettings is the greatest number of settings of a client. Each SET copies all settings, and so does a backend that
// gets them.
const MaxSettings = 1000

// HasRoomFor reports whether the client will have at most MaxSettings settings after these statements.
func (c *Client) HasRoomFor(statements []rewrite.Statement) bool {
	more := 0
	for i := range statements {
		more += len(statements[i].Changes)
	}
	if len(c.InForce.SQL)+len(c.Staged.Changes)+more <= MaxSettings {
		return true
	}
	added := map[string]bool{}
	add := func(changes []rewrite.SettingChange) {
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
	return len(added) == before || len(c.InForce.SQL)+len(added) <= MaxSettings
}

// NewClient returns the settings of a client that has set nothing.
func NewClient(treat Treatments, shared *InternTable) Client {
	return Client{shared: shared, treat: treat, InForce: shared.NoSettings(), Startup: shared.NoSettings()}
}

// ApplyStartup sets the values of a client's startup. It returns an error for an invalid value of a setting that no
// server sees.
func (c *Client) ApplyStartup(of *Values) error {
	c.Startup = c.shared.Intern(of)
	c.InForce = c.Startup
	var err error
	c.local, err = c.Startup.startupLocal()
	return err
}

// Stage records a change of a setting by a statement at the server.
func (c *Client) Stage(change rewrite.SettingChange) { c.Staged.Stage(c.resolveChange(change)) }

// resolveChange returns a change with the value that results at the server, which merges a SET of DateStyle with the
// current value.
func (c *Client) resolveChange(change rewrite.SettingChange) rewrite.SettingChange {
	if change.Name != "datestyle" || change.SQL == "" {
		return change
	}
	reset := MergeDateStyle(DateStyle{}, c.Startup.SQL[change.Name], DateStyle{})
	was := MergeDateStyle(DateStyle{}, c.InForce.SQL[change.Name], DateStyle{})
	if last := c.Staged.LastChange(change.Name); last != nil {
		if was = reset; last.SQL != "" {
			was = MergeDateStyle(DateStyle{}, last.SQL, DateStyle{})
		}
	}
	now := MergeDateStyle(was, change.SQL, reset)
	change.SQL, change.Text = now.SQL(), now.String()
	return change
}

// Commit applies the changes of settings that the server's transaction has staged, and returns them. unseen says that a
// function may have changed further settings.
func (c *Client) Commit() (done []rewrite.SettingChange, unseen bool) {
	done = c.Staged.Commit()
	n := len(done)
	done = slices.DeleteFunc(done, func(o rewrite.SettingChange) bool { return o.Name == UnseenChange.Name })
	c.ApplyCommitted(done)
	if c.before != nil { // later local changes belong to the next transaction
		c.before.inForce = c.InForce
	}
	return done, len(done) < n
}

// ApplyCommitted applies committed changes of settings to InForce.
func (c *Client) ApplyCommitted(changes []rewrite.SettingChange) {
	if len(changes) > 0 {
		c.InForce = c.shared.Intern(c.InForce.WithChanges(changes, c.Startup))
	}
}

// Rollback ends a failed transaction and drops all its changes of settings.
func (c *Client) Rollback() {
	c.Staged.Rollback()
	c.EndLocalChanges(true)
}

// SetSavepoint records the settings at a SAVEPOINT of the server.
func (c *Client) SetSavepoint(name string) {
	c.Staged.SetSavepoint(name)
	m := localSavepoint{name: name}
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

// ReleaseSavepoint records a RELEASE SAVEPOINT of the server.
func (c *Client) ReleaseSavepoint(name string) {
	c.Staged.ReleaseSavepoint(name)
	if i := c.findSavepoint(name); i >= 0 {
		c.marks = slices.Clip(c.marks[:i])
	}
}

// RollBackTo restores the settings after a ROLLBACK TO SAVEPOINT of the server.
func (c *Client) RollBackTo(name string) {
	c.Staged.RollBackTo(name)
	if i := c.findSavepoint(name); i >= 0 {
		c.marks = slices.Clip(c.marks[:i+1])
		c.RestoreLocal(c.marks[i].stood)
	}
}

// findSavepoint returns the index of the newest savepoint with a name, or -1.
func (c *Client) findSavepoint(name string) int {
	for i, m := range slices.Backward(c.marks) {
		if m.name == name {
			return i
		}
	}
	return -1
}

// TxProgress has the changes of settings by a transaction's statements at the server so far. It does not include
// settings that no server sees.
type TxProgress struct {
	staged Staged
	marks  []localSavepoint
}

// TxProgress returns a copy of the transaction's progress, which later statements do not change.
func (c *Client) TxProgress() TxProgress {
	return TxProgress{c.Staged.Snapshot(), slices.Clip(c.marks)}
}

// RestoreProgress sets the transaction's progress back to p, because Sluice sends the statements after p again.
func (c *Client) RestoreProgress(p TxProgress) {
	c.Staged, c.marks = p.staged.Snapshot(), slices.Clip(p.marks)
}

// ValuesIfFailed returns the carried values (those that backends get) that a client has again after its block has
// failed. A failed block undoes a RESET that Sluice answered itself. It returns nil if InForce stays valid.
func (c *Client) ValuesIfFailed() *Values {
	if c.before == nil || c.before.inForce == c.InForce || len(c.marks) > 0 {
		return nil
	}
	return c.before.inForce
}

// HasSavepoint reports whether the server's transaction has a savepoint.
func (c *Client) HasSavepoint() bool { return len(c.marks) > 0 }

// HasPendingChanges reports whether the end of the transaction may change any setting.
func (c *Client) HasPendingChanges() bool { return len(c.Staged.Changes) > 0 || c.before != nil }
