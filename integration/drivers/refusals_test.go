package drivers

// Feature is what a scenario may need beyond what every backend has.
type Feature string

// Features, as scenarios name them after "needs".
const (
	Advisory       Feature = "advisory"       // pg_advisory_lock
	AlterType      Feature = "altertype"      // ALTER TABLE ... ALTER COLUMN ... TYPE
	ArrayColumn    Feature = "arraycolumn"    // a column of an array type
	Cancel         Feature = "cancel"         // a CancelRequest that ends its statement
	Chain          Feature = "chain"          // COMMIT AND CHAIN
	Copy           Feature = "copy"           // COPY FROM STDIN, COPY TO STDOUT
	CreateAs       Feature = "createas"       // CREATE TABLE AS
	Cursor         Feature = "cursor"         // DECLARE, FETCH
	CursorHold     Feature = "cursorhold"     // DECLARE SCROLL ... WITH HOLD in a block
	Discard        Feature = "discard"        // DISCARD ALL
	Do             Feature = "do"             // DO, PL/pgSQL
	Geometry       Feature = "geometry"       // '(1,2)'::point
	Index          Feature = "index"          // CREATE INDEX, not ASYNC
	Listen         Feature = "listen"         // LISTEN, NOTIFY
	LockTimeout    Feature = "locktimeout"    // a writer that waits for another, until it gives up
	LockWait       Feature = "lockwait"       // a writer that waits for another, and goes on
	MixedDDL       Feature = "mixedddl"       // DDL and DML in one transaction
	Role           Feature = "role"           // SET ROLE
	Savepoint      Feature = "savepoint"      // SAVEPOINT
	Serial         Feature = "serial"         // a column of type serial
	Serializable   Feature = "serializable"   // BEGIN ISOLATION LEVEL SERIALIZABLE
	SetConfig      Feature = "setconfig"      // set_config('TimeZone', ...)
	Setting        Feature = "setting"        // SET enable_sort
	SetTransaction Feature = "settransaction" // SET TRANSACTION
	Share          Feature = "share"          // SELECT ... FOR SHARE
	Temp           Feature = "temp"           // CREATE TEMP TABLE
	Truncate       Feature = "truncate"       // TRUNCATE
	TwoDDL         Feature = "twoddl"         // two DDL statements in one transaction
	Vacuum         Feature = "vacuum"         // VACUUM
)

// refusal is what DSQL answers to a statement that needs a feature it lacks.
type refusal struct{ code, message string }

// refusals is the one table of what DSQL refuses. "recorded" and "measured":
// seen on real clusters in August to October 2026. "presumed": by the pattern
// that all recorded refusals of whole statements share.
var refusals = map[Feature]refusal{
	Advisory:       {"0A000", "function pg_advisory_lock not supported"},                                 // as users report it, the code presumed
	AlterType:      {"0A000", "unsupported ALTER TABLE ALTER COLUMN ... SET DATA TYPE statement"},        // recorded
	ArrayColumn:    {"0A000", "datatype integer[] not supported"},                                        // recorded
	Chain:          {"0A000", "unsupported transaction statement: AND CHAIN"},                            // presumed
	Copy:           {"0A000", "unsupported statement: Copy"},                                             // presumed
	CreateAs:       {"0A000", "unsupported statement: CreateTableAs"},                                    // recorded
	CursorHold:     {"0A000", "a cursor WITH HOLD that scrolls cannot be declared inside a transaction"}, // Sluice's own: DSQL has none at all
	Do:             {"0A000", "unsupported statement: Do"},                                               // presumed
	Geometry:       {"0A000", "datatype point not supported"},                                            // recorded, of line and circle
	Listen:         {"0A000", "unsupported statement: Listen"},                                           // recorded
	MixedDDL:       {"0A000", "ddl and dml are not supported in the same transaction"},                   // recorded
	Role:           {"0A000", `setting configuration parameter "role" not supported`},                    // measured
	Serializable:   {"0A000", "Unsupported isolation level: SERIALIZABLE"},                               // recorded
	Setting:        {"0A000", `setting configuration parameter "enable_sort" not supported`},             // recorded, of other settings
	SetTransaction: {"0A000", "Unsupported isolation level: SERIALIZABLE"},                               // recorded, outside of a block
	Temp:           {"0A000", "TEMPORARY or TEMP table not supported for CREATE TABLE"},                  // recorded
	Truncate:       {"0A000", "unsupported statement: Truncate"},                                         // recorded
	TwoDDL:         {"0A000", "multiple ddl statements not supported in a transaction"},                  // recorded
	Vacuum:         {"0A000", "unsupported VACUUM statement"},                                            // recorded
}

// supplied are features that DSQL lacks and Sluice makes up for: the answers
// are PostgreSQL's. DSQL ignores cancels: Sluice ends the statement itself. It
// answers DISCARD ALL itself, too: what there is to discard, it holds. A
// transaction that met another is run again, and savepoints are emulated by that. Cursors are
// portals of the protocol there. The others are rewritten.
var supplied = map[Feature]bool{Cancel: true, Cursor: true, Discard: true, Index: true, LockWait: true, Savepoint: true, Serial: true, SetConfig: true, Share: true}

// painless are features of PostgreSQL that end in an error, where DSQL and Sluice
// have none: nobody waits, and who meets a conflict is run again.
var painless = map[Feature]bool{LockTimeout: true}
