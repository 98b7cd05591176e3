package serversettings

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// The key of a template includes the settings that a text is parsed under (settings.ParsingHashes). A transaction that
// has changed such a setting gets separate keys. These keys are odd and never used again, so that the transaction's
// templates are neither shared nor cached.

// TxParsing is a part of template keys: it identifies a transaction that has changed how SQL is parsed. The zero
// TxParsing means no change. TxParsing is comparable. A copy made at a savepoint restores its key.
type TxParsing struct{ own settings.ParsingHashes }

// Key returns the key of the settings under which the server parses the client's next text. inForce are the client's
// settings.
func (p TxParsing) Key(inForce *settings.Values) settings.ParsingHashes {
	if p.own.All != 0 {
		return p.own
	}
	return inForce.Parsing
}

// RenewParsing gives the transaction p a new key for templates of its next texts, after the given changes of
// settings. inForce are the client's settings.
func (v *Shared) RenewParsing(p *TxParsing, inForce *settings.Values, changes []rewrite.SettingChange) {
	v.renewParsing(p, inForce, changedConstantSettings(changes))
}

// renewParsing gives the transaction p a new key. constants are the changed settings that affect SQL constants.
func (v *Shared) renewParsing(p *TxParsing, inForce *settings.Values, constants parse.InputSettings) {
	key, n := p.Key(inForce), v.parsings.Add(1)<<1|1
	key.All = n
	key.Constants.SetHashes(constants, n)
	p.own = key
}

// changedConstantSettings returns which settings that affect SQL constants may have changed. A change without a name
// may be of any setting.
func changedConstantSettings(changes []rewrite.SettingChange) (by parse.InputSettings) {
	for i := range changes {
		c := &changes[i]
		if c.Action == rewrite.ResetAll || c.Action == rewrite.DiscardAll || c.Name == "" {
			return allConstantSettings
		}
		by |= parse.InputSettingsNamed(c.Name)
	}
	return by
}

// allConstantSettings are all settings that affect the meaning of SQL constants, such as DateStyle.
var allConstantSettings = parse.InputSettingsNamed(settings.ConstantSettings...)

// TurnParsing records what the statements of one turn may have changed of how SQL is parsed. The zero TurnParsing is
// that of a turn without statements.
type TurnParsing struct {
	// reported has the parameters that the backend had reported at the turn's start.
	reported *settings.Reports
	// changed means that a statement changed how SQL is parsed. guessed means that a function may have.
	changed, guessed bool
	was              TxParsing // the transaction's key before the guess
}

// Begin records the parameters that the backend b has reported before the turn.
func (t *TurnParsing) Begin(b *Backend) { t.reported = b.reported }

// Record records that statements about to be sent may change how later texts are parsed. A function that they call
// may do so unseen. Record gives the transaction p a separate key, until the server's reports decide (Settle).
// inForce are the client's settings.
func (t *TurnParsing) Record(v *Shared, p *TxParsing, inForce *settings.Values, statements []rewrite.Statement) {
	calls, changes, constants := false, false, parse.InputSettings(0)
	for i := range statements {
		st := &statements[i]
		changes, constants = changes || len(st.Changes) > 0, constants|changedConstantSettings(st.Changes)
		calls = calls || st.Calls
	}
	switch {
	case changes:
		t.changed = true
		if calls {
			constants = allConstantSettings
		}
		v.renewParsing(p, inForce, constants)
	case calls && !t.guessed: // unknown until the next report
		t.guessed, t.was = true, *p
		v.renewParsing(p, inForce, allConstantSettings)
	}
}

// Settle compares the backend's reports in a block with those before the turn, because a function may have changed how
// SQL is parsed. A guess that no report confirms is undone. If the text itself changed settings, the reports are not
// needed. inForce are the client's settings.
func (t *TurnParsing) Settle(p *TxParsing, b *Backend, inForce *settings.Values) {
	if t.changed || t.reported == b.reported && !t.guessed {
		return
	}
	if t.guessed {
		*p = t.was
	}
	if t.reported == nil || t.reported == b.reported {
		return
	}
	for _, c := range b.reported.ChangedSince(t.reported) {
		if slices.Contains(settings.ParsingSettings, c.Lower) {
			b.shared.renewParsing(p, inForce, allConstantSettings)
			return
		}
	}
}
