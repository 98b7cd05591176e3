package settings

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// kept are the values of settings that no server sees.
type kept struct {
	// texts is not changed, but replaced: clients share it.
	texts                                      map[string]string
	statementTimeout, idleInTransactionTimeout time.Duration
	readOnly                                   bool  // what rewrite.ReadOnlyDefault says
	bytes                                      int32 // of texts
	// chosen is what Sluice's own settings say; nil: nothing. It is not changed, but replaced.
	chosen *rewrite.Choices
}

// keptChange is a change of such a setting for the session; resetAll stands for all.
type keptChange struct {
	name, value string
	reset       bool // to what it is without any SET
}

// resetAll stands for RESET ALL among the changes of a transaction.
const resetAll = ""

// keptMark is how things stood at a savepoint of the server's.
type keptMark struct {
	name  string
	stood *Snapshot
	bytes int // of what stood here and at the savepoints before
}

// Snapshot is what statements that Sluice answers change, as it was.
type Snapshot struct {
	inForce *Values
	kept    kept
	before  *Snapshot
	changes []keptChange
}

// Snapshot returns how things stand now; what comes later does not touch it.
func (c *Client) Snapshot() *Snapshot {
	return &Snapshot{inForce: c.InForce, kept: c.kept, before: c.before, changes: slices.Clone(c.changes)}
}

// Stands reports whether nothing that statements set is otherwise than it was.
func (c *Client) Stands(s *Snapshot) bool {
	return c.InForce == s.inForce && len(c.changes) == len(s.changes) && maps.Equal(c.kept.texts, s.kept.texts)
}

// Restore returns the kept settings to what they were within the transaction.
func (c *Client) Restore(s *Snapshot) {
	c.renames()
	c.before, c.changes, c.kept = s.before, slices.Clone(s.changes), s.kept
}

// RestoreAll returns the carried settings too.
func (c *Client) RestoreAll(s *Snapshot) {
	c.Restore(s)
	c.InForce = s.inForce
}

// store sets a kept or ignored setting.
func (k *kept) store(name, value string) error {
	value, bad := Normal(name, value)
	if bad != nil {
		return bad
	}
	switch name {
	case "statement_timeout":
		k.statementTimeout, _ = Timeout(name, value)
	case "idle_in_transaction_session_timeout":
		k.idleInTransactionTimeout, _ = Timeout(name, value)
	case rewrite.ReadOnlyDefault:
		k.readOnly = value == "on"
	default:
		k.choose(name, value)
	}
	k.texts = maps.Clone(k.texts)
	if k.texts == nil {
		k.texts = map[string]string{}
	}
	k.bytes += int32(settingCost + len(value) - k.costs(name))
	k.texts[name] = value
	return nil
}

// costs is about what the value of a setting takes in memory; 0 where there is none.
func (k *kept) costs(name string) int {
	if value, ok := k.texts[name]; ok {
		return settingCost + len(value)
	}
	return 0
}

// atStart are the kept settings of a client whose startup gave s. All such clients have one
// map.
func (s *Values) atStart() (kept, error) {
	if made := s.kept.Load(); made != nil {
		return *made, nil
	}
	var made kept
	for name, value := range s.Kept {
		if err := made.store(name, value); err != nil {
			return kept{}, err
		}
	}
	s.kept.Store(&made)
	return made, nil
}

// apply makes one change.
func (k *kept) apply(c keptChange) error {
	switch {
	case c.name == resetAll:
		*k = kept{}
		return nil
	case !c.reset:
		return k.store(c.name, c.value)
	}
	k.texts = maps.Clone(k.texts)
	k.bytes -= int32(k.costs(c.name))
	delete(k.texts, c.name)
	switch c.name {
	case "statement_timeout":
		k.statementTimeout = 0
	case "idle_in_transaction_session_timeout":
		k.idleInTransactionTimeout = 0
	case rewrite.ReadOnlyDefault:
		k.readOnly = false
	default:
		k.choose(c.name, "")
	}
	return nil
}

