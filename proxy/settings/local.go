package settings

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// localValues holds the values of a client's Sluice-local settings, which no server sees.
type localValues struct {
	// texts has the values of Sluice-local settings. The map is replaced and never changed, because clients share it.
	texts                                      map[string]string
	statementTimeout, idleInTransactionTimeout time.Duration
	readOnly                                   bool  // the value of rewrite.ReadOnlyDefault
	bytes                                      int32 // of texts
	// chosen are the values of Sluice's own settings, or nil for none. chosen is replaced and never changed, because
	// its readers compare the pointer.
	chosen *rewrite.ClientOptions
}

// localChange is a change of a Sluice-local setting, which no server sees. The name resetAll means all of them.
type localChange struct {
	name, value string
	reset       bool // to its default
}

// resetAll is the name in a localChange that means all Sluice-local settings, for RESET ALL.
const resetAll = ""

// localSavepoint is the state of a client's settings at a savepoint of the server.
type localSavepoint struct {
	name  string
	stood *Snapshot
	bytes int // of the state here and at earlier savepoints
}

// Snapshot is the state of those settings of a client that change by statements which Sluice itself answers.
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

// IsUnchangedSince reports whether no setting has changed since a Snapshot.
func (c *Client) IsUnchangedSince(s *Snapshot) bool {
	return c.InForce == s.inForce && len(c.changes) == len(s.changes) && maps.Equal(c.local.texts, s.local.texts)
}

// RestoreLocal restores the settings that no server sees from a Snapshot of the same transaction.
func (c *Client) RestoreLocal(s *Snapshot) {
	c.saveReported()
	c.before, c.changes, c.local = s.before, slices.Clone(s.changes), s.local
}

// RestoreAll restores all settings from a Snapshot: the Sluice-local ones, and those that backends get.
func (c *Client) RestoreAll(s *Snapshot) {
	c.RestoreLocal(s)
	c.InForce = s.inForce
}

// setValue sets a setting that no server sees. setValue returns PostgreSQL's error for an invalid value.
func (k *localValues) setValue(name, value string) error {
	value, bad := Normalize(name, value)
	if bad != nil {
		return bad
	}
	switch name {
	case "statement_timeout":
		k.statementTimeout, _ = ParseTimeout(name, value)
	case "idle_in_transaction_session_timeout":
		k.idleInTransactionTimeout, _ = ParseTimeout(name, value)
	case rewrite.ReadOnlyDefault:
		k.readOnly = value == "on"
	default:
		k.setOption(name, value)
	}
	k.texts = maps.Clone(k.texts)
	if k.texts == nil {
		k.texts = map[string]string{}
	}
	k.bytes += int32(settingCost + len(value) - k.valueBytes(name))
	k.texts[name] = value
	return nil
}

// valueBytes returns the approximate memory in bytes of the value of a setting that no server sees, or 0 without one.
func (k *localValues) valueBytes(name string) int {
	if value, ok := k.texts[name]; ok {
		return settingCost + len(value)
	}
	return 0
}

// startupLocal returns the Sluice-local settings of clients with the startup settings s, which share one map.
func (s *Values) startupLocal() (localValues, error) {
	if made := s.local.Load(); made != nil {
		return *made, nil
	}
	var made localValues
	for name, value := range s.StartupLocal {
		if err := made.setValue(name, value); err != nil {
			return localValues{}, err
		}
	}
	s.local.Store(&made)
	return made, nil
}

// applyChange applies one change of a Sluice-local setting, which no server sees.
func (k *localValues) applyChange(c localChange) error {
	switch {
	case c.name == resetAll:
		*k = localValues{}
		return nil
	case !c.reset:
		return k.setValue(c.name, c.value)
	}
	k.texts = maps.Clone(k.texts)
	k.bytes -= int32(k.valueBytes(c.name))
	delete(k.texts, c.name)
	switch c.name {
	case "statement_timeout":
		k.statementTimeout = 0
	case "idle_in_transaction_session_timeout":
		k.idleInTransactionTimeout = 0
	case rewrite.ReadOnlyDefault:
		k.readOnly = false
	default:
		k.setOption(c.name, "")
	}
	return nil
}

// setOption stores a setting of Sluice's own. The value "" removes the setting.
func (k *localValues) setOption(name, value string) {
	key, own := ProxySettingKey(name)
	if !own {
		return
	}
	now := rewrite.ClientOptions{}
	if k.chosen != nil {
		now = *k.chosen
	}
	if now = now.WithOption(key, value); now == (rewrite.ClientOptions{}) {
		k.chosen = nil
	} else {
		k.chosen = &now
	}
}

