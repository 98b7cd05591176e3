package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Transactions with DDL that are committed in parts (ddl.in_transactions). A transaction of
// DSQL takes one statement of DDL and no change of rows beside it, while migration tools put a
// whole migration in a transaction.
//
// A part is committed as late as can be: in front of the statement that does not go with it.
// So a transaction that holds one statement of DDL, or none, is run as it was asked, and what
// the last part holds can be rolled back. Each part is a transaction of its own, with a log and
// replays of its own.
//
//	in a block         a statement that does not go with the part: COMMIT and BEGIN in front
//	of several steps   outside: Sluice carries such a statement out in transactions of its own
//	string             cut into groups, each as if it were sent by itself
//
// An early commit is refused, and with it the statement, where it would do more than its client
// has asked for: behind a DROP of what holds rows, behind SET LOCAL, in the middle of a
// pipeline. A block that was begun READ ONLY, or with other modes that a BEGIN of Sluice's own
// would lose, is left to the server. So is a text that the server refuses anyway.
//
// Savepoints end with their part. To release one is to say that what stands behind it shall
// stay, which it does; a return to one is refused.
//
// The client is told of each early commit by a WARNING, and by another one what a ROLLBACK
// leaves. Once a part is committed no conflict is told as one (partly): the client would send
// the whole transaction again.

// parts is what a session knows of the block that it is in, for as long as it may have to be
// committed in parts.
type parts struct {
	// open is what the part that has not been committed asks of its transaction, and lists its
	// statements; stays are the statements of the parts before.
	open  rewrite.Demand
	lists labels
	stays labels
	// savepoints are those of the parts before, which nobody can return to.
	savepoints []string
	// whole: the block cannot be committed in parts, since it was begun with modes that a
	// BEGIN of Sluice's own would not have. over: its end was sent.
	whole, over bool
}

// labels are statements as a message names them: so many, and how many more.
type labels struct {
	named []string
	more  int
}

// mostLabel bounds a statement in a message, in characters.
const mostLabel = 60

// add takes a statement by its text.
func (l *labels) add(sql string) {
	if len(l.named) >= mostListed {
		l.more++
		return
	}
	name := []rune(strings.Join(strings.Fields(sql[:min(len(sql), 4*mostLabel)]), " "))
	if len(name) > mostLabel {
		name = append(name[:mostLabel-3], []rune("...")...)
	}
	l.named = append(l.named, string(name))
}

// join takes over what other has.
func (l *labels) join(other labels) {
	for _, name := range other.named {
		l.add(name)
	}
	l.more += other.more
}

func (l *labels) empty() bool { return len(l.named) == 0 }

// String lists the statements, as part of a sentence.
func (l *labels) String() string {
	all := strings.Join(l.named, "; ")
	if l.more > 0 {
		all += fmt.Sprintf("; and %d more", l.more)
	}
	return all
}

// commitsParts reports whether the session's transactions may be committed in parts.
func (s *session) commitsParts() bool { return s.parts != nil }

// partlyDone reports whether a part of the transaction is committed.
func (s *session) partlyDone() bool { return s.parts != nil && !s.parts.stays.empty() }

// mark is what a return to a savepoint brings back: the part that is open.
func (p *parts) mark() *parts {
	if p == nil {
		return nil
	}
	return &parts{open: p.open, lists: labels{slices.Clip(p.lists.named), p.lists.more}}
}

// returnTo brings it back.
func (p *parts) returnTo(m *parts) {
	if p != nil && m != nil {
		p.open, p.lists = m.open, labels{slices.Clip(m.lists.named), m.lists.more}
	}
}

