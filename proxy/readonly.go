package proxy

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Clients whose transactions begin READ ONLY (default_transaction_read_only), of a server that
// knows no such setting. Package settings keeps it. PostgreSQL looks at it where a transaction
// begins, and not again: so does session.turn, and startsAnew where a turn has the end of a
// transaction in it.
//
//	BEGIN              is sent as BEGIN READ ONLY, unless it says READ WRITE; the server judges then
//	outside a block    Sluice judges by the text: what writes gets PostgreSQL's error (25006), in a
//	                   string at its place; what only may write is refused (0A000), since nobody
//	                   would hold it to reading
//	SHOW transaction_read_only   is Sluice's to answer outside of a block
//
// The error of a statement that writes comes before those of its names, which only the server
// knows: of a table that there is not PostgreSQL would say 42P01.

// txMode is what is known of how a transaction begins.
type txMode uint8

const (
	readWrite txMode = iota
	readOnly
	unsureMode // it depends on the end of the one before, which is not answered yet
)

// codeReadOnly is the SQLSTATE of what a transaction that is READ ONLY does not take.
const codeReadOnly = "25006"

const transactionReadOnly = "transaction_read_only"

// What follows of a turn's mode: it is a value, taken where a transaction may begin, and asked for
// each statement that no block is around.

// modeNow is how a transaction begins that begins now. A server that knows the setting sees to it
// by itself: of kind postgres, or dialled for its client alone.
func (s *session) modeNow() txMode {
	switch {
	case s.dedicated || s.srv.cfg.Kind != DSQL:
	case s.settings.ReadOnlyUnsettled():
		return unsureMode
	case s.settings.ReadOnly():
		return readOnly
	}
	return readWrite
}

// startsAnew is told of the end of a transaction in a turn: what follows is of another.
func (s *session) startsAnew() { s.t.mode = s.modeNow() }

// beginsReadOnly reports whether a BEGIN is sent as another, which says READ ONLY. Behind a first
// one it says nothing, as in PostgreSQL: its modes are the first one's.
func (s *session) beginsReadOnly(tx *rewrite.Transaction) bool {
	return s.t.mode == readOnly && saysNoMode(tx) && !s.inBlock()
}

// saysNoMode reports a BEGIN that leaves to the setting whether it is READ ONLY.
func saysNoMode(tx *rewrite.Transaction) bool {
	return tx.Verb == rewrite.Begin && !tx.ReadOnly && !tx.ReadWrite
}

// asReadOnly is that other BEGIN, whose tag is the same. In a string it is made by division.begin.
func asReadOnly(st *rewrite.Statement, sql []byte) string {
	return withMode(st, sql, &st.Tx, "READ ONLY")
}

// withMode is a BEGIN that says a mode beside those that tx has of it: READ ONLY or READ WRITE in
// the place of what the client has said of that, or has not. REPEATABLE READ is left out: a server
// of DSQL's kind has no other level.
func withMode(st *rewrite.Statement, sql []byte, tx *rewrite.Transaction, mode string) string {
	text := beginWord(st, sql)
	if tx.Isolation != rewrite.DefaultIsolation && tx.Isolation != rewrite.RepeatableRead {
		text += " ISOLATION LEVEL " + tx.Isolation.String()
	}
	switch {
	case tx.Waits:
		text += " DEFERRABLE"
	case tx.Deferrable:
		text += " NOT DEFERRABLE"
	}
	return text + " " + mode
}

// bindsReadOnly has the Bind of a BEGIN that is not held back, since its session has a backend or
// something else of its pipeline is there, be that of the other one: the server has the client's
// text as it was parsed. The frame is taken whole. From then on the statement is the portal's
// alone: by its own name the client has the one that it has parsed, for its next Bind. Of any other
// statement it does nothing. An error is for the client.
func (s *session) bindsReadOnly(b *binding) error {
	if !s.t.only {
		return nil
	}
	if err := s.takeWhole(b); err != nil {
		return err
	}
	st, sql := b.cs.tmpl.plan.Single(), []byte(b.cs.tmpl.sql)
	says := st.Tx
	if st.Weakened { // so it is once more, with its warning
		says.Isolation = rewrite.Serializable
	}
	tmpl, err := s.template([]byte(withMode(st, sql, &says, "READ ONLY")), []byte(b.cs.tmpl.oids))
	if err != nil {
		return err
	}
	made := s.newStatement(tmpl, 0)
	b.portal, b.stmt, b.cs = bytes.Clone(b.portal), bytes.Clone(b.stmt), &made
	return refusal(tmpl.plan)
}

