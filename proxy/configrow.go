package proxy

import (
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// SELECT set_config(...) with more than told.go can do by one SET: with several settings of the server's
// in one row, and with parameters as values.
//
// A parameter's value is known at Bind, and it has no type but text: there the statement becomes one of constants, which has a plan
// of its own and goes the way of any other. Its Parse and its description are Sluice's.
//
// Several settings are several SETs. Nothing of the request may be at the server yet. In a block each
// is a silent turn of its own (nested.go), at its place in the transaction. Outside of one the values
// become the session's here, and the next backend is given them, as it is behind a RESET: the
// transaction around takes them back where it fails. All values are looked at before one is set, by the
// table of what servers show (settings.Told): so a later failure is that of a backend, not of a value.
// What the table does not have is refused, as it is for a single set_config.

// setsSeveral reports whether a statement is carried out so, as things stand: where something of the turn is
// at the server already, the statement goes there too, which refuses it. A role, and what no server
// takes, are for single statements, whose refusals say more; choices of Sluice's own have their place
// in front of all else (choices.go).
func (s *session) setsSeveral(st *rewrite.Statement) bool {
	if len(st.Told) < 2 || s.srv.cfg.Kind != DSQL || s.dedicated || s.t.touched {
		return false
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		if s.srv.treat.To(c.Name, c.Text) == settings.Foreign || ofRole(c) || settings.IsOwn(c.Name) {
			return false
		}
	}
	return st.Values() == 0
}

// performSeveral carries such a statement out, and returns the row, which has the value of each setting
// behind its own change: PostgreSQL computes the columns from left to right. An error is for the client; in a
// block that has failed at the server by then.
func (s *session) performSeveral(st *rewrite.Statement) (frames [][]byte, err error) {
	values := make([]string, len(st.Changes))
	for i := range st.Changes {
		c, bad := &st.Changes[i], (*wire.Error)(nil)
		if s.srv.treat.Of(c.Name) != settings.Carried {
			_, bad = settings.ValueOf(c)
		} else {
			values[i], bad = settings.Told(st.Told[i].Name, st.Told[i].Value)
		}
		if bad != nil {
			return nil, bad
		}
	}
	if s.t.touched {
		return nil, errSeveralLate
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		if s.srv.treat.Of(c.Name) != settings.Carried {
			if _, err := s.change(c, true); err != nil {
				return nil, err
			}
			values[i] = s.settings.Shown(c.Name)
		} else if err := s.setCarried(c, values[i]); err != nil {
			return nil, err
		}
	}
	return [][]byte{result.Row(values...)}, nil
}

// setCarried gives a setting of the server's a value, which the server will show so. For the transaction
// alone, outside of a block, that is until the Sync, and no server knows of it: nothing may follow.
func (s *session) setCarried(c *rewrite.Change, shown string) error {
	switch {
	case s.inBlock():
		ran, err := s.nest(setText(*c), nested{own: silent.New(silent.Within("SET")), optsOut: s.t.optsOut})
		if err != nil {
			return err
		}
		return ran.Why()
	case c.Action == rewrite.Set:
		s.settings.Give(rewrite.Change{Name: c.Name, SQL: rewrite.SettingSQL(c.Name, shown), Text: shown})
	case !s.t.ended:
		s.t.last = errSeveralLocal
	}
	return nil
}

// errSeveralLate is for a pipeline of which something is at the server by the Execute: a request of Sluice's
// own would end its transaction.
var errSeveralLate = &wire.Error{Code: retry.StateUnsupported, Message: "several settings cannot be set in one row behind other statements of a pipeline",
	Hint: "Send the statement in front of them, or one SELECT set_config(...) for each setting."}

// errSeveralLocal is for what follows, in the same transaction, a value that is for the transaction and
// that no server has. The statement itself was answered, and what it has set is gone by then.
var errSeveralLocal = &wire.Error{Code: retry.StateUnsupported, Message: "outside of a transaction several settings are set for the transaction by the last statement of a pipeline only",
	Hint: "Begin with BEGIN, or send a Sync behind the statement."}

// bindsHere reports whether a statement with parameters as values is carried out.
func bindsHere(s *session, _ *rewrite.Statement) bool { return !s.t.ended }

// bindValues makes a statement of constants of one whose parameters are values, in a Bind that is
// unread, which it takes. What went before is answered first. Where t.skip is set behind it, or an
// error is returned, the Bind is not to be gone on with. From then on the statement is nobody's but the
// portal's: the client's own has its parameters still, for the next Bind.
func (s *session) bindValues(b *binding) error {
	st := b.cs.tmpl.plan.Single()
	if st == nil || st.Values() == 0 || s.status() == 'E' {
		return nil
	}
	if !s.t.owed.empty() {
		if err := s.makeAnswer(); err != nil || s.t.skip {
			return err
		}
	}
	if err := s.takeWhole(b); err != nil {
		return err
	}
	values, formats, err := boundTexts(b.rest, st.Values(), b.stmt)
	if err != nil {
		return err
	}
	tmpl, err := s.template([]byte(st.WithValues(values)), wire.NoOIDs)
	if err != nil {
		return err
	}
	made := s.newStatement(tmpl, 0)
	b.portal, b.stmt = []byte(string(b.portal)), []byte(string(b.stmt))
	b.cs, b.rest = &made, append([]byte{0, 0, 0, 0}, formats...)
	return refusal(tmpl.plan)
}

// boundTexts are the n values in what follows the names of a Bind, and behind them the formats of the
// answer, with their count. Text is the same in both formats. NULL would be a RESET, whose row tells the
// value that the server has then: that is refused, since nobody here knows it.
func boundTexts(rest []byte, n int, statement []byte) (values []string, formats []byte, err error) {
	if err := checkBind(rest, n, statement); err != nil {
		return nil, nil, err
	}
	m := wire.NewMessage(rest)
	m.Bytes(2*m.Uint16() + 2)
	for range n {
		size := m.Int32()
		if size < 0 {
			return nil, nil, errNullValue
		}
		value := string(m.Bytes(size))
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return nil, nil, errNotText
		}
		values = append(values, value)
	}
	return values, append([]byte(nil), m.Rest()...), nil
}

var (
	errNullValue = &wire.Error{Code: retry.StateUnsupported, Message: "set_config() of NULL is not carried out here", Hint: "Send RESET of the setting."}
	errNotText   = &wire.Error{Code: "22021", Message: "invalid byte sequence for encoding \"UTF8\""}
)
