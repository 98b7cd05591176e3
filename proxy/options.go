package proxy

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A choice is a configuration key that one client has changed for itself, as by SET sluice.ddl.in_transactions =
// 'commit' (rewrite.ClientOptions). SET overrides the startup packet, which overrides the user's values (Config.Users).
// No server gets these settings. Package settings stores them, with transactions, savepoints and resets as of any
// setting. Most sessions have none.
//
// Sluice plans a query by the current choices. A prepared statement is planned again if they differ at its Bind. A
// multi-statement query that contains choices is run in pieces, each planned when the pieces before it have run.
// queryWithLeadingOptions runs queries that begin with all of their choices, optionscript.go the others. While a COMMIT
// is unanswered, a session waits for the choices after it (finishEarlierFrames).
//
// A block's first statement settles how the block is committed (ddl.in_transactions). A later RESET ALL or the end of a
// SET LOCAL applies to the next block. Choices for the duration of a block survive an early commit of its first part
// (parts.options).

// sessionOptions has a session's planner, and the client's choices (sluice.*) that it was made for.
type sessionOptions struct {
	// planner plans the session's queries. It is never nil.
	planner *rewrite.Planner
	// options has the client's choices (sluice.* settings) at the time when the planner was made, or is nil for none.
	options *rewrite.ClientOptions
	// userOptions has the sluice.* options of Config.Users for the client's user. It is never nil, and sessions share it.
	userOptions *rewrite.ClientOptions
}

// noUserOptions has no sluice.* options, for users who are not in Config.Users.
var noUserOptions rewrite.ClientOptions

// currentOptions returns the client's current choices (sluice.*), or nil. Callers compare the pointers.
func (s *session) currentOptions() *rewrite.ClientOptions {
	if s.parts != nil && s.parts.options != nil {
		if s.inBlock() || s.t != nil && s.t.outsideBlock {
			return s.parts.options
		}
	}
	return s.settings.Options()
}

// planner returns the planner for the session's next query, usually after two comparisons. If ddl.in_transactions has
// changed during a block, it calls applyOptions for each query, which does not change the block.
func (s *session) planner() *rewrite.Planner {
	if by := s.currentOptions(); by != s.chosen.options || s.chosen.planner.InTransactions() != s.parts.commitPolicy() {
		s.applyOptions(by)
	}
	return s.chosen.planner
}

// applyOptions changes the session's planner to the options by (sluice.*). If canChangeDDLPolicy allows, it changes the
// policy for DDL in blocks too.
func (s *session) applyOptions(by *rewrite.ClientOptions) {
	c := &s.chosen
	if by != c.options || c.planner == nil {
		c.options, c.planner = by, s.plannerForOptions(by)
	}
	if how := c.planner.InTransactions(); how != s.parts.commitPolicy() && s.canChangeDDLPolicy() {
		s.parts = s.partsForPolicy(how)
	}
}

// plannerForOptions returns the planner for a client's options (sluice.*), which override the options of its user.
func (s *session) plannerForOptions(by *rewrite.ClientOptions) *rewrite.Planner {
	all := *s.chosen.userOptions
	if by != nil {
		all = by.WithDefaults(all)
	}
	return s.srv.planner.ForOptions(all)
}

// canChangeDDLPolicy reports whether the session may now change how transactions with DDL are committed. The result is
// true outside a block, and in a block that has run no statement.
func (s *session) canChangeDDLPolicy() bool {
	return !s.dedicated && (s.t == nil || !s.t.outsideBlock) && (!s.inBlock() || s.isBlockEmpty())
}

// isBlockEmpty reports whether the block has run no statement but BEGIN, which may be unsent or at the server.
func (s *session) isBlockEmpty() bool {
	switch {
	case len(s.tx.marks) > 0, s.hasCommittedStatements():
		return false
	case s.state == begun:
		return s.tx.log == nil // that is made for a savepoint
	}
	return s.b != nil && !s.tx.ran && s.txStatus() != 'E'
}

// trackStatementsRun records whether the block has run any statement, by the plan of a query that is about to be sent.
// A SET of a choice (sluice.*) is not such a statement. After COMMIT or ROLLBACK the next block has run nothing. All
// sessions call trackStatementsRun, even where clients may choose nothing, since two branches cost less than a lookup.
func (tx *transaction) trackStatementsRun(plan *rewrite.Plan) {
	if len(plan.Statements) == 0 {
		tx.ran = true
	}
	for i := range plan.Statements {
		switch st := &plan.Statements[i]; {
		case st.Tx.Verb.EndsBlock():
			tx.ran = false
		case st.Tx.Verb != rewrite.Begin && (len(st.Changes) != 1 || !settings.IsProxySetting(st.Changes[0].Name)):
			tx.ran = true
		}
	}
}