// choose is store for a setting of Sluice's own; "" takes back what it says.
func (k *kept) choose(name, value string) {
	key, own := OwnKey(name)
	if !own {
		return
	}
	now := rewrite.Choices{}
	if k.chosen != nil {
		now = *k.chosen
	}
	if now = now.With(key, value); now == (rewrite.Choices{}) {
		k.chosen = nil
	} else {
		k.chosen = &now
	}
}

// StatementTimeout is the client's statement_timeout where Sluice keeps it; 0 for none.
func (c *Client) StatementTimeout() time.Duration { return c.kept.statementTimeout }

// IdleInTransactionTimeout is idle_in_transaction_session_timeout likewise.
func (c *Client) IdleInTransactionTimeout() time.Duration { return c.kept.idleInTransactionTimeout }

// ReadOnly reports whether the client's transactions begin READ ONLY, and no server knows of it.
func (c *Client) ReadOnly() bool { return c.kept.readOnly }

// ReadOnlyUnsettled reports whether the end of the transaction may change what ReadOnly says.
func (c *Client) ReadOnlyUnsettled() bool {
	return c.before != nil && c.before.kept.readOnly != c.kept.readOnly
}

// Chosen is what Sluice's own settings say now; nil: nothing. What it points to stays as it is,
// so that another pointer tells of a change.
func (c *Client) Chosen() *rewrite.Choices { return c.kept.chosen }

// ChosenAtStart is what they said at the client's startup; nil: nothing.
func (c *Client) ChosenAtStart() *rewrite.Choices {
	var k kept
	for name, value := range c.Startup.Kept {
		k.choose(name, value)
	}
	return k.chosen
}

// ChoiceUnsettled reports whether the end of the transaction may change what Chosen says.
func (c *Client) ChoiceUnsettled() bool {
	return c.before != nil && c.before.kept.chosen != c.kept.chosen
}

// Keeps reports whether a setting is not the server's.
func (c *Client) Keeps(name string) bool {
	how := c.treat.Of(name)
	return how == Kept || how == Ignored || how == Own
}

// Shows reports whether SHOW of a setting is answered by Shown. Of a setting that is
// ignored and was not set, the server's value is told, unless the server uses it for
// purposes of its own.
func (c *Client) Shows(name string) bool {
	switch c.treat.Of(name) {
	case Kept, Own:
		return true
	case Ignored:
		_, set := c.kept.texts[name]
		return set || OffUnlessSet(name)
	}
	return false
}

// Shown is the value of a setting that Sluice keeps.
func (c *Client) Shown(name string) string {
	return c.kept.shown(name)
}

func (k *kept) shown(name string) string {
	value, ok := k.texts[name]
	switch {
	case ok, name == "application_name":
		return value
	case name == rewrite.ReadOnlyDefault:
		return "off"
	}
	return "0"
}

// Misleads reports whether the server would tell another value of a setting than
// the client gave it.
func (c *Client) Misleads(name string) bool {
	value := c.kept.texts[name]
	if name == rewrite.ReadOnlyDefault {
		return c.kept.readOnly
	}
	return value != "" && value != "0" && c.Keeps(name) || IsOwn(name)
}

// ValueOf is the value that a SET gives a kept setting, checked.
func ValueOf(c *rewrite.Change) (string, *wire.Error) {
	if c.Action == rewrite.Reset || c.Default {
		return "", nil
	}
	if c.Text == "" && c.SQL != "''" { // a list
		return "", ErrOneArgument(c.Name)
	}
	return Normal(c.Name, c.Text)
}

// Keep gives a kept setting a value that ValueOf has checked; txOnly: until the
// transaction ends.
func (c *Client) Keep(name, value string, txOnly bool) error {
	return c.keep(keptChange{name: name, value: value}, txOnly)
}

// KeepStartup returns a kept setting to what the client gave at its startup.
func (c *Client) KeepStartup(name string, txOnly bool) error {
	value, ok := c.Startup.Kept[name]
	return c.keep(keptChange{name, value, !ok}, txOnly)
}

