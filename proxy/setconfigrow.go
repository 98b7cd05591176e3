package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/pin"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file runs a SELECT of set_config(...) that Sluice cannot send as one SET. Such a SELECT has several settings of
// the server in one row, or parameters as values.
//
// The value of a parameter is known at the Bind, and its type is text. At the Bind, Sluice makes a statement with
// constants and a plan of its own. Sluice answers the Parse and the Describe of the client's statement itself.
//
// Several settings become several SETs, before Sluice has sent any other frame of the request. In a block each SET is a
// silent nested turn (nested.go). Outside a block Sluice records the values for the session, and the next backend gets
// them. A rollback undoes them. First Sluice checks all values by the table of displayed values
// (settings.SetConfigResult). It refuses values that the table lacks, as for a single set_config.

// runsMultiSetConfig reports whether Sluice itself carries out SELECT set_config(...), set_config(...). If frames of
// the turn were already sent, the server gets the statement and refuses it. Roles, and settings that no server accepts,
// get better errors without Sluice. options.go handles Sluice's own settings (sluice.*).
func (s *session) runsMultiSetConfig(st *rewrite.Statement) bool {
	if len(st.SetConfigColumns) < 2 || s.srv.cfg.Kind != DSQL || s.dedicated || s.t.touched {
		return false
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		if s.srv.pool.treat.ForSet(c.Name, c.Text) == settings.Foreign || pin.ChangesRole(c) || settings.IsProxySetting(c.Name) {
			return false
		}
	}
	return st.SetConfigParams() == 0
}

// runMultiSetConfig carries out SELECT set_config(...), set_config(...) and returns its row. Each column shows the
// value after its own change, because PostgreSQL evaluates columns from left to right. The caller sends a returned
// error to the client.
func (s *session) runMultiSetConfig(st *rewrite.Statement) (frames [][]byte, err error) {
	values := make([]string, len(st.Changes))
	for i := range st.Changes {
		c, bad := &st.Changes[i], (*wire.Error)(nil)
		if s.srv.pool.treat.ForName(c.Name) != settings.Carried {
			_, bad = settings.CheckedValue(c)
		} else {
			values[i], bad = settings.SetConfigResult(st.SetConfigColumns[i].Name, st.SetConfigColumns[i].Value)
		}
		if bad != nil {
			return nil, bad
		}
	}
	if s.t.touched {
		return nil, errMultiSetTooLate
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		if s.srv.pool.treat.ForName(c.Name) != settings.Carried {
			if _, err := s.changeSetting(c, true); err != nil {
				return nil, err
			}
			values[i] = s.settings.ShownValue(c.Name)
		} else if err := s.setServerSetting(c, values[i]); err != nil {
			return nil, err
		}
	}
	return [][]byte{result.TextRow(values...)}, nil
}

// setServerSetting carries out one set_config of a server's setting, which the server will display as the text shown.
// Outside a block it sends no value for the transaction, which ends at the Sync before any other statement.
func (s *session) setServerSetting(c *rewrite.SettingChange, shown string) error {
	switch {
	case s.inBlock():
		ran, err := s.runNestedQuery(serversettings.SetSQL(*c), nestedTurn{hiddenAnswer: silent.NewAnswer(silent.ExpectInBlock("SET")), optsOut: s.t.nested.optsOut})
		if err != nil {
			return err
		}
		return ran.Cause()
	case c.Action == rewrite.Set:
		s.settings.SetCarried(rewrite.SettingChange{Name: c.Name, SQL: rewrite.SettingSQL(c.Name, shown), Text: shown})
	case !s.t.request.ended:
		s.t.request.last = errAfterLocalMultiSet
	}
	return nil
}

// errMultiSetTooLate is the error of a SELECT of several set_config, if Sluice has already sent other frames of a
// pipeline. Sluice's requests for the settings would end the pipeline's transaction.
var errMultiSetTooLate = &wire.Error{Code: retry.StateUnsupported, Message: "several settings cannot be set in one row behind other statements of a pipeline",
	Hint: "Send the statement in front of them, or one SELECT set_config(...) for each setting."}

// errAfterLocalMultiSet is the error of a statement after a set_config for the transaction, in a pipeline. Sluice has
// answered that set_config, and the server does not have its value.
var errAfterLocalMultiSet = &wire.Error{Code: retry.StateUnsupported, Message: "outside of a transaction several settings are set for the transaction by the last statement of a pipeline only",
	Hint: "Begin with BEGIN, or send a Sync behind the statement."}

// bindsConfigLocally reports whether Sluice itself carries out a set_config whose values are parameters.
func bindsConfigLocally(s *session, _ *rewrite.Statement) bool { return !s.t.request.ended }

// bindConfigValues replaces the parameters of a set_config by constants, at its Bind, and reads the whole Bind. It
// first awaits the answers to earlier frames. After an error, returned or already sent (t.server.skip), the Bind must
// not continue. The new statement belongs to the portal alone, so that the next Bind can have other values.
func (s *session) bindConfigValues(b *pendingBind) error {
	st := b.cs.Template.Plan.SingleStatement()
	if st == nil || st.SetConfigParams() == 0 || s.txStatus() == 'E' {
		return nil
	}
	if !s.t.owed.empty() {
		if err := s.flushAndRelay(); err != nil || s.t.server.skip {
			return err
		}
	}
	if err := s.readWholeBind(b); err != nil {
		return err
	}
	values, formats, err := request.TextParams(b.rest, st.SetConfigParams(), b.stmt)
	if err != nil {
		return err
	}
	tmpl, err := s.templateFor([]byte(st.SetConfigSQL(values)), wire.NoOIDs)
	if err != nil {
		return err
	}
	made := s.newClientStatement(tmpl, 0)
	b.portal, b.stmt = []byte(string(b.portal)), []byte(string(b.stmt))
	b.cs, b.rest = &made, append([]byte{0, 0, 0, 0}, formats...)
	return planRefusal(tmpl.Plan)
}