// partsForPolicy returns the state for blocks that are committed in parts, or nil if how refuses DDL in blocks.
func (s *session) partsForPolicy(how rewrite.DDLInTransactions) *blockParts {
	if how == rewrite.RefuseDDL || s.srv.cfg.hasDedicatedBackends() {
		return nil
	}
	return &blockParts{inTransactions: how}
}

// optionsChanged reports whether the statement was planned under other sluice.* options of the client, on which its
// plan may depend. Each Bind calls it, so that it allocates nothing.
func (s *session) optionsChanged(t *statement.Template) bool {
	return t.PlannerNumber != t.Plan.VariantNumberIn(s.planner())
}

// queryWithOptions runs a multi-statement query that contains choices (SETs of sluice.*). For any other query done is
// false, and only the list of statements was examined.
func (s *session) queryWithOptions(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if done, err := s.queryWithLeadingOptions(plan, sql); done || err != nil {
		return done, err
	}
	return s.queryWithInnerOptions(plan, sql)
}

// queryWithLeadingOptions runs a multi-statement query that begins with choices, as a migration file may: SET sluice.x
// = 'y'; CREATE TABLE ...; The choices run first, and the rest is planned by them. Outside a block a failure takes the
// choices back. If done is true the turn is over. done is false for other queries, and BEGIN or COMMIT outside a block.
func (s *session) queryWithLeadingOptions(plan *rewrite.Plan, text []byte) (done bool, err error) {
	n, ends := countLeadingOptions(plan)
	if n == 0 || ends && !s.inBlock() || s.dedicated || s.t.touched || s.state == failed || s.txStatus() == 'E' {
		return false, nil
	}
	sql, block, before := string(text), s.inBlock(), s.settings.Snapshot()
	how := nestedTurn{optsOut: s.t.optsOut || s.srv.replays != nil && retry.HasNoRetryComment(text), shift: s.t.shift}
	// Each choice (SET of sluice.*) is a nested turn. The rest of the query is one turn, as if the client had sent that
	// rest alone. But positions in errors count from the start of the whole query.
	at := 0
	for i := 0; i <= n; i++ {
		from, to := plan.Statements[i].Start, plan.Statements[i].End
		if i == n {
			to = len(sql)
		}
		how.shift += utf8.RuneCountInString(sql[at:from])
		at = from
		ran, err := s.runNestedQuery(sql[from:to], how)
		if err != nil {
			return true, err
		}
		stopped := ran.Stopped != nil && i < n
		// In a block the client's ROLLBACK takes the choices (SETs of sluice.*) back, like other settings.
		if (ran.Failed || stopped) && !block {
			s.settings.RestoreLocal(before)
		}
		switch {
		case ran.Failed:
			s.t.errorTold = true
			return true, s.endTurnLocally()
		case stopped:
			return true, ran.Stopped
		}
	}
	return true, s.endTurnLocally()
}

// countLeadingOptions returns how many choices (SETs of sluice.*) a multi-statement query begins with. If a later
// statement is also a choice, it returns 0. ends reports whether a later statement begins or ends a transaction. SET
// LOCAL is not counted, since it needs a transaction. set_config is not counted, since it returns a row.
func countLeadingOptions(plan *rewrite.Plan) (n int, ends bool) {
	// The parser has produced no list of statements for a query that it could not parse.
	if len(plan.Statements) < 2 || plan.Kind == rewrite.Unknown || !isOptionChange(&plan.Statements[0]) {
		return 0, false
	}
	for n < len(plan.Statements) && isOptionChange(&plan.Statements[n]) {
		n++
	}
	for i := n; i < len(plan.Statements); i++ {
		ends = ends || plan.Statements[i].Tx.Verb != rewrite.NoVerb
		if slices.ContainsFunc(plan.Statements[i].Changes, func(c rewrite.SettingChange) bool {
			return settings.IsProxySetting(c.Name) || c.Action == rewrite.ResetAll
		}) {
			return 0, false
		}
	}
	if n == len(plan.Statements) {
		n-- // the last choice takes the place of the rest
	}
	return n, ends
}

