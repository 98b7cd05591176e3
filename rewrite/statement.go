package rewrite

import "github.com/sluice-proxy/sluice/rewrite/alter"

// StatementKind classifies statements by their strongest possible effect. Kinds are ordered by strength: the kind of a
// text is the greatest kind of its statements.
type StatementKind uint8

const (
	// Empty is the kind of a text without a statement: "", ";" or a comment.
	Empty StatementKind = iota
	// Read is a statement that cannot write, lock, or change the session. Examples are SHOW, EXPLAIN without ANALYZE, and a
	// SELECT without a locking clause, INTO or a function with unknown side effects. COPY TO STDOUT and DECLARE CURSOR of a
	// Read query are Read, too.
	Read
	// Setting is the kind of a statement that changes only settings: SET, RESET, DISCARD, DEALLOCATE.
	Setting
	// Control is the kind of a statement that begins or ends a transaction or savepoint.
	Control
	// Write is a statement that may write or lock rows, or calls a function that may. Statements that change other session
	// state than parameters are Write, too: PREPARE, EXECUTE, FETCH, CLOSE, LISTEN, LOAD.
	Write
	// DDL is a statement that changes the catalog, GRANT and REVOKE included, or that may: DO, CALL.
	DDL
	// Unknown is the kind of a text that was not parsed, because of its size or its grammar. The text may do anything.
	Unknown
)

// LocalWork says what Sluice itself may do for a statement, so that the server need not run it. Each statement has
// exactly one LocalWork, by text and rules. Whether Sluice does the work also depends on the state of the session.
type LocalWork uint8

const (
	ServerOnly        LocalWork = iota // the server runs the statement
	Executes                           // EXECUTE of a name that Sluice may have prepared (Statement.Executes)
	ChecksTables                       // LOCK TABLE: the server gets a query of the tables, and the client gets Statement.Tag
	Answers                            // a rule answers the statement with Statement.Tag
	AnswersVoid                        // a rule answers with one row of type void and Statement.Tag
	ClosesAll                          // CLOSE ALL, which a rule answers
	DiscardsSequences                  // DISCARD SEQUENCES, which a rule answers
	Locks                              // takes or releases advisory locks (Statement.Advisory)
	ChangesDatabase                    // CREATE or DROP DATABASE of a name that is mapped to a schema (Statement.Database)
	Alters                             // DDL that the server refuses and Sluice may carry out in steps
	UsesCursor                         // DECLARE, FETCH, MOVE or CLOSE (Statement.Cursor)
	CopiesIn                           // COPY FROM STDIN by INSERTs (Statement.CopyIn)
	Shows                              // SHOW (Statement.Show)
	ShowsInQuery                       // SELECT current_setting('name') (Statement.Show and Column)
	Sets                               // SET and RESET (Statement.Changes), and any DISCARD without another value of Does
	DiscardsAll                        // DISCARD ALL
	SetsConfig                         // SELECT set_config(...), one call of constants (Statement.SetConfigColumns)
	SetsRow                            // SELECT of several set_config calls of constants
	BindsConfig                        // SELECT of set_config calls with parameters as values
	Deallocates                        // DEALLOCATE of a name (Statement.Deallocate)
	DeallocatesAll                     // DEALLOCATE ALL
	Begins                             // BEGIN and START TRANSACTION (Statement.Tx, as for the next three)
	SetsModes                          // SET TRANSACTION
	Saves                              // SAVEPOINT, RELEASE, ROLLBACK TO
	Ends                               // COMMIT, ROLLBACK, PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED
	LocalWorkCount                     // the number of values
)

// TxVerb is the verb of a transaction-control statement, for example BEGIN.
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
	SetSessionCharacteristics // for later transactions; its Kind is Setting, with Changes
)

// EndsBlock reports whether the verb, such as Commit, ends the whole block. In a failed block each such verb rolls
// back.
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
	ReadWrite  bool // READ WRITE is written out
	Deferrable bool // DEFERRABLE or NOT DEFERRABLE is written out
	Waits      bool // DEFERRABLE is written, and is the last of these options
	Chain      bool // AND CHAIN
	// Name is the name of the savepoint or the prepared transaction in the statement.
	Name string
	// Snapshot is the snapshot's name in SET TRANSACTION SNAPSHOT.
	Snapshot string
}

// IsDeferrableBegin reports whether Sluice may answer a BEGIN before sending it. A plain BEGIN, READ WRITE and
// REPEATABLE READ may wait, because they mean the same at a later time.
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
	// SQL is the setting's value as it follows "SET name TO ", for example `'UTC'`, `'$user', 'public'` or `0.5`. SQL
	// is empty for resets, for SET LOCAL to the default, and for values that PostgreSQL computes.
	SQL string
	// Text is the setting's value without quotes if it is a single constant, for example "5s", otherwise "".
	Text string
	// Default reports a SET name TO DEFAULT or SET TIME ZONE LOCAL. The statement may have LOCAL.
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
	PinSequence             // a currval() or lastval() that another backend could have answered
	PinSeed                 // setseed()
	PinLoad                 // LOAD
	PinProcedural           // DO and CALL, whose text does not show which settings they change
	PinUnparsed             // a text over a limit, which was not parsed
	PinRole                 // SET ROLE, SET SESSION AUTHORIZATION
	pinCount
)

