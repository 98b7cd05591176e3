package proxy

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A choice is a configuration key that one client has changed for itself, as by SET sluice.ddl.in_transactions =
// 'commit' (rewrite.Choices). SET overrides the startup packet, which overrides the user's values (Config.Users). No
// server gets these settings. Package settings stores them, with transactions, savepoints and resets as of any setting.
// Most sessions have none.
//
// Sluice plans a text by the current choices. A prepared statement is planned again if they differ at its Bind. A
// multi-statement query that contains choices is run in pieces, each planned when the pieces before it have run.
// choosesFirst runs those that begin with all of their choices, choicestring.go the others. While a COMMIT is
// unanswered, a session waits for the choices after it (closeGroup).
//
// A block's first statement settles how the block is committed (ddl.in_transactions). A later RESET ALL or the end of a
// SET LOCAL applies to the next block. Choices for the duration of a block survive an early commit of its first part
// (parts.by).

// chosen has the planner of a session, and the choices that it was made for. Method planner updates it.
type chosen struct {
	// planner plans the session's texts; never nil.
	planner *rewrite.Planner
	// by has the client's choices at the time the planner was made; nil for none.
	by *rewrite.Choices
	// user has the choices in Config.Users for the client's user; never nil. Sessions share it.
	user *rewrite.Choices
}

// noChoices is chosen.user of a user who is not in Config.Users.
var noChoices rewrite.Choices

// choices returns the client's current choices, nil for none. Callers compare the pointers.
func (s *session) choices() *rewrite.Choices {
	if s.parts != nil && s.parts.by != nil {
		if s.inBlock() || s.t != nil && s.t.outside {
			return s.parts.by
		}
	}
	return s.settings.Chosen()
}

// planner returns the planner for the session's next text, usually after two comparisons. If ddl.in_transactions has
// changed during a block, each text calls adopt, which leaves the block as it is.
func (s *session) planner() *rewrite.Planner {
	if by := s.choices(); by != s.chosen.by || s.chosen.planner.InTransactions() != s.parts.policy() {
		s.adopt(by)
	}
	return s.chosen.planner
}

// adopt changes the session's planner to the choices by, and its parts too if mayAdopt allows.
func (s *session) adopt(by *rewrite.Choices) {
	c := &s.chosen
	if by != c.by || c.planner == nil {
		c.by, c.planner = by, s.plannerFor(by)
	}
	if how := c.planner.InTransactions(); how != s.parts.policy() && s.mayAdopt() {
		s.parts = s.partsOf(how)
	}
}

// plannerFor returns the planner for a client's choices over those of its user.
func (s *session) plannerFor(by *rewrite.Choices) *rewrite.Planner {
	all := *s.chosen.user
	if by != nil {
		all = by.Over(all)
	}
	return s.srv.planner.Under(all)
}

// mayAdopt reports whether the session may now change how transactions with DDL are committed. It may outside a block,
// and in a block that has run nothing.
func (s *session) mayAdopt() bool {
	return !s.dedicated && (s.t == nil || !s.t.outside) && (!s.inBlock() || s.freshBlock())
}

// freshBlock reports whether the block has run nothing but BEGIN, which may be unsent or at the server.
func (s *session) freshBlock() bool {
	switch {
	case len(s.tx.marks) > 0, s.partlyDone():
		return false
	case s.state == begun:
		return s.tx.log == nil // that is made for a savepoint
	}
	return s.b != nil && !s.tx.ran && s.status() != 'E'
}

// notesRun records whether the block has run anything, by the plan of a text that is about to be sent. Setting a choice
// does not count. After COMMIT or ROLLBACK the next block has run nothing. All sessions call it, even where clients may
// choose nothing: two branches cost less than a lookup.
func (tx *transaction) notesRun(plan *rewrite.Plan) {
	if len(plan.Statements) == 0 {
		tx.ran = true
	}
	for i := range plan.Statements {
		switch st := &plan.Statements[i]; {
		case endsBlock(st.Tx.Verb):
			tx.ran = false
		case st.Tx.Verb != rewrite.Begin && (len(st.Changes) != 1 || !settings.IsOwn(st.Changes[0].Name)):
			tx.ran = true
		}
	}
}