// StatementTimeout returns the client's statement_timeout if Sluice enforces that setting, or 0 for none.
func (c *Client) StatementTimeout() time.Duration { return c.local.statementTimeout }

// IdleInTransactionTimeout returns the client's idle_in_transaction_session_timeout if Sluice enforces that setting,
// or 0.
func (c *Client) IdleInTransactionTimeout() time.Duration { return c.local.idleInTransactionTimeout }

// IsReadOnlyByDefault reports whether Sluice makes the client's transactions READ ONLY by default, because it
// enforces default_transaction_read_only.
func (c *Client) IsReadOnlyByDefault() bool { return c.local.readOnly }

// IsReadOnlyPending reports whether the end of the transaction may change the result of IsReadOnlyByDefault.
func (c *Client) IsReadOnlyPending() bool {
	return c.before != nil && c.before.local.readOnly != c.local.readOnly
}

// Options returns the client's current values of Sluice's own settings, or nil for none. The pointer changes with the
// values.
func (c *Client) Options() *rewrite.ClientOptions { return c.local.chosen }

// StartupOptions returns the values of Sluice's own settings in the client's startup, or nil for none.
func (c *Client) StartupOptions() *rewrite.ClientOptions {
	var k localValues
	for name, value := range c.Startup.StartupLocal {
		k.setOption(name, value)
	}
	return k.chosen
}

// AreOptionsPending reports whether the end of the transaction may change the result of Options.
func (c *Client) AreOptionsPending() bool {
	return c.before != nil && c.before.local.chosen != c.local.chosen
}

// IsLocal reports whether a setting is Sluice-local, so that no server sees it.
func (c *Client) IsLocal(name string) bool {
	how := c.treat.ForName(name)
	return how == LocalOnly || how == Ignored || how == Own
}

// AnswersShow reports whether Client.ShownValue answers SHOW of a setting. For an ignored setting without a value, the
// server's value is shown, unless the server uses the setting for its own purposes.
func (c *Client) AnswersShow(name string) bool {
	switch c.treat.ForName(name) {
	case LocalOnly, Own:
		return true
	case Ignored:
		_, set := c.local.texts[name]
		return set || IsOffByDefault(name)
	}
	return false
}

// ShownValue returns the value of a Sluice-local setting (no server sees it) as SHOW returns it.
func (c *Client) ShownValue(name string) string {
	return c.local.shownValue(name)
}

func (k *localValues) shownValue(name string) string {
	value, ok := k.texts[name]
	switch {
	case ok, name == "application_name":
		return value
	case name == rewrite.ReadOnlyDefault:
		return "off"
	}
	return "0"
}

// ServerShowsOther reports whether the server would show another value of a setting than the client has set.
func (c *Client) ServerShowsOther(name string) bool {
	value := c.local.texts[name]
	if name == rewrite.ReadOnlyDefault {
		return c.local.readOnly
	}
	return value != "" && value != "0" && c.IsLocal(name) || IsProxySetting(name)
}

// CheckedValue returns the value of a SET of a setting that no server sees, or PostgreSQL's error if it is invalid.
func CheckedValue(c *rewrite.SettingChange) (string, *wire.Error) {
	if c.Action == rewrite.Reset || c.Default {
		return "", nil
	}
	if c.Text == "" && c.SQL != "''" { // a list
		return "", ErrOneArgument(c.Name)
	}
	return Normalize(c.Name, c.Text)
}

// StoreLocal sets a Sluice-local setting (no server sees it) to a value that CheckedValue has checked. With txOnly,
// the value applies until the transaction ends.
func (c *Client) StoreLocal(name, value string, txOnly bool) error {
	return c.changeLocal(localChange{name: name, value: value}, txOnly)
}

// ResetLocalToStartup resets a Sluice-local setting to the value in the client's startup. With txOnly, that applies
// until the transaction ends.
func (c *Client) ResetLocalToStartup(name string, txOnly bool) error {
	value, ok := c.Startup.StartupLocal[name]
	return c.changeLocal(localChange{name, value, !ok}, txOnly)
}