// inParts is told of a simple Query before it is answered or sent. done: the text was run, in
// groups or outside of its block, and the turn is over. Else there is room for it in the
// transaction. An error is for the client, or the session's end.
func (s *session) inParts(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if !s.commitsParts() { // the way of most: nothing is allocated
		return false, nil
	}
	if s.t.outside || s.t.touched || s.state == failed || s.status() == 'E' {
		return false, s.makeRoom(plan, string(sql), true)
	}
	// What the server refuses anyway goes there as it is, a string as a whole: nothing of it
	// stands then.
	if _, ok := plan.Demand(); !ok {
		return false, nil
	}
	if groups := plan.Groups(); groups != nil && (s.inBlock() || plan.TooMuch()) {
		return true, s.runGroups(plan, string(sql), groups)
	}
	if st := plan.Single(); st != nil && s.inBlock() && s.stepsOutside(st) {
		text := string(sql)
		return true, s.runOutside(st, text[st.Start:], func() (bool, error) { return s.part(text, 0, len(text), true) })
	}
	return false, s.makeRoom(plan, string(sql), true)
}

// stepsOutside reports whether a statement of a block is run outside of it: one that takes
// several transactions, and one whose job is awaited, unless nothing is beside it so far.
func (s *session) stepsOutside(st *rewrite.Statement) bool {
	p := s.parts
	return !p.whole && (st.Alters() ||
		st.Job == rewrite.AwaitedJob && (p.open.DDL || p.open.Rows || !p.stays.empty()))
}

// holdsBegin reports a BEGIN that is held back also where it comes by the extended protocol, so
// that what stands behind it in its group may still be run outside of the block: JDBC puts BEGIN
// in front of the first statement.
func (s *session) holdsBegin(st *rewrite.Statement) bool {
	return s.commitsParts() && st.Tx.DeferrableBegin()
}

// altersOutside is stepsOutside for a portal: it is run at the Sync, with nothing else in its
// group but the BEGIN in front of it.
func (s *session) altersOutside(st *rewrite.Statement) bool {
	return s.commitsParts() && !s.t.touched && s.inBlock() && s.stepsOutside(st)
}

// isOutside reports whether a text is such a statement, and so no part of the block.
func (s *session) isOutside(plan *rewrite.Plan) bool {
	st := plan.Single()
	return st != nil && st.Alters() && s.altersOutside(st)
}

// syncOutside is the Sync behind such a portal.
func (s *session) syncOutside(st *rewrite.Statement) error {
	return s.runOutside(st, st.AlterText(), func() (bool, error) {
		_, failed, err := s.turnInside(inside{outside: true}, func() error {
			s.t.ended = true
			if err := s.runLocal(st, false, false); err != nil {
				return err
			}
			return s.ready()
		})
		return failed, err
	})
}

// makeRoom has the part that is open committed where a text does not go with it, before
// anything of the text is sent, and notes what the text asks for if it runs now. An error is
// for the client, or the session's end.
func (s *session) makeRoom(plan *rewrite.Plan, sql string, runs bool) error {
	p := s.parts
	if !s.commitsParts() || s.t.outside { // or it is Sluice's own
		return nil
	}
	if !s.inBlock() || p.over {
		*p = parts{}
	}
	if st := plan.Single(); st != nil && st.Tx.Verb != rewrite.NoVerb {
		if !runs {
			return nil
		}
		return s.noteControl(st)
	}
	if !s.inBlock() || s.state == failed || s.status() == 'E' || p.whole || s.isOutside(plan) {
		return nil
	}
	// A text that the server refuses whatever the transaction holds must not have the part
	// in front of it committed.
	want, ok := plan.Demand()
	if !ok {
		return nil
	}
	if !p.takesIn(want) {
		if err := s.commitPart(); err != nil {
			return err
		}
	}
	if runs {
		p.takes(want, sql)
	}
	return nil
}

// takesIn reports whether a text goes with what the part that is open holds.
func (p *parts) takesIn(want rewrite.Demand) bool {
	return !(want.DDL && (p.open.DDL || p.open.Rows)) && !(want.Rows && p.open.DDL)
}

// takes notes what a text asks of the part that is open. What fails is noted too: the block has
// failed then, and no part of it is committed any more.
func (p *parts) takes(want rewrite.Demand, sql string) {
	o := &p.open
	o.DDL, o.Rows, o.Drops, o.Local = o.DDL || want.DDL, o.Rows || want.Rows, o.Drops || want.Drops, o.Local || want.Local
	if want.DDL || want.Rows {
		p.lists.add(sql)
	}
}

