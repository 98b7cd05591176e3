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

// This file runs a SELECT of set_config(...) that one SET cannot replace: several settings of the server in one row, or
// parameters as values.
//
// The value of a parameter is known at the Bind, and its type is text. At the Bind the statement becomes one with
// constants and its own plan. Sluice answers its Parse and Describe.
//
// Several settings become several SETs, before any other frame of the request has been sent. In a block each SET is a
// silent nested turn (nested.go). Outside a block Sluice records the values for the session, and the next backend
// gets them. A rollback undoes them. Sluice first checks all values by the table of displayed values
// (settings.SetConfigResult), and refuses values not in it, as for a single set_config.

// runsMultiSetConfig reports whether Sluice itself carries out SELECT set_config(...), set_config(...). If frames of
// the turn have been sent, the result is false, and the server refuses the statement. Roles, and settings that no
// server accepts, get better errors as single statements. options.go handles the client's choices (sluice.*) earlier.
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

// runMultiSetConfig carries out SELECT set_config(...), set_config(...) and returns its row. Each value is as
// displayed after its own change, because PostgreSQL evaluates columns from left to right. The caller sends a
// returned error to the client.
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

// setServerSetting carries out one set_config of a server's setting, which the server will display as shown. Outside
// a block, a value for the transaction is not sent: that transaction ends at the Sync, and no statement may follow.
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

// errMultiSetTooLate refuses a SELECT of several set_config after other frames of a pipeline were sent. Sluice's
// requests for the settings would end the pipeline's transaction.
var errMultiSetTooLate = &wire.Error{Code: retry.StateUnsupported, Message: "several settings cannot be set in one row behind other statements of a pipeline",
	Hint: "Send the statement in front of them, or one SELECT set_config(...) for each setting."}

// errAfterLocalMultiSet refuses a statement of a pipeline after Sluice has answered a set_config for the
// transaction. The server does not have the value.
var errAfterLocalMultiSet = &wire.Error{Code: retry.StateUnsupported, Message: "outside of a transaction several settings are set for the transaction by the last statement of a pipeline only",
	Hint: "Begin with BEGIN, or send a Sync behind the statement."}

// bindsConfigLocally reports whether Sluice itself carries out a set_config whose values are parameters.
func bindsConfigLocally(s *session, _ *rewrite.Statement) bool { return !s.t.request.ended }

// bindConfigValues replaces the parameters of a set_config by constants, at its Bind, and reads the whole Bind. It
// first awaits the answers to earlier frames. After an error, returned or already sent (t.skip), the Bind must not
// continue. The new statement belongs to the portal alone, so that the next Bind can have other values.
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
