package rewrite

import "github.com/sluice-proxy/sluice/rewrite/alter"

// StatementKind classifies statements by their strongest possible effect. Kinds are ordered by strength: the kind of a
// text is the greatest kind of its statements.
type StatementKind uint8

const (
	// Empty is the kind of a text without a statement: "", ";" or a comment.
	Empty StatementKind = iota
	// Read is the kind of a statement that cannot write, lock, or change the session. Examples are SHOW, EXPLAIN
	// without ANALYZE, and a SELECT without locking clause, INTO or a function of unknown side effects. COPY TO STDOUT
	// and DECLARE CURSOR of a Read query are Read, too.
	Read
	// Setting is the kind of a statement that changes only settings: SET, RESET, DISCARD, DEALLOCATE.
	Setting
	// Control is the kind of a statement that begins or ends a transaction or savepoint.
	Control
	// Write is the kind of a statement that may write or lock rows, or calls a function that may do so. Statements that
	// change session state other than settings are Write, too: PREPARE, EXECUTE, FETCH, CLOSE, LISTEN, LOAD.
	Write
	// DDL is the kind of a statement that changes the catalog, such as GRANT, or that may change it: DO, CALL.
	DDL
	// Unknown is the kind of a text that is too long, too deep or no valid SQL to Sluice. The text may do anything.
	Unknown
)

// LocalWork says what Sluice itself may do for a statement, so that the server need not run it. The text and the rules
// determine the one LocalWork of each statement. Whether Sluice does the work also depends on the session's state.
type LocalWork uint8

const (
	ServerOnly        LocalWork = iota // the server runs the statement
	Executes                           // EXECUTE of a name that Sluice may have prepared (Statement.Executes)
	ChecksTables                       // LOCK TABLE: the server gets a query of the tables, and Sluice answers with Tag
	Answers                            // Sluice answers the statement with Statement.Tag
	AnswersVoid                        // Sluice answers with one row of type void and Statement.Tag
	ClosesAll                          // CLOSE ALL, which Sluice answers
	DiscardsSequences                  // DISCARD SEQUENCES, which Sluice answers
	Locks                              // takes or releases advisory locks (Statement.Advisory)
	ChangesDatabase                    // CREATE or DROP DATABASE of a name that is mapped to a schema (Statement.Database)
	Alters                             // DDL that the server refuses and that Sluice may carry out in steps
	UsesCursor                         // DECLARE, FETCH, MOVE or CLOSE of a cursor (Statement.Cursor)
	CopiesIn                           // COPY FROM STDIN, which Sluice carries out by INSERTs (Statement.CopyIn)
	Shows                              // SHOW (Statement.Show)
	ShowsInQuery                       // SELECT current_setting('name') (Statement.Show and Column)
	Sets                               // SET and RESET (Statement.Changes), and DISCARDs that no other value covers
	DiscardsAll                        // DISCARD ALL
	SetsConfig                         // SELECT set_config(...), one call of constants (Statement.SetConfigColumns)
	SetsRow                            // SELECT of several set_config calls of constants
	BindsConfig                        // SELECT of set_config calls with parameters as values
	Deallocates                        // DEALLOCATE of a name (Statement.Deallocate)
	DeallocatesAll                     // DEALLOCATE ALL
	Begins                             // BEGIN and START TRANSACTION (Statement.Tx, as for SetsModes, Saves and Ends)
	SetsModes                          // SET TRANSACTION
	Saves                              // SAVEPOINT, RELEASE, ROLLBACK TO
	Ends                               // COMMIT, ROLLBACK, PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED
	LocalWorkCount                     // the number of LocalWork values
)

// TxVerb is the verb of a statement that controls a transaction, for example BEGIN.
type TxVerb uint8

const (
	NoVerb TxVerb = iota
	Begin
	Commit
	Rollback
	Savepoint
	ReleaseSavepoint
	RollbackTo
	PrepareTransaction
	CommitPrepared
	RollbackPrepared
	SetTransaction            // SET TRANSACTION, for the current transaction
	SetSessionCharacteristics // SET SESSION CHARACTERISTICS, for later transactions; the statement's Kind is Setting
)

// EndsBlock reports whether the verb, such as Commit, ends the whole transaction block. In a failed block each of these
// verbs rolls the block back.
func (v TxVerb) EndsBlock() bool {
	return v == Commit || v == Rollback || v == PrepareTransaction
}

// Isolation is the isolation level that a BEGIN or SET TRANSACTION names.
type Isolation uint8

const (
	DefaultIsolation Isolation = iota
	ReadUncommitted
	ReadCommitted
	RepeatableRead
	Serializable
)

// String returns the level's SQL spelling, or "" for DefaultIsolation.
func (i Isolation) String() string {
	return [...]string{"", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}[i]
}

// TxControl holds the verb and options of a transaction-control statement, SET TRANSACTION or SET SESSION
// CHARACTERISTICS.
type TxControl struct {
	Verb       TxVerb
	Isolation  Isolation
	ReadOnly   bool
	ReadWrite  bool // the statement says READ WRITE
	Deferrable bool // the statement says DEFERRABLE or NOT DEFERRABLE
	Waits      bool // the statement says DEFERRABLE, and after it no NOT DEFERRABLE
	Chain      bool // the statement says AND CHAIN
	// Name is the savepoint or the prepared transaction that the statement names.
	Name string
	// Snapshot is the identifier in SET TRANSACTION SNAPSHOT 'identifier'.
	Snapshot string
}