// noteControl is told of a command about the transaction. Behind parts that are committed the
// client is told what a rollback leaves.
func (s *session) noteControl(st *rewrite.Statement) error {
	p := s.parts
	switch {
	case st.Tx.Verb == rewrite.Begin && !s.inBlock():
		p.whole = st.Tx.ReadOnly || st.Tx.Deferrable || st.Tx.Isolation == rewrite.Serializable
	case st.Tx.Verb == rewrite.SetTransaction, st.Tx.Verb == rewrite.PrepareTransaction:
		p.whole = true
	case endsBlock(st.Tx.Verb):
		rollsBack := st.Tx.Verb == rewrite.Rollback || s.status() == 'E'
		p.over = true
		if rollsBack && !p.stays.empty() {
			return s.tell(warnStays(&p.stays).AppendNotice(nil, "WARNING"))
		}
	}
	return nil
}

// commitPart commits what the block has run so far, and begins it anew. An error is for the
// client, whose block has failed then, or the session's end.
func (s *session) commitPart() error {
	p := s.parts
	switch {
	case s.t.touched:
		return errPartInPipeline
	case p.open.Drops && s.srv.cfg.InTransactions != rewrite.CommitDrops:
		return errDropsEarly(&p.lists)
	case p.open.Local:
		return errLocalInParts
	}
	p.savepoints = append(p.savepoints, s.tx.log.Names()...)
	lists := p.lists
	told, err := s.leaveBlock()
	// Where the COMMIT has failed the client is in a block all the same, which its error ends.
	if err == nil {
		_, err = s.command("BEGIN")
	}
	if err != nil {
		return err
	}
	if told != nil {
		return told
	}
	return s.tellPart(&lists)
}

// tellPart tells the client, and counts, that the statements are committed before it said so.
func (s *session) tellPart(l *labels) error {
	s.srv.metrics.EarlyCommit()
	return s.tell(warnPart(l).AppendNotice(nil, "WARNING"))
}

// leaveBlock commits what the block has run so far. Where that fails, told is why, and nothing
// of the part stands.
func (s *session) leaveBlock() (told *wire.Error, err error) {
	p := s.parts
	told, err = s.command("COMMIT")
	if err == nil && told == nil {
		p.stays.join(p.lists)
	}
	p.open, p.lists = rewrite.Demand{}, labels{}
	return told, err
}

// runOutside runs a statement of a block outside of it: what the block holds is committed, the
// statement, of that text, is run as if no block were open, and the block goes on. The turn is
// over then. run does it, and says whether it has failed.
func (s *session) runOutside(st *rewrite.Statement, sql string, run func() (failed bool, err error)) error {
	p := s.parts
	switch {
	case p.open.Drops && s.srv.cfg.InTransactions != rewrite.CommitDrops:
		return errDropsEarly(&p.lists)
	case p.open.Local:
		return errLocalInParts
	}
	lists := p.lists
	told, err := s.leaveBlock()
	failed := told != nil
	// The warning goes in front of the answer: it is true whatever becomes of the statement.
	if err == nil && !failed {
		lists.add(sql)
		if err = s.tellPart(&lists); err == nil {
			failed, err = run()
		}
	}
	if err == nil {
		_, err = s.command("BEGIN")
	}
	switch {
	case err != nil:
		return err
	case told != nil:
		return told
	case !failed:
		p.stays.add(sql)
		return s.ready()
	}
	s.t.errorTold = true
	if err := s.failBlock(); err != nil {
		return err
	}
	return s.ready()
}