// partsOf returns the state for a block that may be committed in parts; nil if how refuses DDL in blocks.
func (s *session) partsOf(how rewrite.InTransactions) *parts {
	if how == rewrite.RefuseDDL || s.srv.cfg.dedicated() {
		return nil
	}
	return &parts{how: how}
}

// outchosen reports whether the statement was planned under other choices, and its plan may depend on them. Each Bind
// calls it, so that it allocates nothing.
func (s *session) outchosen(t *template) bool { return t.by != t.plan.Choosable(s.planner()) }

// chooses runs a multi-statement query that contains choices (choosesFirst, choosesInString). With done false it has
// done nothing, at the cost of a look at the statements.
func (s *session) chooses(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if done, err := s.choosesFirst(plan, sql); done || err != nil {
		return done, err
	}
	return s.choosesInString(plan, sql)
}

// choosesFirst runs a multi-statement query that begins with choices, as a migration file may: SET sluice.x = 'y';
// CREATE TABLE ...; The choices run first, and the rest is planned by them. Outside a block a failure takes the choices
// back. With done true the turn is over. It is false for other texts, and outside a block for those with BEGIN or
// COMMIT.
func (s *session) choosesFirst(plan *rewrite.Plan, text []byte) (done bool, err error) {
	n, ends := leadingChoices(plan)
	if n == 0 || ends && !s.inBlock() || s.dedicated || s.t.touched || s.state == failed || s.status() == 'E' {
		return false, nil
	}
	sql, block, before := string(text), s.inBlock(), s.settings.Snapshot()
	how := nested{optsOut: s.t.optsOut || s.srv.replays != nil && retry.OptsOut(text), shift: s.t.shift}
	// Each choice is a turn. The rest is one turn, as if the client had sent it alone, except that positions in errors
	// count from the whole text's start.
	at := 0
	for i := 0; i <= n; i++ {
		from, to := plan.Statements[i].Start, plan.Statements[i].End
		if i == n {
			to = len(sql)
		}
		how.shift += utf8.RuneCountInString(sql[at:from])
		at = from
		ran, err := s.nest(sql[from:to], how)
		if err != nil {
			return true, err
		}
		stopped := ran.Stopped != nil && i < n
		// In a block the client's ROLLBACK takes the choices back, as it does other settings.
		if (ran.Failed || stopped) && !block {
			s.settings.Restore(before)
		}
		switch {
		case ran.Failed:
			s.t.errorTold = true
			return true, s.ready()
		case stopped:
			return true, ran.Stopped
		}
	}
	return true, s.ready()
}

// leadingChoices counts the choices at the beginning of a multi-statement query; 0 if the statements after them contain
// another. ends reports whether a later statement begins or ends a transaction. SET LOCAL and set_config do not count:
// the former needs a transaction, the latter returns a row.
func leadingChoices(plan *rewrite.Plan) (n int, ends bool) {
	// Sluice has no statements of a text that it could not parse.
	if len(plan.Statements) < 2 || plan.Kind == rewrite.Unknown || !isChoice(&plan.Statements[0]) {
		return 0, false
	}
	for n < len(plan.Statements) && isChoice(&plan.Statements[n]) {
		n++
	}
	for i := n; i < len(plan.Statements); i++ {
		ends = ends || plan.Statements[i].Tx.Verb != rewrite.NoVerb
		if slices.ContainsFunc(plan.Statements[i].Changes, func(c rewrite.Change) bool { return settings.IsOwn(c.Name) || c.Action == rewrite.ResetAll }) {
			return 0, false
		}
	}
	if n == len(plan.Statements) {
		n-- // the last choice takes the place of the rest
	}
	return n, ends
}