// IsDeferrableBegin reports whether Sluice may answer the BEGIN first and send it later, when a statement needs a
// server. A plain BEGIN, READ WRITE and REPEATABLE READ have the same meaning at a later time.
func (t TxControl) IsDeferrableBegin() bool {
	return t.Verb == Begin && !t.ReadOnly && !t.Deferrable &&
		(t.Isolation == DefaultIsolation || t.Isolation == RepeatableRead)
}

// SettingAction is the kind of change that a statement makes to a session setting.
type SettingAction uint8

const (
	Set        SettingAction = iota // SET [SESSION] name = value
	SetLocal                        // SET LOCAL name = value
	Reset                           // RESET name, SET name TO DEFAULT
	ResetAll                        // RESET ALL; Name is empty
	DiscardAll                      // DISCARD ALL; Name is empty
)

// SettingChange is one change of a session setting.
type SettingChange struct {
	Action SettingAction
	// Name is the lower-cased name of the changed setting, for example "timezone". Name is empty for a set_config call
	// whose setting the text does not show.
	Name string
	// SQL is the setting's value as SQL, as it follows "SET name TO ", for example `'UTC'`, `'$user', 'public'` or
	// `0.5`. SQL is empty for resets, for SET LOCAL to the default, and for values that PostgreSQL computes.
	SQL string
	// Text is the value without quotes if the value is a single constant, for example "5s". Otherwise it is "".
	Text string
	// Default reports a SET name TO DEFAULT or SET TIME ZONE LOCAL, with or without the word LOCAL.
	Default bool
}

// PinReason is the reason why a session must keep its backend after a statement.
type PinReason uint8

const (
	NoPin         PinReason = iota
	PinPrepare              // SQL-level PREPARE
	PinListen               // LISTEN
	PinHoldCursor           // DECLARE ... WITH HOLD
	PinTemp                 // temporary table, view or sequence
	PinAdvisory             // session-level advisory lock
	PinSetConfig            // set_config(), or a SET whose value Sluice cannot repeat on another backend
	PinSequence             // currval() or lastval(), whose state only the session's own backend has
	PinSeed                 // setseed(), whose seed only this backend has
	PinLoad                 // LOAD
	PinProcedural           // DO and CALL, whose text does not show which settings they change
	PinUnparsed             // a text over a size limit, which Sluice did not parse
	PinRole                 // SET ROLE, SET SESSION AUTHORIZATION
	pinCount
)

// RelayName is the prefix of the names under which Sluice prepares clients' statements on a backend. A client never
// sees these names, so it does not use them in DEALLOCATE or EXECUTE.
const RelayName = "sluice_"

// CopyDirection is the direction in which a COPY moves rows between client and server.
type CopyDirection uint8

const (
	NoCopy         CopyDirection = iota
	CopyToClient                 // COPY ... TO STDOUT
	CopyFromClient               // COPY ... FROM STDIN
)