// judgesMode is the error of a text that must not be sent as things stand, since it may write and
// stands outside of a block; nil for any other. Of reads that the schema may make writes see
// judgedRead. In a string what PostgreSQL would refuse fails at its place, and nothing behind it is
// run (denied).
func (s *session) judgesMode(plan *rewrite.Plan) error {
	if s.dedicated || s.srv.cfg.Kind != DSQL {
		return nil
	}
	s.t.denied, s.t.only = nil, false
	if st := plan.Single(); s.t.mode == readWrite && len(plan.Statements) < 2 && (st == nil || st.Tx.Verb != rewrite.Begin) { // the way of most
		return nil
	}
	if s.status() == 'E' && (len(plan.Statements) == 0 || !endsBlock(plan.Statements[0].Tx.Verb)) {
		return nil // it fails, whatever stands in it
	}
	j := judging{s: s, mode: s.t.mode, at: s.position(), first: !s.t.touched && !s.t.ranLocal}
	if len(plan.Statements) == 0 && plan.Kind == rewrite.Unknown && j.mode != readWrite && !j.at.In() {
		return errMayWrite
	}
	return j.judgeAll(plan.Statements)
}

// judgeAll judges the statements of a text. Of several the first that is refused fails in its place.
func (j *judging) judgeAll(statements []rewrite.Statement) error {
	several := len(statements) > 1
	for i := range statements {
		err := j.judge(&statements[i], several)
		if err != nil && (err.Code == codeReadOnly || err == errModesLate) && several {
			j.s.t.denied = err
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// judging follows a session through a text, as division does. mode is how the transaction of a
// statement begins that stands outside of a block; first: it is the first of that transaction.
type judging struct {
	s       *session
	mode    txMode
	at      block.Block
	first   bool
	changed bool // an earlier statement changes how later transactions begin
	unknown bool // such a one has ended a transaction: nobody knows how what follows begins
}

// judge is the error of a statement; several: others stand beside it. The error of one that comes
// behind another that fails is never told: nothing behind an error is run.
func (j *judging) judge(st *rewrite.Statement, several bool) *wire.Error {
	if j.unknown {
		return errModeInString
	}
	var err *wire.Error
	switch tx := &st.Tx; {
	case tx.Verb == rewrite.Begin:
		err = j.begin(tx)
	case endsBlock(tx.Verb):
		j.mode, j.unknown = j.s.modeNow(), j.changed
	case several && deniesDDL(&j.at, st):
		err = refusesWrite(st, readOnly)
	case j.at.In() || j.mode == readWrite:
	case several && tx.Verb == rewrite.SetTransaction && tx.ReadWrite:
		err = errModeInString // it would hold for what is behind it, and no server here takes it
	default:
		err = refusesWrite(st, j.mode)
	}
	j.at.Step(st)
	j.changed, j.first = j.changed || j.s.changesMode(st), false
	return err
}

// begin is judge for a BEGIN. Behind other statements READ WRITE comes too late, as PostgreSQL has
// it.
func (j *judging) begin(tx *rewrite.Transaction) *wire.Error {
	switch {
	case modesLate(&j.at, tx):
		return errModesLate
	case j.at.In() || j.mode == readWrite:
	case j.mode == unsureMode && saysNoMode(tx):
		return errModeUnsure
	case j.mode == readOnly && tx.ReadWrite && !j.first:
		return errBeginInPipeline
	case j.mode == readOnly && saysNoMode(tx):
		j.s.t.only = true
	}
	return nil
}

// modesLate reports a BEGIN of a READ ONLY block that PostgreSQL refuses for the level that it says behind
// a query of the same string or pipeline: it undoes that. A server of DSQL's kind has one level, with which
// its sessions begin, so that it takes the BEGIN, and commits with a block that only reads what was written.
func modesLate(at *block.Block, tx *rewrite.Transaction) bool {
	return tx.Verb == rewrite.Begin && !at.In() && tx.ReadOnly && tx.Isolation != rewrite.DefaultIsolation && at.Refuses(tx) == block.CodeActive
}

// deniesDDL reports DDL in a READ ONLY block of a string. PostgreSQL refuses it for that before it looks at anything
// else, and a server that has no such type or form of it for that.
func deniesDDL(at *block.Block, st *rewrite.Statement) bool {
	command, _ := st.InReadOnly()
	return st.Kind == rewrite.DDL && command != "" && at.In() && at.ReadOnly()
}

// keepsToReading reports a block that is known to be READ ONLY.
func keepsToReading(at *block.Block) bool { return at.In() && at.Known() && at.ReadOnly() }

// deniedForm is PostgreSQL's error for a statement in a READ ONLY block that the server refuses for its form, or for a
// type that it does not have (serial); nil for any other. PostgreSQL looks at the mode of the transaction first. st may
// be nil.
func deniedForm(st *rewrite.Statement, payload []byte, at *block.Block) *wire.Error {
	if st == nil || !keepsToReading(at) {
		return nil
	}
	if code := string(retry.Field(payload, 'C')); code != retry.StateUnsupported && code != unknownType {
		return nil
	}
	if command, _ := st.InReadOnly(); command == "" {
		return nil
	}
	return refusesWrite(st, readOnly)
}

// refusal is the error with which a text is refused as things stand, or nil.
func (s *session) refusal(plan *rewrite.Plan) error {
	err := refusal(plan)
	if st := plan.Single(); err != nil && st != nil {
		return cmp.Or(s.deniesAnswer(st), err)
	}
	return err
}

// deniesAnswer is the error of a statement that is answered here, where its block is READ ONLY and the server would
// refuse it for that; nil for any other.
func (s *session) deniesAnswer(st *rewrite.Statement) error {
	if command, _ := st.InReadOnly(); command != "" && s.keptToReading() {
		return refusesWrite(st, readOnly)
	}
	return nil
}

// refusesWrite is judgesMode for one statement outside of a block.
func refusesWrite(st *rewrite.Statement, mode txMode) *wire.Error {
	switch command, known := st.InReadOnly(); {
	case mode == readWrite:
		return nil
	case mode == unsureMode && (command != "" || !known):
		return errModeUnsure
	case command != "":
		return &wire.Error{Code: codeReadOnly, Message: "cannot execute " + command + " in a read-only transaction"}
	case !known:
		return errMayWrite
	}
	return nil
}

// inMode is the plan of a text that judgesMode lets pass, in the form in which the server gets it
// (substituted): an error where something of it is another's, and could not be put in its place.
func (s *session) inMode(plan *rewrite.Plan, sql []byte) (*rewrite.Plan, error) {
	made := s.substituted(plan, sql)
	switch {
	case s.t.strung != nil:
		return made, nil
	case s.t.denied != nil:
		return nil, s.t.denied
	case s.t.only:
		return nil, errModeInString
	}
	return made, nil
}

// changesMode reports whether a statement may change how later transactions begin. A RESET ALL does
// where the setting is on, or was given at the startup; a set_config of another setting does not.
func (s *session) changesMode(st *rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool {
		switch c.Action {
		case rewrite.ResetAll, rewrite.DiscardAll:
			return s.settings.ReadOnly() || s.settings.Startup.Kept[rewrite.ReadOnlyDefault] != ""
		}
		return c.Name == rewrite.ReadOnlyDefault
	})
}

// judgedRead is the error of a text that looks like a read, and may write by what the schema holds,
// where it stands outside of a block; was is its plan by the words, and plan that by the schema. It
// is asked when a backend is lent, which was asked what the schema holds (judged).
func (s *session) judgedRead(was, plan *rewrite.Plan) error {
	if was == plan || s.t.mode == readWrite || s.inBlock() || s.status() == 'E' {
		return nil
	}
	return errMayWrite
}

// tellsMode reports whether SHOW of a setting is answered by how a transaction begins. In a block
// the server knows it, by the BEGIN that it was sent.
func (s *session) tellsMode(name string) bool {
	return name == transactionReadOnly && s.t.mode == readOnly && !s.inBlock()
}

var (
	errMayWrite = &wire.Error{Code: retry.StateUnsupported, Message: "what may write is not run outside of a transaction while " + rewrite.ReadOnlyDefault + " is on",
		Detail: "The server does not know the setting, and the text does not show that the statement only reads.",
		Hint:   "Send it between BEGIN READ ONLY and COMMIT, where the server judges it; or SET " + rewrite.ReadOnlyDefault + " TO off."}
	errModeUnsure = &wire.Error{Code: retry.StateUnsupported, Message: "it is not known yet whether the transaction begins READ ONLY",
		Detail: "The transaction before it has changed " + rewrite.ReadOnlyDefault + ", and its end is not answered yet.",
		Hint:   "Wait for the answer to COMMIT or ROLLBACK; or write READ ONLY or READ WRITE behind BEGIN."}
	errModeInString = &wire.Error{Code: retry.StateUnsupported, Message: "a string of several transactions cannot change whether they begin READ ONLY",
		Detail: "Nothing of the string was run.", Hint: "Send SET " + rewrite.ReadOnlyDefault + " by itself, and write READ ONLY or READ WRITE behind BEGIN."}
	errModesLate = &wire.Error{Code: block.CodeActive, Message: "SET TRANSACTION ISOLATION LEVEL must be called before any query",
		Hint: "Send the BEGIN in front of the first statement, or behind COMMIT."}
	errBeginInPipeline = &wire.Error{Code: retry.StateUnsupported, Message: "BEGIN cannot say here whether the transaction is READ ONLY, behind other statements of it",
		Hint: "Send it by itself, or as the first statement of the string or pipeline."}
)