// isChoice reports whether a statement is SET or RESET of a setting of Sluice (sluice.*), other than SET LOCAL.
func isChoice(st *rewrite.Statement) bool {
	return st.Told == nil && len(st.Changes) == 1 && settings.IsOwn(st.Changes[0].Name) && (st.Changes[0].Action == rewrite.Set || st.Changes[0].Action == rewrite.Reset)
}

// choosesAsAtStart reports whether RESET ALL would leave the client's choices unchanged.
func (s *session) choosesAsAtStart() bool {
	return sameChoices(s.choices(), s.settings.ChosenAtStart())
}

// sameChoices compares choices by value. nil means the configuration's values.
func sameChoices(a, b *rewrite.Choices) bool { return a == b || a != nil && b != nil && *a == *b }

// optionsRan records a RESET ALL or DISCARD ALL in a block that has choices of its own (parts.by).
func optionsRan(s *session, _ *owed, st *rewrite.Statement, tag []byte) {
	if tag == nil || st == nil || !hasChange(st, rewrite.ResetAll, rewrite.DiscardAll) {
		return
	}
	if s.parts != nil && s.parts.by != nil {
		s.parts.by = &rewrite.Choices{}
		if start := s.settings.ChosenAtStart(); start != nil {
			s.parts.by = start
		}
	}
}

// choose carries out SET, RESET or SET TO DEFAULT of a setting of Sluice, which the next text is planned by. frame goes
// before the command tag: a warning of SET LOCAL without a block, or the notice of a weaker guarantee. After an error,
// which is for the client, nothing has changed.
func (s *session) choose(c *rewrite.Change, several bool) (frame []byte, err error) {
	value, err := s.mayChoose(c)
	if err != nil {
		return nil, err
	}
	key, _ := settings.OwnKey(c.Name)
	txOnly := c.Action == rewrite.SetLocal
	if txOnly && !several && !s.inBlock() {
		frame = warnNoTransaction.AppendNotice(nil, "WARNING")
	}
	if resets(c) {
		err = s.settings.KeepStartup(c.Name, txOnly)
	} else {
		err = s.settings.Keep(c.Name, value, txOnly)
		frame = s.tellChoice(frame, key, value)
	}
	if err == nil && s.parts != nil && s.parts.by != nil {
		by := s.parts.by.With(key, value)
		s.parts.by = &by
	}
	return frame, err
}

// resets reports whether a change restores the value from the startup packet.
func resets(c *rewrite.Change) bool { return c.Action == rewrite.Reset || c.Default }

// mayChoose returns the value that a change gives a setting of Sluice, in normal form; "" means the default. It changes
// nothing. division calls it before the statement's turn, and must get the same result then. An error is for the
// client.
func (s *session) mayChoose(c *rewrite.Change) (value string, err error) {
	key, _ := settings.OwnKey(c.Name)
	text := c.Text
	switch {
	case resets(c):
		text = s.settings.Startup.Kept[c.Name]
	case c.Text == "" && c.SQL != "''":
		err := s.srv.mayChoose(c.Name)
		if err == nil {
			err = settings.ErrOneArgument(c.Name)
		}
		return "", err
	}
	if text != "" || !resets(c) {
		if value, err := s.srv.chooses(c.Name, text); err != nil {
			return "", err
		} else {
			text = value
		}
	} else if err := s.srv.mayChoose(c.Name); err != nil {
		return "", err
	}
	after := rewrite.Choices{}
	if by := s.choices(); by != nil {
		after = *by
	}
	after = after.With(key, text)
	if s.plannerFor(&after).InTransactions() != s.parts.policy() && s.inBlock() && !s.freshBlock() {
		return "", errChosenLate(c.Name)
	}
	return text, nil
}

// chooses returns a client's value for a setting of Sluice, in normal form. The error is for the client. As in
// PostgreSQL it is of the name first, then of the permission, then of the value.
func (srv *Server) chooses(name, value string) (string, error) {
	if err := srv.mayChoose(name); err != nil {
		return "", err
	}
	key, _ := settings.OwnKey(name)
	normal, ok := rewrite.ReadChoice(key, value)
	if !ok {
		return "", &wire.Error{Code: "22023", Message: fmt.Sprintf("invalid value for parameter \"%s\": \"%s\"", name, value),
			Hint: "Available values: " + strings.Join(rewrite.ChoiceValues(key), ", ") + "."}
	}
	return normal, nil
}

