package rewrite

// Kind says what a statement may do, as far as a relay must know. The order is
// by strength: the kind of a text is the greatest kind among its statements.
type Kind uint8

const (
	// Empty is no statement at all: "", ";", a comment ("-- ping").
	Empty Kind = iota
	// Read cannot write, lock, or change the session: a SELECT, VALUES or TABLE
	// without locking clause, INTO or a function that is not known to be free of
	// side effects; SHOW; EXPLAIN without ANALYZE; COPY of these to the client;
	// DECLARE of a cursor over these.
	Read
	// Setting changes session parameters only: SET, RESET, DISCARD, DEALLOCATE.
	Setting
	// Control begins or ends a transaction or savepoint.
	Control
	// Write may write or lock rows, or calls a function that may; or changes what
	// the session holds other than parameters: PREPARE, EXECUTE, FETCH, CLOSE,
	// LISTEN, LOAD.
	Write
	// DDL changes the catalog (GRANT and REVOKE included), or may: DO, CALL.
	DDL
	// Unknown was not parsed: over a guard, or not PostgreSQL's grammar. It may do anything.
	Unknown
)

// Does says what a statement does that a server need not do, as far as its text and the rules tell. A
// statement has one value. Whether a relay does it is the relay's to decide, by how its session stands.
type Does uint8

const (
	ServerOnly        Does = iota // nothing: the server runs the statement
	Executes                      // EXECUTE of a name that may be of a relay's (Statement.Executes)
	ChecksTables                  // LOCK TABLE: the server runs a query of the tables, and the client gets Statement.Tag
	Answers                       // a rule answers the statement with Statement.Tag
	AnswersVoid                   // so, behind a row of type void
	ClosesAll                     // CLOSE ALL, which a rule answers
	DiscardsSequences             // DISCARD SEQUENCES, which a rule answers
	Locks                         // takes or releases advisory locks (Statement.Advisory)
	ChangesDatabase               // CREATE or DROP DATABASE of a name that stands for a schema (Statement.Database)
	Alters                        // DDL that the relay may carry out in steps, where the server refuses it
	UsesCursor                    // DECLARE, FETCH, MOVE or CLOSE (Statement.Cursor)
	CopiesIn                      // COPY FROM STDIN by INSERTs (Statement.CopyIn)
	Shows                         // SHOW (Statement.Show)
	ShowsInQuery                  // SELECT current_setting('name') (Statement.Show and Column)
	Sets                          // SET and RESET (Statement.Changes), and a DISCARD that has no value of its own
	DiscardsAll                   // DISCARD ALL
	SetsConfig                    // SELECT set_config(...), one call of constants (Statement.Told)
	SetsRow                       // so, several calls
	BindsConfig                   // so, with parameters as values
	Deallocates                   // DEALLOCATE of a name (Statement.Deallocate)
	DeallocatesAll                // DEALLOCATE ALL
	Begins                        // BEGIN and START TRANSACTION (Statement.Tx, as of the following)
	SetsModes                     // SET TRANSACTION
	Saves                         // SAVEPOINT, RELEASE, ROLLBACK TO
	Ends                          // COMMIT, ROLLBACK, PREPARE TRANSACTION, and the ends of prepared transactions
	DoesCount                     // how many values there are
)

// Verb is a transaction-control verb.
type Verb uint8

const (
	NoVerb Verb = iota
	Begin
	Commit
	Rollback
	Savepoint
	ReleaseSavepoint
	RollbackTo
	PrepareTransaction
	CommitPrepared
	RollbackPrepared
	SetTransaction            // SET TRANSACTION: of the transaction that runs
	SetSessionCharacteristics // of those to come; its Kind is Setting, with Changes
)

// Isolation is the level a BEGIN or SET TRANSACTION names.
type Isolation uint8

const (
	DefaultIsolation Isolation = iota
	ReadUncommitted
	ReadCommitted
	RepeatableRead
	Serializable
)

// String is the level as SQL has it; "" for DefaultIsolation.
func (i Isolation) String() string {
	return [...]string{"", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}[i]
}

// Transaction is what a statement says about transactions: control verbs, and
// SET TRANSACTION and SET SESSION CHARACTERISTICS with their options.
type Transaction struct {
	Verb       Verb
	Isolation  Isolation
	ReadOnly   bool
	ReadWrite  bool // said explicitly
	Deferrable bool // DEFERRABLE or NOT DEFERRABLE was said
	Waits      bool // of these, DEFERRABLE was said last
	Chain      bool // AND CHAIN
	// Name is a savepoint's, or a prepared transaction's.
	Name string
	// Snapshot is what SET TRANSACTION SNAPSHOT names.
	Snapshot string
}