func (c *Client) changeLocal(change localChange, txOnly bool) error {
	c.saveStateBefore()
	if slices.Contains(reportedLocal[:], change.name) {
		c.saveReported()
	}
	if err := c.local.applyChange(change); err != nil {
		return err
	}
	if !txOnly {
		c.changes = slices.DeleteFunc(c.changes, func(o localChange) bool { return o.name == change.name })
		c.changes = append(c.changes, change)
	}
	return nil
}

// saveStateBefore records the state of the settings before the first change in a transaction.
func (c *Client) saveStateBefore() {
	if c.before == nil {
		c.before = &Snapshot{inForce: c.InForce, local: c.local}
	}
}

// ResetSetting performs RESET of one setting. If backends get the setting, ResetSetting must be called outside a
// transaction block.
func (c *Client) ResetSetting(name string) error {
	if c.treat.ForName(name) != Carried {
		return c.ResetLocalToStartup(name, false)
	}
	c.saveStateBefore()
	c.ApplyCommitted([]rewrite.SettingChange{{Action: rewrite.Reset, Name: name}})
	return nil
}

// SetCarried performs SET of a setting that backends get, outside a block, with a value that a server would accept.
func (c *Client) SetCarried(change rewrite.SettingChange) {
	c.saveStateBefore()
	c.ApplyCommitted([]rewrite.SettingChange{change})
}

// ResetAll performs RESET ALL for all settings, outside a transaction block.
func (c *Client) ResetAll() {
	c.ResetAllLocal()
	c.InForce = c.Startup
}

// ResetAllLocal performs RESET ALL only for the Sluice-local settings, which no server sees.
func (c *Client) ResetAllLocal() {
	c.saveStateBefore()
	c.saveReported()
	c.local = localValues{}
	c.changes = append(c.changes[:0], localChange{name: resetAll})
	for name, value := range c.Startup.StartupLocal {
		c.changeLocal(localChange{name: name, value: value}, false) // it was valid at the startup
	}
}

// EndLocalChanges applies a transaction's end to the settings that no server sees: it undoes SET LOCAL, and after a
// rollback also SET and RESET.
func (c *Client) EndLocalChanges(rolledBack bool) {
	c.marks = nil
	if c.before == nil {
		return
	}
	c.saveReported()
	was, again := c.before, c.changes
	c.before, c.changes, c.local = nil, nil, was.local
	if rolledBack {
		c.InForce = was.inForce
		return
	}
	for _, change := range again {
		c.local.applyChange(change) // it was valid when the client set it
	}
}

// reportedLocal are the settings that no server sees, and whose changes PostgreSQL would report (by ParameterStatus)
// to the client before a ReadyForQuery.
var reportedLocal = [...]string{"application_name", rewrite.ReadOnlyDefault}

// reportedTuple has the values of the settings in reportedLocal, in the same order.
type reportedTuple [len(reportedLocal)]string

func (k *localValues) reportedValues() (now reportedTuple) {
	for i, name := range reportedLocal {
		now[i] = k.shownValue(name)
	}
	return now
}

// saveReported saves the values of the settings in reportedLocal, before one of them may change. The client gets the
// new value before the next ReadyForQuery.
func (c *Client) saveReported() {
	if !c.renamed {
		c.renamed, c.known = true, c.local.reportedValues()
	}
}

// MayHaveReports reports whether TakeReports may return parameters.
func (c *Client) MayHaveReports() bool { return c.renamed || c.before != nil }

// TakeReports returns the Sluice-local settings that the client must be sent, as ParameterStatus, before a
// ReadyForQuery with status. In a failed block they have the values before the block, or at its last savepoint.
func (c *Client) TakeReports(status byte) (news []Param) {
	if status == 'E' && c.before != nil { // however the block failed
		c.saveReported()
	}
	if !c.renamed {
		return nil
	}
	now := c.local.reportedValues()
	if n := len(c.marks); status == 'E' && n > 0 {
		now = c.marks[n-1].stood.local.reportedValues()
	} else if status == 'E' && c.before != nil {
		now = c.before.local.reportedValues()
	} else {
		c.renamed = false
	}
	for i, value := range now {
		if value != c.known[i] {
			news = append(news, Param{Name: reportedLocal[i], Value: value})
		}
	}
	c.known = now
	return news
}

// IsReportedLocal reports whether a setting is Sluice-local and TakeReports reports its changes.
func (c *Client) IsReportedLocal(name string) bool {
	return slices.Contains(reportedLocal[:], name) && c.IsLocal(name)
}