// mayChoose returns the error of a setting of Sluice that clients may not SET, or nil.
func (srv *Server) mayChoose(name string) *wire.Error {
	key, _ := settings.OwnKey(name)
	switch {
	case name == retryOption:
		return &wire.Error{Code: "55P02", Message: "parameter \"" + name + "\" cannot be set after connection start",
			Hint: "Give it at the startup, options=-c " + name + "=off, or write /* sluice: no-retry */ in a statement of the transaction."}
	case !rewrite.IsChoice(key):
		return errNoChoice(name)
	case !slices.Contains(srv.cfg.MaySet, key):
		return &wire.Error{Code: "42501", Message: "permission denied to set parameter \"" + name + "\"",
			Detail: "Its key is not among those that clients may choose.", Hint: "Add " + key + " to client.may_set in Sluice's configuration, or set it there, for all or by user (client.users)."}
	}
	return nil
}

// chosenAt returns the value that SHOW answers for a setting of Sluice. The value may be the client's, its user's or
// the configuration's. An error is for the client.
func (s *session) chosenAt(name string) (string, *wire.Error) {
	key, _ := settings.OwnKey(name)
	switch {
	case name == retryOption && s.srv.replays != nil && !s.optedOut:
		return "on", nil
	case name == retryOption:
		return "off", nil
	case !rewrite.IsChoice(key):
		return "", errNoChoice(name)
	}
	all := *s.chosen.user
	if by := s.choices(); by != nil {
		all = by.Over(all)
	}
	return s.srv.planner.Shown(key, all), nil
}

// shown returns the value that SHOW answers for a setting without a server. An error is for the client.
func (s *session) shown(name string) (string, *wire.Error) {
	if settings.IsOwn(name) {
		return s.chosenAt(name)
	}
	if name == transactionReadOnly {
		return "on", nil
	}
	return s.settings.Shown(name), nil
}

// tellChoice counts a choice in the metrics. If it weakens a guarantee, tellChoice appends a NOTICE, unless the
// client's client_min_messages excludes notices.
func (s *session) tellChoice(frames []byte, key, value string) []byte {
	s.srv.metrics.Choice(key)
	if gives := rewrite.GivenUp(key, value); gives != "" && s.hearsNotices() {
		e := wire.Error{Code: codeNotice, Message: key + " is " + value + " for this client: " + gives}
		return e.AppendNotice(frames, "NOTICE")
	}
	return frames
}

// tellStartupChoices appends one NOTICE per weaker choice in the startup packet, and counts those of Config.Users too.
func (s *session) tellStartupChoices(frames []byte) []byte {
	by := s.settings.Chosen()
	if by == nil && s.chosen.user == &noChoices {
		return frames
	}
	for i, key := range rewrite.ChoiceKeys() {
		if by != nil && by[i] != "" {
			frames = s.tellChoice(frames, key, by[i])
		} else if s.chosen.user[i] != "" {
			s.srv.metrics.Choice(key)
		}
	}
	return frames
}

// errNoChoice is the error of an unknown setting sluice.*.
func errNoChoice(name string) *wire.Error {
	return &wire.Error{Code: "42704", Message: "unrecognized configuration parameter \"" + name + "\"",
		Hint: "Clients may choose, where client.may_set lists the key: sluice." + strings.Join(rewrite.ChoiceKeys(), ", sluice.") + "."}
}

// errChosenLate refuses to change how a block is committed after the block has run a statement.
func errChosenLate(name string) *wire.Error {
	return &wire.Error{Code: "25001", Message: "\"" + name + "\" must be set before any other statement of the transaction",
		Detail: "It would change how the transaction is committed that is under way.", Hint: "Set it behind BEGIN, or outside of a transaction."}
}
