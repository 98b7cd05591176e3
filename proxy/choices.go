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

// What a client has otherwise than the configuration says (rewrite.Choices): its user's values (Config.Users), over
// these what its startup gave, over these what it has SET. They are settings of Sluice's own, sluice.<key>, which no
// server sees: package settings keeps them, with the transactions, savepoints and resets that settings have. Of most
// sessions there are none, which costs them the comparison of two pointers.
//
// A text is planned by the choices that are in force when it comes, and a prepared statement anew where others are in
// force at its Bind. A string is planned as a whole: with choices in it, it is run in pieces, each planned when what
// stands in front has run; the rest of one that begins with all of its choices is one piece (choosesFirst), of others
// see choicestring.go. Behind a COMMIT whose answer is still owed, what is in force is waited for (closeGroup).
//
// How a block is committed (ddl.in_transactions) is settled with its first statement: no later one can change it, and a
// RESET ALL or the end of a SET LOCAL does so for the next block. What is chosen in the block for its duration outlives
// the parts that are committed (parts.by).

// chosen is how a session has its statements carried out. planner (the method) keeps it up to date.
type chosen struct {
	// planner plans its texts; never nil.
	planner *rewrite.Planner
	// by are the client's choices that it was made for; nil for none.
	by *rewrite.Choices
	// user is what the client's user has, under all that the client chooses; never nil, and of all sessions.
	user *rewrite.Choices
}

// noChoices are those of a user who has none.
var noChoices rewrite.Choices

// choices are the client's as they stand; nil: it has chosen nothing. They are compared by pointer.
func (s *session) choices() *rewrite.Choices {
	if s.parts != nil && s.parts.by != nil {
		if s.inBlock() || s.t != nil && s.t.outside {
			return s.parts.by
		}
	}
	return s.settings.Chosen()
}

// planner is what plans the session's next text. The way of most is two comparisons. While a block
// goes on by another policy than is chosen by now, each text asks adopt, which leaves it so.
func (s *session) planner() *rewrite.Planner {
	if by := s.choices(); by != s.chosen.by || s.chosen.planner.InTransactions() != s.parts.policy() {
		s.adopt(by)
	}
	return s.chosen.planner
}

// adopt has the session go by other choices.
func (s *session) adopt(by *rewrite.Choices) {
	c := &s.chosen
	if by != c.by || c.planner == nil {
		c.by, c.planner = by, s.plannerFor(by)
	}
	if how := c.planner.InTransactions(); how != s.parts.policy() && s.mayAdopt() {
		s.parts = s.partsOf(how)
	}
}

// plannerFor is the planner under choices of the client.
func (s *session) plannerFor(by *rewrite.Choices) *rewrite.Planner {
	all := *s.chosen.user
	if by != nil {
		all = by.Over(all)
	}
	return s.srv.planner.Under(all)
}

// mayAdopt reports whether it may change now how transactions with DDL are committed: no block is
// open, or one that has run nothing.
func (s *session) mayAdopt() bool {
	return !s.dedicated && (s.t == nil || !s.t.outside) && (!s.inBlock() || s.freshBlock())
}

// freshBlock reports a block of which there is nothing but a BEGIN, held back or at the server.
func (s *session) freshBlock() bool {
	switch {
	case len(s.tx.marks) > 0, s.partlyDone():
		return false
	case s.state == begun:
		return s.tx.log == nil // that is made for a savepoint
	}
	return s.b != nil && !s.tx.ran && s.status() != 'E'
}

// notesRun is told for every session: what can be chosen is not looked up, and two branches cost less.
// It is told of a text that is about to be sent, as its client wrote it. A choice may have a
// place in the server's order: it is none of what the block has run. Behind an end another block begins.
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

// partsOf is what a session knows of the block that it may begin, or has just begun; nil where it is
// not committed in parts.
func (s *session) partsOf(how rewrite.InTransactions) *parts {
	if how == rewrite.RefuseDDL || s.srv.cfg.dedicated() {
		return nil
	}
	return &parts{how: how}
}

// outchosen reports whether a statement was planned under other choices, on which its plan may
// depend. It is asked for each Bind, and allocates nothing.
func (s *session) outchosen(t *template) bool { return t.by != t.plan.Choosable(s.planner()) }

// chooses runs a string that has choices, at its beginning or elsewhere (choicestring.go). Of any other
// text it does nothing, and costs no more than a look at the first statement and the changes of others.
func (s *session) chooses(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if done, err := s.choosesFirst(plan, sql); done || err != nil {
		return done, err
	}
	return s.choosesInString(plan, sql)
}

