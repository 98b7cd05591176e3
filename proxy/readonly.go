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

// This file emulates default_transaction_read_only on a server that does not know this setting. As in PostgreSQL, the
// value at the start of a transaction applies. session.runTurn reads the value, and resetAccessMode reads it after a
// COMMIT in the middle of a turn.
//
//	BEGIN              is sent as BEGIN READ ONLY, unless it says READ WRITE; the server then refuses writes
//	outside a block    Sluice judges by the SQL. A write gets PostgreSQL's error 25006, in a multi-statement query
//	                   at its place. A statement that may write, by a function, is refused with 0A000
//	SHOW transaction_read_only   is answered by Sluice outside a block
//
// 25006 precedes errors about names, which only the server knows. For an unknown table PostgreSQL would return 42P01.

// accessMode is the access mode with which a transaction begins.
type accessMode uint8

const (
	readWrite accessMode = iota
	readOnly
	unsureMode // depends on the end of the previous transaction, whose reply is pending
)

// codeReadOnly is the SQLSTATE of a write in a READ ONLY transaction.
const codeReadOnly = "25006"

const transactionReadOnly = "transaction_read_only"

// turn.mode (the access mode) is set where a transaction may begin, and read for each statement outside a block.

// nextAccessMode returns the access mode of a transaction that begins now. For a server that knows
// default_transaction_read_only (kind postgres, or a dedicated backend), the result is readWrite.
func (s *session) nextAccessMode() accessMode {
	switch {
	case s.dedicated || s.srv.cfg.Kind != DSQL:
	case s.settings.IsReadOnlyPending():
		return unsureMode
	case s.settings.IsReadOnlyByDefault():
		return readOnly
	}
	return readWrite
}

// resetAccessMode sets the turn's access mode again after a transaction has ended in the turn.
func (s *session) resetAccessMode() { s.t.mode = s.nextAccessMode() }

// mustBeginReadOnly reports whether a BEGIN is sent as BEGIN READ ONLY. Inside a block a second BEGIN does not change
// the access mode, as in PostgreSQL.
func (s *session) mustBeginReadOnly(tx *rewrite.TxControl) bool {
	return s.t.mode == readOnly && lacksAccessMode(tx) && !s.inBlock()
}

// lacksAccessMode reports whether a BEGIN names neither READ ONLY nor READ WRITE.
func lacksAccessMode(tx *rewrite.TxControl) bool {
	return tx.Verb == rewrite.Begin && !tx.ReadOnly && !tx.ReadWrite
}

// beginReadOnlySQL returns the SQL of a BEGIN, which is a single statement, with READ ONLY added.
func beginReadOnlySQL(st *rewrite.Statement, sql []byte) string {
	return beginWithModeSQL(st, sql, &st.Tx, "READ ONLY")
}