// DeferrableBegin reports a BEGIN that may be answered before it is sent, because
// it means the same later on: plain, READ WRITE, or REPEATABLE READ.
func (t Transaction) DeferrableBegin() bool {
	return t.Verb == Begin && !t.ReadOnly && !t.Deferrable &&
		(t.Isolation == DefaultIsolation || t.Isolation == RepeatableRead)
}

// Action is what a statement does to one session setting.
type Action uint8

const (
	Set        Action = iota // SET [SESSION] name = value
	SetLocal                 // SET LOCAL name = value
	Reset                    // RESET name, SET name TO DEFAULT
	ResetAll                 // RESET ALL; Name is empty
	DiscardAll               // DISCARD ALL; Name is empty
)

// Change is one change of a session setting.
type Change struct {
	Action Action
	// Name is the parameter's name, lower-cased: "timezone", "my.custom".
	// It is empty where set_config changes what nobody reads out of the text.
	Name string
	// SQL is the value as it may be written after "SET name TO ", in PostgreSQL's
	// syntax and quoted: `'UTC'`, `'$user', 'public'`, `0.5`. Empty for resets, and
	// for a SET LOCAL to the default or to a value that PostgreSQL computes.
	SQL string
	// Text is the value without quotes, when it is a single constant: "5s", "0".
	Text string
	// Default: a reset that is written SET name TO DEFAULT, or SET TIME ZONE LOCAL.
	// A SET LOCAL to the default has it too.
	Default bool
}

// Pin is the reason why a session that ran a statement must keep its backend.
type Pin uint8

const (
	NoPin         Pin = iota
	PinPrepare        // SQL-level PREPARE
	PinListen         // LISTEN
	PinHoldCursor     // DECLARE ... WITH HOLD
	PinTemp           // temporary table, view or sequence
	PinAdvisory       // session-level advisory lock
	PinSetConfig      // set_config(), SET whose value cannot be carried
	PinSequence       // after a currval() or lastval() that another backend could answer
	PinSeed           // setseed()
	PinLoad           // LOAD
	PinProcedural     // DO, CALL: may change settings where nobody sees it
	PinUnparsed       // over a guard: nobody looked at it
	PinRole           // SET ROLE, SET SESSION AUTHORIZATION
	pinCount
)

// RelayName begins the names under which a relay prepares the statements of its
// clients, for which DEALLOCATE and EXECUTE in SQL have no use.
const RelayName = "sluice_"

// CopyWay is the way of rows between client and server in a COPY.
type CopyWay uint8

const (
	NoCopy         CopyWay = iota
	CopyToClient           // COPY ... TO STDOUT
	CopyFromClient         // COPY ... FROM STDIN
)