// isOptionChange reports whether a statement is SET or RESET of a setting of Sluice (sluice.*), other than SET LOCAL.
func isOptionChange(st *rewrite.Statement) bool {
	return st.SetConfigColumns == nil && len(st.Changes) == 1 && settings.IsProxySetting(st.Changes[0].Name) && (st.Changes[0].Action == rewrite.Set || st.Changes[0].Action == rewrite.Reset)
}

// hasStartupOptions reports whether RESET ALL would leave the client's choices (sluice.* settings) unchanged.
func (s *session) hasStartupOptions() bool {
	return sameOptions(s.currentOptions(), s.settings.StartupOptions())
}

// sameOptions reports whether two clients' choices (sluice.* settings) have equal values. nil is the configuration's.
func sameOptions(a, b *rewrite.ClientOptions) bool { return a == b || a != nil && b != nil && *a == *b }

// recordOptionsReset records a RESET ALL or DISCARD ALL in a block that has its own sluice.* options (parts.options).
func recordOptionsReset(s *session, _ *pendingReply, st *rewrite.Statement, tag []byte) {
	if tag == nil || st == nil || !hasChange(st, rewrite.ResetAll, rewrite.DiscardAll) {
		return
	}
	if s.parts != nil && s.parts.options != nil {
		s.parts.options = &rewrite.ClientOptions{}
		if start := s.settings.StartupOptions(); start != nil {
			s.parts.options = start
		}
	}
}

// setOption carries out SET, RESET or SET TO DEFAULT of a setting of Sluice, by which the next query is planned. frame,
// a warning or notice, precedes the command tag: of SET LOCAL without a block, or of a weaker guarantee. After an
// error, which goes to the client, nothing has changed.
func (s *session) setOption(c *rewrite.SettingChange, several bool) (frame []byte, err error) {
	value, err := s.validateOptionChange(c)
	if err != nil {
		return nil, err
	}
	key, _ := settings.ProxySettingKey(c.Name)
	txOnly := c.Action == rewrite.SetLocal
	if txOnly && !several && !s.inBlock() {
		frame = warnNoTransaction.AppendNotice(nil, "WARNING")
	}
	if resetsToStartup(c) {
		err = s.settings.ResetLocalToStartup(c.Name, txOnly)
	} else {
		err = s.settings.StoreLocal(c.Name, value, txOnly)
		frame = s.appendOptionNotice(frame, key, value)
	}
	if err == nil && s.parts != nil && s.parts.options != nil {
		by := s.parts.options.WithOption(key, value)
		s.parts.options = &by
	}
	return frame, err
}

// resetsToStartup reports whether a change of a setting restores the setting's value from the startup packet.
func resetsToStartup(c *rewrite.SettingChange) bool { return c.Action == rewrite.Reset || c.Default }

// validateOptionChange returns the value that a change gives a setting of Sluice, in normal form. "" means the default.
// It changes nothing. A call before the statement's turn and a call in the turn must return the same value. A returned
// error goes to the client.
func (s *session) validateOptionChange(c *rewrite.SettingChange) (value string, err error) {
	key, _ := settings.ProxySettingKey(c.Name)
	text := c.Text
	switch {
	case resetsToStartup(c):
		text = s.settings.Startup.StartupLocal[c.Name]
	case c.Text == "" && c.SQL != "''":
		err := s.srv.checkOptionAllowed(c.Name)
		if err == nil {
			err = settings.ErrOneArgument(c.Name)
		}
		return "", err
	}
	if text != "" || !resetsToStartup(c) {
		if value, err := s.srv.normalizeOption(c.Name, text); err != nil {
			return "", err
		} else {
			text = value
		}
	} else if err := s.srv.checkOptionAllowed(c.Name); err != nil {
		return "", err
	}
	after := rewrite.ClientOptions{}
	if by := s.currentOptions(); by != nil {
		after = *by
	}
	after = after.WithOption(key, text)
	if s.plannerForOptions(&after).InTransactions() != s.parts.commitPolicy() && s.inBlock() && !s.isBlockEmpty() {
		return "", errOptionTooLate(c.Name)
	}
	return text, nil
}