// RelayName is the prefix of the names under which Sluice prepares clients' statements on a backend. Clients have no
// use for these names in DEALLOCATE or EXECUTE.
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
	// Start and End are the statement's byte offsets in the text, without leading blanks and comments and without the
	// semicolon. End is 0 for a text that was planned by its words: the statement is the whole text.
	Start, End int
	Tx         TxControl
	// Changes are the changes of settings that the statement makes, usually one.
	Changes []SettingChange
	// SetConfigColumns lists the columns of the row that a SELECT of set_config calls returns, one for each of Changes.
	// For one call the server gets a SET.
	SetConfigColumns []SetConfigColumn
	// Show is the lower-cased name of the setting whose value a SHOW or SELECT current_setting() returns.
	Show string
	// Column is the name of the result column of a statement whose Does is ShowsInQuery or AnswersVoid.
	Column string
	// Asks lists the settings that the statement reads: constant names in calls of current_setting(), and all
	// constants in queries of pg_settings. The setting of Show is not included.
	Asks []string
	// Deallocate is the name of the prepared statement that a DEALLOCATE drops.
	Deallocate string
	// Executes is the statement name of an EXECUTE, if the name begins with RelayName.
	Executes string
	// Copy is the direction of a COPY between client and server. Copy is NoCopy for a COPY of a file and for other
	// statements.
	Copy CopyDirection
	// Tables lists tables, views and sequences as the statement writes them, with schema if written, in order and
	// without duplicates. Names of WITH queries are not included. Tables is nil for a text that was not parsed.
	Tables []string
	Pin    PinReason
	// Contends reports that the statement locks or changes existing rows: UPDATE, DELETE, MERGE, INSERT ... ON CONFLICT DO
	// UPDATE, or a locking clause. Effects of functions and of DDL are not included.
	Contends bool
	// Calls reports a call of a function that is unknown, or known to change settings. The text does not show which
	// settings the function changes.
	Calls bool
	// Leaves reports a call of a function that may leave a temporary table, a lock, a cursor or a prepared statement.
	// Settings are not included (Calls). See MayLeaveState.
	Leaves bool
	// Operation is the name of the statement in metrics, such as select_shards. The number of names is bounded.
	Operation string

	// Tag is the command tag of a statement that Sluice answers, otherwise "". Plan.Text has a query without effect at
	// the statement's position. If the server runs this query, Sluice drops its rows and replaces its tag by Tag.
	Tag string
	// Weakened reports a SERIALIZABLE that runs as REPEATABLE READ (Rules.Weaken). The client gets a warning at each run.
	Weakened bool
	// OfBlock reports that PostgreSQL warns if the statement runs outside of a transaction block.
	OfBlock bool
	// Notices are the notices that the client gets before the statement's tag.
	Notices []Notice
	// Refusal is the error with which Sluice answers the statement, or nil. If the server gets the text anyway, Refusal
	// replaces the server's error for this statement.
	Refusal *Refusal
	// Job says whether the server's answer has a job_id row that the client must not see.
	Job IndexJob
	// IfNoIndex is the index that a CREATE INDEX IF NOT EXISTS names, or nil for any other statement.
	IfNoIndex *IndexName
	// Hint is what Sluice adds to a server error 0A000 or 42704 that has no hint, or "" for none.
	Hint string
	// ReplacementTag is the command tag that the client gets if Plan.Text has another statement at this position. The
	// value "" leaves the server's tag. The client gets Warning, if it is not nil, before the tag.
	ReplacementTag string
	Warning        *Notice
	// Truncation is the TRUNCATE that the server gets as a DELETE, or nil for other statements.
	Truncation *Truncation

	// Each field below belongs to one value of Does and is otherwise nil.
	Database *DatabaseChange  // the server does not get CREATE or DROP DATABASE (Rules.SchemaOf)
	Advisory *AdvisoryCall    // for Locks, which sets Tag as well
	Cursor   *CursorStatement // the server does not get a statement about a cursor
	CopyIn   *CopyIn          // the server does not get the COPY
	// Steps is the plan for Alters: one of package alter, a *MultiCommand, *DoBlock or *SerialTable.
	Steps alter.Steps

	demand          TxDemand // without the demands of Changes
	writeCommand    string   // the command that a READ ONLY transaction refuses; "" for none
	readOnlyAllowed bool     // a READ ONLY transaction certainly allows the statement
	separate        bool     // in a multi-statement query: Sluice runs the statement as a separate text (Plan.ExceedsTransaction)
	setsConfig      bool     // calls set_config()
	unsure          bool     // a Read that may write all the same; see Plan.IsSureRead
	sequence        string
}

// MayLeaveState reports whether the statement may leave state at the backend that outlives its transaction and does not
// show in its text. DDL may, because some search paths make new tables temporary. A text that was not parsed may leave
// anything.
func (st *Statement) MayLeaveState() bool {
	return st.Leaves || st.Kind == DDL || st.Kind == Unknown
}

// MayRunInSteps reports whether Sluice may run several statements instead of this one (Steps).
func (st *Statement) MayRunInSteps() bool { return st.Does == Alters }

// MustRunInSteps reports whether Sluice may run several statements instead of this one (Steps), and must not send
// this one to the server.
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
// column, job_id, which the client must not see. IF NOT EXISTS of an existing index answers without a row.
type IndexJob uint8

const (
	NoJob        IndexJob = iota // the answer has no job_id row
	UnawaitedJob                 // drop the row
	AwaitedJob                   // drop the row, and answer the end of the transaction after the job has finished
)

// IndexName names an index and its table, which are in the same schema.
type IndexName struct {
	Name  string // the index name as the catalog stores it
	Table string // the table as SQL, for a cast to regclass
}