// Statement is one statement of a text.
type Statement struct {
	Kind Kind
	Does Does
	// Start and End are byte offsets in the text, without white space and comments
	// in front, and without the semicolon. End is 0 when the words alone told the
	// plan: the statement is the whole text then.
	Start, End int
	Tx         Transaction
	// Changes of settings, usually one.
	Changes []Change
	// Told are the columns of the one row that set_config answers with: one for each of Changes. With
	// one the server gets a SET.
	Told []Told
	// Show is the parameter of Shows and ShowsInQuery, lower-cased.
	Show string
	// Column is the name of the one column of ShowsInQuery and AnswersVoid.
	Column string
	// Asks are parameters that the statement asks for by a name that is constant, in
	// other ways than Show: in calls of current_setting(), or beside pg_settings.
	Asks []string
	// Deallocate is the name that Deallocates gives up.
	Deallocate string
	// Executes is the name that an EXECUTE gives, where it begins with RelayName.
	Executes string
	// Copy says which way a COPY moves rows of the client's; NoCopy for a COPY of a file, and any other statement.
	Copy CopyWay
	// Tables named in the statement, as written (schema-qualified where the text
	// is), without duplicates, in order of appearance. nil when nobody looked.
	// Names of WITH queries are not among them; views and sequences are.
	Tables []string
	Pin    Pin
	// Contends: it locks or changes rows that others may want, because they are
	// there already: UPDATE, DELETE, MERGE, INSERT ... ON CONFLICT DO UPDATE, a
	// locking clause. An INSERT has its rows for itself; what a function does, and
	// what DDL does, is not seen.
	Contends bool
	// Calls: the text calls a function that is not known, or one that changes
	// settings: what it leaves of them in the session, nobody sees in the text.
	Calls bool
	// Leaves: the text calls a function that may leave something at the backend beside settings: a
	// temporary table, a lock, a cursor, a prepared statement. See MayLeave.
	Leaves bool
	// Operation names the statement in metrics: select_shards. The number of
	// names is bounded.
	Operation string

	// Tag is the command tag of a statement that Sluice answers; "" for the others.
	// Plan.Text has a query in its place that reads nothing: where that goes to
	// the server, its rows are swallowed and its tag is replaced by this one.
	Tag string
	// Weakened: SERIALIZABLE was asked for, and is taken for REPEATABLE READ (Rules.Weaken): the
	// client is to be warned whenever the statement runs.
	Weakened bool
	// OfBlock says that PostgreSQL warns of the statement outside of a transaction block.
	OfBlock bool
	// Notices stand in front of Tag.
	Notices []Notice
	// Refusal is the error that Sluice answers with; nil for none. Where the text
	// goes to the server all the same, it stands for the error of this statement.
	Refusal *Refusal
	// Job says that the answer has a row of ours to swallow: see Job.
	Job Job
	// IfNoIndex is the index of a CREATE INDEX IF NOT EXISTS; nil for any other statement.
	IfNoIndex *IndexName
	// Hint is for a 0A000 or 42704 of the server that comes without one; "" for none.
	Hint string
	// Retag is the tag that the client is sent where another statement stands for this one at the
	// server; "" for the server's own. Warning, nil for none, is told in front of it.
	Retag   string
	Warning *Notice
	// Truncation is a TRUNCATE for which a DELETE goes to the server; nil for any other statement.
	Truncation *Truncation

	// What else belongs to the value of Does; nil for any other statement. Alters has one of six.
	Database    *Database    // the server must not see it (Rules.SchemaOf)
	Advisory    *Advisory    // with Tag
	Cursor      *Cursor      // the server must not see it
	CopyIn      *CopyIn      // the server must not see it
	Alteration  *Alteration  // Alters: ALTER TABLE of one column
	Constraints *Constraints // Alters: ALTER TABLE that adds constraints
	Commands    *Commands    // Alters: ALTER TABLE of several commands
	Guarded     *Guarded     // Alters: the one statement of a DO block
	EnumValue   *EnumValue   // Alters: ALTER TYPE ... ADD VALUE
	Numbered    *Numbered    // Alters: CREATE TABLE with sequences

	demand     Demand // without what Changes tell
	writes     string // see InReadOnly
	neutral    bool   // see InReadOnly
	apart      bool   // of a string: the relay carries it out, as a text of its own (Plan.TooMuch)
	setsConfig bool   // by set_config()
	unsure     bool   // see Plan.SureRead
	sequence   string
}

// MayLeave reports whether the statement may leave something at the backend that outlives its
// transaction and that its text does not tell. Only the backend knows what is there then. What is
// created is temporary under some search paths. Of a text that nobody has read, anything is
// possible.
func (st *Statement) MayLeave() bool {
	return st.Leaves || st.Kind == DDL || st.Kind == Unknown
}

// Alters reports whether the relay may carry the statement out in steps.
func (st *Statement) Alters() bool { return st.Does == Alters }

// Altered is the text of such a statement, and its tag.
func (st *Statement) Altered() (text, tag string) {
	switch {
	case st.Constraints != nil:
		return st.Constraints.Text, "ALTER TABLE"
	case st.Commands != nil:
		return st.Commands.Text, "ALTER TABLE"
	case st.Guarded != nil:
		return st.Guarded.Text, "DO"
	case st.EnumValue != nil:
		return st.EnumValue.Text, "ALTER TYPE"
	case st.Numbered != nil:
		return st.Numbered.Text, "CREATE TABLE"
	}
	return st.Alteration.Text, "ALTER TABLE"
}

// Refusal is an error that Sluice originates for a statement.
type Refusal struct {
	Code, Message, Detail, Hint string // Code is a SQLSTATE
	// Unsent: the statement must not reach the server, which might take it for another.
	Unsent bool
}

// Notice is what a client is told in front of the answer to a statement.
type Notice struct{ Message, Detail string }

// Database is a CREATE DATABASE, or a DROP DATABASE, of a name that stands for a schema.
type Database struct {
	Name, Schema    string
	Drop            bool
	IfExists, Force bool // of DROP DATABASE
}

// Job says what to do about the background job that a rewritten CREATE INDEX
// begins. DSQL answers with one row of one column, job_id, which the client must
// not see, and none when IF NOT EXISTS found the index.
type Job uint8

const (
	NoJob        Job = iota // no row of ours
	UnawaitedJob            // swallow the row
	AwaitedJob              // swallow the row; answer the end of the transaction when the job is done
)

// IndexName names an index by its own name and its table, which have the same schema.
type IndexName struct {
	Name  string // as the catalog has it
	Table string // for a cast to regclass
}