// Statement is the plan of one statement of a text.
type Statement struct {
	Kind StatementKind
	Does LocalWork
	// Start and End are the statement's byte offsets in the text, without leading blanks, comments and the semicolon.
	// End is 0 if Sluice planned the text by its words, without a parse: the statement is then the whole text.
	Start, End int
	Tx         TxControl
	// Changes are the changes of settings that the statement makes, usually one.
	Changes []SettingChange
	// SetConfigColumns lists the columns in the result of a SELECT of set_config calls, one for each of Changes. If
	// there is one call, Sluice sends the server a SET instead.
	SetConfigColumns []SetConfigColumn
	// Show is the lower-cased name of the setting whose value a SHOW or SELECT current_setting() returns.
	Show string
	// Column is the name of the result column of a statement whose Does is ShowsInQuery or AnswersVoid.
	Column string
	// Asks lists the settings that the statement reads: constant names in calls of current_setting(), and all constants
	// in queries of pg_settings. The setting in Show is not included.
	Asks []string
	// Deallocate is the name of the prepared statement that a DEALLOCATE drops.
	Deallocate string
	// Executes is the name that an EXECUTE gives, if the name begins with RelayName.
	Executes string
	// Copy is the direction of a COPY between client and server. Copy is NoCopy for a COPY to or from a file, and for
	// other statements.
	Copy CopyDirection
	// Tables lists tables, views and sequences as the statement writes them (with schema only if written), in order and
	// without duplicates. Names of WITH queries are not included. Tables is nil for a text that Sluice did not parse.
	Tables []string
	Pin    PinReason
	// Contends reports that the statement locks or changes existing rows: UPDATE, DELETE, MERGE, INSERT ... ON CONFLICT DO
	// UPDATE, or a locking clause. Effects of functions and of DDL are not included.
	Contends bool
	// Calls reports a call of a function that changes settings or that Sluice does not know. The text does not show
	// which settings the function changes.
	Calls bool
	// Leaves reports a call of a function that may leave a temporary table, a lock, a cursor or a prepared statement at
	// the backend. Calls covers functions that leave settings. See MayLeaveState.
	Leaves bool
	// Operation is the name of the statement in metrics, such as select_shards. The number of names is bounded.
	Operation string

	// Tag is the command tag of a statement that Sluice answers, otherwise "". In Plan.Text a query without effect
	// replaces the statement. If the server runs this query, Sluice drops its rows and replaces its tag by Tag.
	Tag string
	// Weakened reports that SERIALIZABLE runs as REPEATABLE READ (Rules.Weaken). The client gets a warning at each run.
	Weakened bool
	// OfBlock reports that the statement belongs in a transaction block. Outside of one, PostgreSQL warns.
	OfBlock bool
	// Notices are the notices that the client gets before the statement's tag.
	Notices []Notice
	// Refusal is the error with which Sluice answers the statement, or nil. If Sluice sends the text to the server all
	// the same, Refusal replaces the server's error for this statement.
	Refusal *Refusal
	// Job says what Sluice does with the job_id row that the server answers to a CREATE INDEX ASYNC.
	Job IndexJob
	// IfNoIndex is the index that a CREATE INDEX IF NOT EXISTS names, or nil for any other statement.
	IfNoIndex *IndexName
	// Hint is the hint that Sluice adds to a server error 0A000 or 42704 without a hint. The value "" adds none.
	Hint string
	// ReplacementTag is the command tag that the client gets if Plan.Text has another statement in place of this one.
	// With "", the client gets the server's tag. Before the tag the client gets Warning, if Warning is not nil.
	ReplacementTag string
	Warning        *Notice
	// Truncation is the TRUNCATE that the server gets as a DELETE, or nil for other statements.
	Truncation *Truncation

	// Each field below belongs to one value of Does, and is nil for all others.
	Database *DatabaseChange  // for ChangesDatabase: a CREATE or DROP DATABASE that the server does not get
	Advisory *AdvisoryCall    // for Locks, which also sets Tag
	Cursor   *CursorStatement // for UsesCursor; the server does not get the statement
	CopyIn   *CopyIn          // for CopiesIn; the server does not get the COPY
	// Steps is the plan for Alters: a type of package alter, a *MultiCommand, *DoBlock or *SerialTable.
	Steps alter.Steps

	demand          TxDemand // demands on the transaction, without those of Changes
	writeCommand    string   // the command that a READ ONLY transaction refuses, such as INSERT; "" for none
	readOnlyAllowed bool     // a READ ONLY transaction certainly allows the statement
	separate        bool     // in a multi-statement query: Sluice runs the statement as a separate text (Plan.ExceedsTransaction)
	setsConfig      bool     // calls set_config()
	unsure          bool     // the Kind is Read, but the statement may write all the same; see Plan.IsSureRead
	sequence        string
}

// MayLeaveState reports whether the statement may leave state at the backend that outlives its transaction, and that
// the text does not show. DDL may, because some search paths make new tables temporary. A text that Sluice did not
// parse may leave anything.
func (st *Statement) MayLeaveState() bool {
	return st.Leaves || st.Kind == DDL || st.Kind == Unknown
}

// MayRunInSteps reports whether Sluice may run several statements (Steps) in place of st.
func (st *Statement) MayRunInSteps() bool { return st.Does == Alters }

// MustRunInSteps reports whether Sluice may run several statements (Steps) in place of st, and must not send st to the
// server.
func (st *Statement) MustRunInSteps() bool {
	n, serial := st.Steps.(*SerialTable)
	return st.MayRunInSteps() && !(serial && n.MayPassUnchanged())
}

// StepTextAndTag returns the client's text and the command tag of a statement with Steps.
func (st *Statement) StepTextAndTag() (text, tag string) { return st.Steps.TextAndTag() }

// Refusal is an error with which Sluice itself answers a statement.
type Refusal struct {
	Code, Message, Detail, Hint string // Code is a SQLSTATE
	// Unsent means that the server must not get the statement, because the server might read it as a different one.
	Unsent bool
}

// Notice is a notice or warning that the client gets before the answer to a statement.
type Notice struct{ Message, Detail string }

// DatabaseChange is a CREATE DATABASE or DROP DATABASE of a name that is mapped to a schema.
type DatabaseChange struct {
	Name, Schema    string
	Drop            bool
	IfExists, Force bool // only in DROP DATABASE
}

// IndexJob says how Sluice handles the background job of a rewritten CREATE INDEX. DSQL answers with one row of one
// column, job_id, which the client must not see. If IF NOT EXISTS finds the index, DSQL answers without a row.
type IndexJob uint8

const (
	NoJob        IndexJob = iota // the server's answer has no job_id row
	UnawaitedJob                 // Sluice drops the row and does not wait for the job
	AwaitedJob                   // Sluice drops the row, and answers the end of the transaction after the job's end
)

// IndexName names an index and its table, which are in the same schema.
type IndexName struct {
	Name  string // the index name as the catalog stores it
	Table string // the table as SQL, for a cast to regclass
}