// runGroups runs a string in groups, until one fails. The turn is over then.
func (s *session) runGroups(plan *rewrite.Plan, sql string, groups [][2]int) error {
	// A comment between two groups goes with neither; one that turns replay off counts for all.
	end := func(i int) int { return plan.Statements[groups[i][1]-1].End }
	var done labels
	for i, g := range groups {
		first := &plan.Statements[g[0]]
		// In a block makeRoom says so, of what the whole block holds.
		if drops := first.Drops && i+1 < len(groups); drops && !s.inBlock() && s.srv.cfg.InTransactions != rewrite.CommitDrops {
			var name labels
			name.add(sql[first.Start:first.End])
			return errDropsEarly(&name)
		}
		failed, err := s.part(sql, first.Start, end(i), false)
		if err != nil {
			return err
		}
		if failed {
			s.t.errorTold = true
			if !done.empty() && !s.inBlock() {
				if err := s.tell(warnStays(&done).AppendNotice(nil, "WARNING")); err != nil {
					return err
				}
			}
			return s.ready()
		}
		if s.inBlock() || first.Tx.Verb != rewrite.NoVerb {
			continue
		}
		var group labels
		group.add(sql[first.Start:end(i)])
		done.join(group)
		if i+1 < len(groups) {
			if err := s.tellPart(&group); err != nil {
				return err
			}
		}
	}
	return s.ready()
}

// partly is what the client is told in the place of a conflict, where a part of its transaction
// is committed: to send the whole again would apply that part twice. nil for any other error.
func (s *session) partly(class retry.Class, payload []byte) []byte {
	if class != retry.Conflict || !s.partlyDone() {
		return nil
	}
	return errPartly(toldBy(payload), &s.parts.stays).Append(nil)
}

// partlyRefused is partly for an error of Sluice's own.
func (s *session) partlyRefused(e *wire.Error) *wire.Error {
	if e.Code != retry.StateConflict || !s.partlyDone() {
		return e
	}
	return errPartly(e, &s.parts.stays)
}

// releasedBefore answers RELEASE of a savepoint of a part that is committed, and refuses a
// return to one. done is false for any other name.
func (s *session) releasedBefore(verb rewrite.Verb, name string) (done bool, err error) {
	if s.parts == nil {
		return false, nil
	}
	i := slices.Index(s.parts.savepoints, name)
	switch {
	case i < 0 || verb == rewrite.Savepoint || s.parts.over:
		return false, nil
	case verb == rewrite.RollbackTo:
		return true, errNoReturn(name, "What the transaction did before is committed ("+rewrite.InTransactionsKey+"): "+s.parts.stays.String()+".")
	}
	s.parts.savepoints = s.parts.savepoints[:i]
	return true, s.tell(wire.AppendCommand(nil, "RELEASE"))
}

// warnPart is told with each early commit.
func warnPart(l *labels) *wire.Error {
	return &wire.Error{Code: "01000", Message: "a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction",
		Detail: "Committed: " + l.String() + ".", Hint: rewrite.InTransactionsKey + " says so. A ROLLBACK does not take that part back."}
}

// warnStays is told with a ROLLBACK, and where a string has stopped.
func warnStays(l *labels) *wire.Error {
	return &wire.Error{Code: "01000", Message: "what was committed before stays (" + rewrite.InTransactionsKey + ")", Detail: "Committed: " + l.String() + "."}
}

// errPartly is told in the place of a conflict.
func errPartly(conflict *wire.Error, l *labels) *wire.Error {
	return &wire.Error{Code: "25000", Message: "the rest of a transaction that is committed in part met a conflict: " + conflict.Message,
		Detail: "Committed: " + l.String() + ".", Hint: "Do not send the whole transaction again: go on behind what is committed."}
}

// errDropsEarly refuses to commit a DROP that its client has not committed.
func errDropsEarly(l *labels) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: "the transaction drops what holds rows, and would be committed before its end",
		Detail: "It holds: " + l.String() + ".", Hint: rewrite.DropsHint}
}

var (
	errPartInPipeline = &wire.Error{Code: retry.StateUnsupported, Message: "the transaction cannot be committed in the middle of a pipeline",
		Detail: "DSQL takes one statement of DDL in a transaction, and no change of rows beside it.", Hint: "Send a Sync in front of the statement."}
	errLocalInParts = &wire.Error{Code: retry.StateUnsupported, Message: "a transaction with SET LOCAL cannot be committed in parts",
		Detail: "What is set until the end of the transaction would be lost.", Hint: "Write SET without LOCAL."}
)
