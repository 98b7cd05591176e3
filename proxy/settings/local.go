package settings

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// localValues holds the values of a client's local settings, which no server sees.
type localValues struct {
	// texts is replaced and never changed, because clients share it.
	texts                                      map[string]string
	statementTimeout, idleInTransactionTimeout time.Duration
	readOnly                                   bool  // the value of rewrite.ReadOnlyDefault
	bytes                                      int32 // of texts
	// chosen are the values of Sluice's own settings, or nil for none. chosen is replaced and never changed.
	chosen *rewrite.Choices
}

// localChange is a change of a local setting. The name resetAll means all local settings.
type localChange struct {
	name, value string
	reset       bool // to its default
}

// resetAll is the name of a localChange for RESET ALL.
const resetAll = ""

// localMark is the state of a client's settings at a savepoint of the server.
type localMark struct {
	name  string
	stood *Snapshot
	bytes int // of the state here and at earlier savepoints
}

// Snapshot is the state of a client's settings that statements answered by Sluice can change.
type Snapshot struct {
	inForce *Values
	local   localValues
	before  *Snapshot
	changes []localChange
}

// Snapshot returns the current state of the settings. Later statements do not change it.
func (c *Client) Snapshot() *Snapshot {
	return &Snapshot{inForce: c.InForce, local: c.local, before: c.before, changes: slices.Clone(c.changes)}
}

// Stands reports whether no setting has changed since a Snapshot.
func (c *Client) Stands(s *Snapshot) bool {
	return c.InForce == s.inForce && len(c.changes) == len(s.changes) && maps.Equal(c.local.texts, s.local.texts)
}

// Restore restores the local settings from a Snapshot of the same transaction.
func (c *Client) Restore(s *Snapshot) {
	c.renames()
	c.before, c.changes, c.local = s.before, slices.Clone(s.changes), s.local
}

// RestoreAll restores the local settings and the carried ones from a Snapshot.
func (c *Client) RestoreAll(s *Snapshot) {
	c.Restore(s)
	c.InForce = s.inForce
}