// choosesFirst runs a string that begins with choices, as a migration in a file may: each by itself,
// and then what is behind them, planned by what is in force. Outside of a block a string is a
// transaction: where it fails the choices are taken back. The turn is over then. done: false for any
// other text, and outside of a block for one with BEGINs and ends of its own.
func (s *session) choosesFirst(plan *rewrite.Plan, text []byte) (done bool, err error) {
	n, ends := leadingChoices(plan)
	if n == 0 || ends && !s.inBlock() || s.dedicated || s.t.touched || s.state == failed || s.status() == 'E' {
		return false, nil
	}
	sql, block, before := string(text), s.inBlock(), s.settings.Snapshot()
	how := nested{optsOut: s.t.optsOut || s.srv.replays != nil && retry.OptsOut(text), shift: s.t.shift}
	// Each choice is a turn, and all that is behind them is one, as if the client had sent it by itself:
	// positions in its errors are those of the whole text.
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
		// In a block the client's ROLLBACK takes them back, as it does what it has SET otherwise.
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

// leadingChoices counts the statements at the beginning of a string that are choices for the session,
// with others behind them of which none is one; ends: among these some begin or end a transaction.
// SET LOCAL is for a transaction, and set_config has a row to answer with: neither is such a choice.
func leadingChoices(plan *rewrite.Plan) (n int, ends bool) {
	// Of a text that nobody has read no statement is known.
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
		n-- // the last stands for what is behind the others
	}
	return n, ends
}

// isChoice reports a SET or RESET of a setting of Sluice's own that lasts.
func isChoice(st *rewrite.Statement) bool {
	return st.Told == nil && len(st.Changes) == 1 && settings.IsOwn(st.Changes[0].Name) && (st.Changes[0].Action == rewrite.Set || st.Changes[0].Action == rewrite.Reset)
}

// choosesAsAtStart reports whether a RESET ALL would leave the client's choices as they are.
func (s *session) choosesAsAtStart() bool {
	return sameChoices(s.choices(), s.settings.ChosenAtStart())
}

// sameChoices compares by value, and nil is the configuration's.
func sameChoices(a, b *rewrite.Choices) bool { return a == b || a != nil && b != nil && *a == *b }

// optionsRan records a RESET ALL in a block whose parts have options of their own.
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

// choose is SET, RESET and SET TO DEFAULT of a setting of Sluice's own; frame goes in front of the
// tag: a warning of a SET LOCAL without a block, and the notice of what is given up. The next text is
// planned by it. An error is for the client, and nothing is changed.
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

// resets reports a change that returns to what the startup gave.
func resets(c *rewrite.Change) bool { return c.Action == rewrite.Reset || c.Default }

// mayChoose is the value that a change gives a setting of Sluice's own, as it is kept; "" where
// nothing is said then. Nothing is changed by asking: strings of one statement ask before the
// statement's turn has come (division), and must find the same then. An error is for the client.
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

// chooses is a value of a setting of Sluice's own, as it is kept, where a client may choose it: by its startup, and by
// SET. The error is for the client: first of the name, then of the right, as PostgreSQL has it, and then of the value.
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

// mayChoose is the error of a setting of Sluice's own that a client may not SET; nil for any other.
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

// chosenAt is what SHOW of a setting of Sluice's own tells: what is in force, whoever has said so, and
// whether the client may change it or not. The error is for the client.
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

// shown is what SHOW of a setting that Sluice answers for tells. The error is for the client.
func (s *session) shown(name string) (string, *wire.Error) {
	if settings.IsOwn(name) {
		return s.chosenAt(name)
	}
	if name == transactionReadOnly {
		return "on", nil
	}
	return s.settings.Shown(name), nil
}

// tellChoice counts a choice, and appends what the client is told of what it gives up, unless it wants
// no notices. A choice of the stronger guarantee is counted too, and nothing is told.
func (s *session) tellChoice(frames []byte, key, value string) []byte {
	s.srv.metrics.Choice(key)
	if gives := rewrite.GivenUp(key, value); gives != "" && s.hearsNotices() {
		e := wire.Error{Code: codeNotice, Message: key + " is " + value + " for this client: " + gives}
		return e.AppendNotice(frames, "NOTICE")
	}
	return frames
}

// tellStartupChoices is tellChoice for all that the startup gave, and counts those of the user.
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

// errNoChoice is a setting of Sluice's own that there is not.
func errNoChoice(name string) *wire.Error {
	return &wire.Error{Code: "42704", Message: "unrecognized configuration parameter \"" + name + "\"",
		Hint: "Clients may choose, where client.may_set lists the key: sluice." + strings.Join(rewrite.ChoiceKeys(), ", sluice.") + "."}
}

// errChosenLate refuses to change how a block is committed that has run something.
func errChosenLate(name string) *wire.Error {
	return &wire.Error{Code: "25001", Message: "\"" + name + "\" must be set before any other statement of the transaction",
		Detail: "It would change how the transaction is committed that is under way.", Hint: "Set it behind BEGIN, or outside of a transaction."}
}