// normalizeOption returns a client's value for a setting of Sluice, in normal form. A returned error goes to the
// client. As in PostgreSQL, the name is checked first, then the permission, then the value.
func (srv *Server) normalizeOption(name, value string) (string, error) {
	if err := srv.checkOptionAllowed(name); err != nil {
		return "", err
	}
	key, _ := settings.ProxySettingKey(name)
	normal, ok := rewrite.ParseClientOption(key, value)
	if !ok {
		return "", &wire.Error{Code: "22023", Message: fmt.Sprintf("invalid value for parameter \"%s\": \"%s\"", name, value),
			Hint: "Available values: " + strings.Join(rewrite.ClientOptionValues(key), ", ") + "."}
	}
	return normal, nil
}

// checkOptionAllowed returns an error if clients may not SET the given setting of Sluice, and nil otherwise.
func (srv *Server) checkOptionAllowed(name string) *wire.Error {
	key, _ := settings.ProxySettingKey(name)
	switch {
	case name == retryOption:
		return &wire.Error{Code: "55P02", Message: "parameter \"" + name + "\" cannot be set after connection start",
			Hint: "Give it at the startup, options=-c " + name + "=off, or write /* sluice: no-retry */ in a statement of the transaction."}
	case !rewrite.IsClientOption(key):
		return errUnknownOption(name)
	case !slices.Contains(srv.cfg.MaySet, key):
		return &wire.Error{Code: "42501", Message: "permission denied to set parameter \"" + name + "\"",
			Detail: "Its key is not among those that clients may choose.", Hint: "Add " + key + " to client.may_set in Sluice's configuration, or set it there, for all or by user (client.users)."}
	}
	return nil
}

// optionValue returns the value that SHOW answers for a setting of Sluice. The value may be the client's, its user's or
// the configuration's. The client gets the error.
func (s *session) optionValue(name string) (string, *wire.Error) {
	key, _ := settings.ProxySettingKey(name)
	switch {
	case name == retryOption && s.srv.replays != nil && !s.optedOut:
		return "on", nil
	case name == retryOption:
		return "off", nil
	case !rewrite.IsClientOption(key):
		return "", errUnknownOption(name)
	}
	all := *s.chosen.userOptions
	if by := s.currentOptions(); by != nil {
		all = by.WithDefaults(all)
	}
	return s.srv.planner.OptionValue(key, all), nil
}

// localShowValue returns the value that SHOW displays if Sluice answers the SHOW. A returned error goes to the client.
func (s *session) localShowValue(name string) (string, *wire.Error) {
	if settings.IsProxySetting(name) {
		return s.optionValue(name)
	}
	if name == transactionReadOnly {
		return "on", nil
	}
	return s.settings.ShownValue(name), nil
}

// appendOptionNotice counts a client's sluice.* option (key, value) in the metrics. If the option weakens a guarantee,
// it appends a NOTICE, unless the client's client_min_messages excludes notices.
func (s *session) appendOptionNotice(frames []byte, key, value string) []byte {
	s.srv.metrics.CountClientOption(key)
	if gives := rewrite.OptionLoss(key, value); gives != "" && s.wantsNotices() {
		e := wire.Error{Code: codeNotice, Message: key + " is " + value + " for this client: " + gives}
		return e.AppendNotice(frames, "NOTICE")
	}
	return frames
}

// appendStartupOptionNotices appends a NOTICE for each sluice.* option of the startup packet that weakens a guarantee.
// It counts the options of Config.Users too.
func (s *session) appendStartupOptionNotices(frames []byte) []byte {
	by := s.settings.Options()
	if by == nil && s.chosen.userOptions == &noUserOptions {
		return frames
	}
	for i, key := range rewrite.ClientOptionKeys() {
		if by != nil && by[i] != "" {
			frames = s.appendOptionNotice(frames, key, by[i])
		} else if s.chosen.userOptions[i] != "" {
			s.srv.metrics.CountClientOption(key)
		}
	}
	return frames
}

// errUnknownOption returns the error for a setting sluice.* that does not exist.
func errUnknownOption(name string) *wire.Error {
	return &wire.Error{Code: "42704", Message: "unrecognized configuration parameter \"" + name + "\"",
		Hint: "Clients may choose, where client.may_set lists the key: sluice." + strings.Join(rewrite.ClientOptionKeys(), ", sluice.") + "."}
}

// errOptionTooLate refuses to change how a block is committed after the block has run a statement.
func errOptionTooLate(name string) *wire.Error {
	return &wire.Error{Code: "25001", Message: "\"" + name + "\" must be set before any other statement of the transaction",
		Detail: "It would change how the transaction is committed that is under way.", Hint: "Set it behind BEGIN, or outside of a transaction."}
}