// beginWithModeSQL returns a BEGIN with the modes of tx and with mode, READ ONLY or READ WRITE. REPEATABLE READ is left
// out, because DSQL has no other level.
func beginWithModeSQL(st *rewrite.Statement, sql []byte, tx *rewrite.TxControl, mode string) string {
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

// bindBeginReadOnly replaces the statement of a Bind of BEGIN by BEGIN READ ONLY, if the BEGIN is sent at once. The
// server has parsed the client's text, so that the new text is prepared. The client's own prepared statement stays
// unchanged. Any other statement is not replaced. A returned error goes to the client.
func (s *session) bindBeginReadOnly(b *pendingBind) error {
	if !s.t.beginReadOnly {
		return nil
	}
	if err := s.readWholeBind(b); err != nil {
		return err
	}
	st, sql := b.cs.Template.Plan.SingleStatement(), []byte(b.cs.Template.SQL)
	says := st.Tx
	if st.Weakened { // the client gets its warning again
		says.Isolation = rewrite.Serializable
	}
	tmpl, err := s.templateFor([]byte(beginWithModeSQL(st, sql, &says, "READ ONLY")), []byte(b.cs.Template.OIDs))
	if err != nil {
		return err
	}
	made := s.newClientStatement(tmpl, 0)
	b.portal, b.stmt, b.cs = bytes.Clone(b.portal), bytes.Clone(b.stmt), &made
	return planRefusal(tmpl.Plan)
}

// checkReadOnly returns the error of a text that may write outside a block in a READ ONLY transaction, or nil.
// hiddenWriteError checks texts that look like reads but may write. In a multi-statement query only the refused
// statement fails (turn.denied), and no later statement runs.
func (s *session) checkReadOnly(plan *rewrite.Plan) error {
	if s.dedicated || s.srv.cfg.Kind != DSQL {
		return nil
	}
	s.t.denied, s.t.beginReadOnly = nil, false
	if st := plan.SingleStatement(); s.t.mode == readWrite && len(plan.Statements) < 2 && (st == nil || st.Tx.Verb != rewrite.Begin) { // most statements end here
		return nil
	}
	if s.txStatus() == 'E' && (len(plan.Statements) == 0 || !plan.Statements[0].Tx.Verb.EndsBlock()) {
		return nil // any statement fails in a failed block
	}
	j := readOnlyCheck{s: s, mode: s.t.mode, at: s.blockForNextStatement(), first: !s.t.touched && !s.t.ranLocal}
	if len(plan.Statements) == 0 && plan.Kind == rewrite.Unknown && j.mode != readWrite && !j.at.IsOpen() {
		return errMayWrite
	}
	return j.checkAll(plan.Statements)
}

// checkAll checks the statements of a text for writes in a READ ONLY transaction. In a multi-statement query the first
// refused statement fails, after the earlier statements have run.
func (j *readOnlyCheck) checkAll(statements []rewrite.Statement) error {
	several := len(statements) > 1
	for i := range statements {
		err := j.checkStatement(&statements[i], several)
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

// readOnlyCheck tracks the session's block through the statements of a text. mode is the access mode of a transaction
// outside a block. first means that the statement is the first of its transaction.
type readOnlyCheck struct {
	s       *session
	mode    accessMode
	at      block.Block
	first   bool
	changed bool // an earlier statement changes the mode of later transactions
	unknown bool // a transaction has ended after such a change, so that the next mode is unknown
}

// checkStatement returns the error of one statement in a READ ONLY transaction, or nil. several means that the
// statement is part of a multi-statement query, in which no statement runs after a failed one.
func (j *readOnlyCheck) checkStatement(st *rewrite.Statement, several bool) *wire.Error {
	if j.unknown {
		return errModeInString
	}
	var err *wire.Error
	switch tx := &st.Tx; {
	case tx.Verb == rewrite.Begin:
		err = j.checkBegin(tx)
	case tx.Verb.EndsBlock():
		j.mode, j.unknown = j.s.nextAccessMode(), j.changed
	case several && isDDLInReadOnly(&j.at, st):
		err = writeRefusal(st, readOnly)
	case j.at.IsOpen() || j.mode == readWrite:
	case several && tx.Verb == rewrite.SetTransaction && tx.ReadWrite:
		err = errModeInString // READ WRITE would count for later statements, and DSQL does not accept it
	default:
		err = writeRefusal(st, j.mode)
	}
	j.at.RecordStatement(st)
	j.changed, j.first = j.changed || j.s.mayChangeAccessMode(st), false
	return err
}

// checkBegin returns the error of a BEGIN, or nil. READ WRITE after other statements is too late, as in PostgreSQL.
func (j *readOnlyCheck) checkBegin(tx *rewrite.TxControl) *wire.Error {
	switch {
	case isModeTooLate(&j.at, tx):
		return errModesLate
	case j.at.IsOpen() || j.mode == readWrite:
	case j.mode == unsureMode && lacksAccessMode(tx):
		return errModeUnsure
	case j.mode == readOnly && tx.ReadWrite && !j.first:
		return errBeginInPipeline
	case j.mode == readOnly && lacksAccessMode(tx):
		j.s.t.beginReadOnly = true
	}
	return nil
}

// isModeTooLate reports whether PostgreSQL refuses a BEGIN READ ONLY with an isolation level, because a query of the
// same text or pipeline precedes the BEGIN. DSQL would commit the earlier writes together with a READ ONLY block.
func isModeTooLate(at *block.Block, tx *rewrite.TxControl) bool {
	return tx.Verb == rewrite.Begin && !at.IsOpen() && tx.ReadOnly && tx.Isolation != rewrite.DefaultIsolation && at.RefusalCode(tx) == block.CodeActive
}

// isDDLInReadOnly reports whether a statement is DDL in a READ ONLY block of a multi-statement query. PostgreSQL
// refuses such DDL before it checks anything else. DSQL would first refuse a type or form that it lacks.
func isDDLInReadOnly(at *block.Block, st *rewrite.Statement) bool {
	command, _ := st.ReadOnlyViolation()
	return st.Kind == rewrite.DDL && command != "" && at.IsOpen() && at.IsReadOnly()
}

// isReadOnlyBlock reports whether a block is certainly READ ONLY.
func isReadOnlyBlock(at *block.Block) bool {
	return at.IsOpen() && at.HasSeenBegin() && at.IsReadOnly()
}

// unknownType is the SQLSTATE that a server reports for an unknown type.
const unknownType = "42704"

// readOnlyFormError returns PostgreSQL's 25006 for a statement in a READ ONLY block that the server refused for its
// form, or for an unknown type such as serial. PostgreSQL checks the transaction's mode first. For any other error the
// result is nil. st may be nil.
func readOnlyFormError(st *rewrite.Statement, payload []byte, at *block.Block) *wire.Error {
	if st == nil || !isReadOnlyBlock(at) {
		return nil
	}
	if code := string(retry.ErrorField(payload, 'C')); code != retry.StateUnsupported && code != unknownType {
		return nil
	}
	if command, _ := st.ReadOnlyViolation(); command == "" {
		return nil
	}
	return writeRefusal(st, readOnly)
}

// currentPlanRefusal returns the error with which Sluice refuses a planned text in the session's current state, or nil.
func (s *session) currentPlanRefusal(plan *rewrite.Plan) error {
	err := planRefusal(plan)
	if st := plan.SingleStatement(); err != nil && st != nil {
		return cmp.Or(s.readOnlyRefusal(st), err)
	}
	return err
}

// readOnlyRefusal returns 25006 for a statement that may write and that Sluice answers in a READ ONLY block, or nil.
func (s *session) readOnlyRefusal(st *rewrite.Statement) error {
	if command, _ := st.ReadOnlyViolation(); command != "" && s.isInReadOnlyBlock() {
		return writeRefusal(st, readOnly)
	}
	return nil
}

// writeRefusal returns the error of a statement that writes outside a block, in the given access mode, or nil.
func writeRefusal(st *rewrite.Statement, mode accessMode) *wire.Error {
	switch command, known := st.ReadOnlyViolation(); {
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

// planForServer returns the plan of a text as the server gets it, after checkReadOnly has accepted the text. It returns
// an error if a statement had to be replaced and could not be.
func (s *session) planForServer(plan *rewrite.Plan, sql []byte) (*rewrite.Plan, error) {
	made := s.planWithSubstitutes(plan, sql)
	switch {
	case s.t.script != nil:
		return made, nil
	case s.t.denied != nil:
		return nil, s.t.denied
	case s.t.beginReadOnly:
		return nil, errModeInString
	}
	return made, nil
}

// mayChangeAccessMode reports whether a statement may change the access mode of later transactions. A RESET ALL may if
// default_transaction_read_only is on, or if the startup set it. A set_config of another setting does not.
func (s *session) mayChangeAccessMode(st *rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.SettingChange) bool {
		switch c.Action {
		case rewrite.ResetAll, rewrite.DiscardAll:
			return s.settings.IsReadOnlyByDefault() || s.settings.Startup.StartupLocal[rewrite.ReadOnlyDefault] != ""
		}
		return c.Name == rewrite.ReadOnlyDefault
	})
}

// hiddenWriteError returns the error of a text outside a block that looks like a read but may write according to the
// schema. was is the plan by the SQL alone, plan the plan by the schema. The session must have a backend.
func (s *session) hiddenWriteError(was, plan *rewrite.Plan) error {
	if was == plan || s.t.mode == readWrite || s.inBlock() || s.txStatus() == 'E' {
		return nil
	}
	return errMayWrite
}

// answersAccessMode reports whether Sluice answers SHOW transaction_read_only. In a block the server answers, by the
// BEGIN that the server got.
func (s *session) answersAccessMode(name string) bool {
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