func (c *Client) keep(change keptChange, txOnly bool) error {
	c.stage()
	if slices.Contains(reported[:], change.name) {
		c.renames()
	}
	if err := c.kept.apply(change); err != nil {
		return err
	}
	if !txOnly {
		c.changes = slices.DeleteFunc(c.changes, func(o keptChange) bool { return o.name == change.name })
		c.changes = append(c.changes, change)
	}
	return nil
}

// stage notes how the settings are, before the first change of a transaction.
func (c *Client) stage() {
	if c.before == nil {
		c.before = &Snapshot{inForce: c.InForce, kept: c.kept}
	}
}

// Reset is RESET of one setting; outside a transaction block if it is carried.
func (c *Client) Reset(name string) error {
	if c.treat.Of(name) != Carried {
		return c.KeepStartup(name, false)
	}
	c.stage()
	c.Adopt([]rewrite.Change{{Action: rewrite.Reset, Name: name}})
	return nil
}

// Give is SET of a carried setting outside a transaction block, of a value that a server would take.
func (c *Client) Give(change rewrite.Change) {
	c.stage()
	c.Adopt([]rewrite.Change{change})
}

// ResetAll is RESET ALL outside a transaction block.
func (c *Client) ResetAll() {
	c.ResetKept()
	c.InForce = c.Startup
}

// ResetKept is RESET ALL for the settings that Sluice keeps.
func (c *Client) ResetKept() {
	c.stage()
	c.renames()
	c.kept = kept{}
	c.changes = append(c.changes[:0], keptChange{name: resetAll})
	for name, value := range c.Startup.Kept {
		c.keep(keptChange{name: name, value: value}, false) // it was valid at the startup
	}
}

// EndKept ends a transaction for what was answered here: a SET LOCAL, and a rolled back SET
// or RESET, is undone.
func (c *Client) EndKept(rolledBack bool) {
	c.marks = nil
	if c.before == nil {
		return
	}
	c.renames()
	was, again := c.before, c.changes
	c.before, c.changes, c.kept = nil, nil, was.kept
	if rolledBack {
		c.InForce = was.inForce
		return
	}
	for _, change := range again {
		c.kept.apply(change) // it was valid when the client set it
	}
}

// reported are the settings among those that Sluice keeps of which PostgreSQL tells each change, in
// front of the ReadyForQuery behind it.
var reported = [...]string{"application_name", rewrite.ReadOnlyDefault}

// values are those of the reported settings.
type values [len(reported)]string

func (k *kept) reported() (now values) {
	for i, name := range reported {
		now[i] = k.shown(name)
	}
	return now
}

// renames is told that a reported setting may be about to change: its client is told the new value
// in front of the next ReadyForQuery, as by PostgreSQL.
func (c *Client) renames() {
	if !c.renamed {
		c.renamed, c.known = true, c.kept.reported()
	}
}

// MayRename reports whether News may have something to tell.
func (c *Client) MayRename() bool { return c.renamed || c.before != nil }

// News are the reported settings of which the client must be told in front of a ReadyForQuery that
// carries status; nil for none. In a failed block they are again what they were before the block, or
// at its last savepoint.
func (c *Client) News(status byte) (news []Param) {
	if status == 'E' && c.before != nil { // however the block failed
		c.renames()
	}
	if !c.renamed {
		return nil
	}
	now := c.kept.reported()
	if n := len(c.marks); status == 'E' && n > 0 {
		now = c.marks[n-1].stood.kept.reported()
	} else if status == 'E' && c.before != nil {
		now = c.before.kept.reported()
	} else {
		c.renamed = false
	}
	for i, value := range now {
		if value != c.known[i] {
			news = append(news, Param{Name: reported[i], Value: value})
		}
	}
	c.known = now
	return news
}

// TellsNews reports whether News tells of a setting, where Sluice keeps it.
func (c *Client) TellsNews(name string) bool {
	return slices.Contains(reported[:], name) && c.Keeps(name)
}