// store sets a setting that no server sees. It returns PostgreSQL's error for an invalid value.
func (k *localValues) store(name, value string) error {
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

// costs returns the approximate memory of a local setting's value, or 0 without a value.
func (k *localValues) costs(name string) int {
	if value, ok := k.texts[name]; ok {
		return settingCost + len(value)
	}
	return 0
}

// atStart returns the local settings of a client with the startup s. All clients with that startup share one map.
func (s *Values) atStart() (localValues, error) {
	if made := s.local.Load(); made != nil {
		return *made, nil
	}
	var made localValues
	for name, value := range s.Kept {
		if err := made.store(name, value); err != nil {
			return localValues{}, err
		}
	}
	s.local.Store(&made)
	return made, nil
}

// apply applies one change of a local setting.
func (k *localValues) apply(c localChange) error {
	switch {
	case c.name == resetAll:
		*k = localValues{}
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

// choose stores a setting of Sluice's own. The value "" removes the setting.
func (k *localValues) choose(name, value string) {
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

// StatementTimeout returns the client's statement_timeout if that setting is local, or 0 for none.
func (c *Client) StatementTimeout() time.Duration { return c.local.statementTimeout }

// IdleInTransactionTimeout returns the client's idle_in_transaction_session_timeout if that setting is local, or 0 for
// none.
func (c *Client) IdleInTransactionTimeout() time.Duration { return c.local.idleInTransactionTimeout }

// ReadOnly reports whether Sluice makes the client's transactions READ ONLY by default, because
// default_transaction_read_only is local.
func (c *Client) ReadOnly() bool { return c.local.readOnly }

// ReadOnlyUnsettled reports whether the end of the transaction may change the result of ReadOnly.
func (c *Client) ReadOnlyUnsettled() bool {
	return c.before != nil && c.before.local.readOnly != c.local.readOnly
}

// Chosen returns the client's current values of Sluice's own settings, or nil for none. The pointer changes with the
// values.
func (c *Client) Chosen() *rewrite.Choices { return c.local.chosen }

// ChosenAtStart returns the values of Sluice's own settings in the client's startup, or nil for none.
func (c *Client) ChosenAtStart() *rewrite.Choices {
	var k localValues
	for name, value := range c.Startup.Kept {
		k.choose(name, value)
	}
	return k.chosen
}

// ChoiceUnsettled reports whether the end of the transaction may change the result of Chosen.
func (c *Client) ChoiceUnsettled() bool {
	return c.before != nil && c.before.local.chosen != c.local.chosen
}

// Keeps reports whether a setting is local, so that no server sees it.
func (c *Client) Keeps(name string) bool {
	how := c.treat.Of(name)
	return how == Kept || how == Ignored || how == Own
}

// Shows reports whether Client.Shown answers SHOW of a setting. For an ignored setting without a value, the server's
// value is shown, unless the server uses the setting for its own purposes.
func (c *Client) Shows(name string) bool {
	switch c.treat.Of(name) {
	case Kept, Own:
		return true
	case Ignored:
		_, set := c.local.texts[name]
		return set || OffUnlessSet(name)
	}
	return false
}

// Shown returns the value of a local setting as SHOW answers it.
func (c *Client) Shown(name string) string {
	return c.local.shown(name)
}

func (k *localValues) shown(name string) string {
	value, ok := k.texts[name]
	switch {
	case ok, name == "application_name":
		return value
	case name == rewrite.ReadOnlyDefault:
		return "off"
	}
	return "0"
}

// Misleads reports whether the server would show another value of a setting than the client has set.
func (c *Client) Misleads(name string) bool {
	value := c.local.texts[name]
	if name == rewrite.ReadOnlyDefault {
		return c.local.readOnly
	}
	return value != "" && value != "0" && c.Keeps(name) || IsOwn(name)
}

// ValueOf returns the value of a SET of a local setting, or PostgreSQL's error if the value is invalid.
func ValueOf(c *rewrite.Change) (string, *wire.Error) {
	if c.Action == rewrite.Reset || c.Default {
		return "", nil
	}
	if c.Text == "" && c.SQL != "''" { // a list
		return "", ErrOneArgument(c.Name)
	}
	return Normal(c.Name, c.Text)
}

// Keep sets a local setting to a value that ValueOf has checked. With txOnly, the value applies until the transaction
// ends.
func (c *Client) Keep(name, value string, txOnly bool) error {
	return c.keep(localChange{name: name, value: value}, txOnly)
}

// KeepStartup resets a local setting to the value in the client's startup. With txOnly, that applies until the
// transaction ends.
func (c *Client) KeepStartup(name string, txOnly bool) error {
	value, ok := c.Startup.Kept[name]
	return c.keep(localChange{name, value, !ok}, txOnly)
}

func (c *Client) keep(change localChange, txOnly bool) error {
	c.stage()
	if slices.Contains(reported[:], change.name) {
		c.renames()
	}
	if err := c.local.apply(change); err != nil {
		return err
	}
	if !txOnly {
		c.changes = slices.DeleteFunc(c.changes, func(o localChange) bool { return o.name == change.name })
		c.changes = append(c.changes, change)
	}
	return nil
}

// stage records the state of the settings before the first change in a transaction.
func (c *Client) stage() {
	if c.before == nil {
		c.before = &Snapshot{inForce: c.InForce, local: c.local}
	}
}

// Reset performs RESET of one setting. If the setting is carried, Reset must be called outside a transaction block.
func (c *Client) Reset(name string) error {
	if c.treat.Of(name) != Carried {
		return c.KeepStartup(name, false)
	}
	c.stage()
	c.Adopt([]rewrite.Change{{Action: rewrite.Reset, Name: name}})
	return nil
}

// Give performs SET of a carried setting outside a transaction block, with a value that a server would accept.
func (c *Client) Give(change rewrite.Change) {
	c.stage()
	c.Adopt([]rewrite.Change{change})
}

// ResetAll performs RESET ALL for all settings, outside a transaction block.
func (c *Client) ResetAll() {
	c.ResetKept()
	c.InForce = c.Startup
}

// ResetKept performs RESET ALL for the local settings only.
func (c *Client) ResetKept() {
	c.stage()
	c.renames()
	c.local = localValues{}
	c.changes = append(c.changes[:0], localChange{name: resetAll})
	for name, value := range c.Startup.Kept {
		c.keep(localChange{name: name, value: value}, false) // it was valid at the startup
	}
}

// EndKept ends a transaction for the local settings. It undoes SET LOCAL, and after a rollback also SET and RESET.
func (c *Client) EndKept(rolledBack bool) {
	c.marks = nil
	if c.before == nil {
		return
	}
	c.renames()
	was, again := c.before, c.changes
	c.before, c.changes, c.local = nil, nil, was.local
	if rolledBack {
		c.InForce = was.inForce
		return
	}
	for _, change := range again {
		c.local.apply(change) // it was valid when the client set it
	}
}

// reported are the local settings that PostgreSQL reports to the client before the next ReadyForQuery after a change.
var reported = [...]string{"application_name", rewrite.ReadOnlyDefault}

// values has the values of the settings in reported, in the same order.
type values [len(reported)]string

func (k *localValues) reported() (now values) {
	for i, name := range reported {
		now[i] = k.shown(name)
	}
	return now
}

// renames is called before a possible change of a local setting that PostgreSQL would report. The client gets the new
// value before the next ReadyForQuery.
func (c *Client) renames() {
	if !c.renamed {
		c.renamed, c.known = true, c.local.reported()
	}
}

// MayRename reports whether News may return parameters.
func (c *Client) MayRename() bool { return c.renamed || c.before != nil }

// News returns the local settings that the client must be sent, as ParameterStatus, before a ReadyForQuery with status.
// In a failed block they have the values before the block, or at its last savepoint.
func (c *Client) News(status byte) (news []Param) {
	if status == 'E' && c.before != nil { // however the block failed
		c.renames()
	}
	if !c.renamed {
		return nil
	}
	now := c.local.reported()
	if n := len(c.marks); status == 'E' && n > 0 {
		now = c.marks[n-1].stood.local.reported()
	} else if status == 'E' && c.before != nil {
		now = c.before.local.reported()
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

// TellsNews reports whether a setting is local and News reports its changes.
func (c *Client) TellsNews(name string) bool {
	return slices.Contains(reported[:], name) && c.Keeps(name)
}
