// Package question has the questions that Sluice asks a server by itself: a table of them, what each
// way in which one can fail means (Table), and when it is asked again (Pace).
//
// A fault is not an answer. A server that could not say whether something holds has said nothing
// about it, so nothing is concluded for longer than a pause. What holds meanwhile is the row's
// Meanwhile, which errs towards what is safe.
package question

import "strings"

// Fault is a way in which a question fails.
type Fault uint8

// The faults.
const (
	// Conflict is SQLSTATE 40001: the question's transaction has lost, mostly since the catalog of
	// its backend was old.
	Conflict Fault = iota
	// Loss is a connection that ended in front of the answer.
	Loss
	// Timeout is an answer that did not come in its time, or a server that says that it cannot work
	// now (Classify).
	Timeout
	// Refusal is any other error of the server's.
	Refusal
	// Faults is how many there are.
	Faults
)

// Meaning is what follows from a fault.
type Meaning uint8

// The meanings. Wherever a connection was lost, or an answer is still to come on it, it is given up too.
const (
	// Again: the question is asked again at once, some times on the same backend, then as Later.
	Again Meaning = iota
	// Elsewhere: the question is asked again at once on another backend, some times, then as Later.
	Elsewhere
	// Later: nothing is known; it is asked again behind a pause.
	Later
	// No: the server takes no such thing. It is asked again when the answer is old.
	No
	// Client: the statement that needs the answer fails with it, and the next asks again.
	Client
)

// Question is one that Sluice asks by itself. Its fields say when, what is taken for true as long as
// nobody knows, and what each fault means.
type Question struct {
	Name, When, Meanwhile string
	On                    [Faults]Meaning
}

// The questions.
var (
	Groups = Question{Name: "groups", When: "a backend is lent, with replay", Meanwhile: "the statements of a pipeline outside of a block are not run again",
		On: [Faults]Meaning{Again, Later, Later, Later}}
	Purity = Question{Name: "purity", When: "a backend is lent; a text that looks like a read is sent, or was lost", Meanwhile: "what was known before, for two minutes; else what looks like a read is a write",
		On: [Faults]Meaning{Again, Later, Later, Later}}
	Unseen = Question{Name: "functions that leave something", When: "a backend is lent (kind postgres)", Meanwhile: "what was known before",
		On: [Faults]Meaning{Later, Later, Later, Later}}
	Left = Question{Name: "what functions have left", When: "a transaction has ended that called functions (kind postgres)", Meanwhile: "the backend is nobody else's, and is given up",
		On: [Faults]Meaning{Client, Client, Client, Client}}
	Schema = Question{Name: "schema", When: "a text names what the snapshot of the relations lacks, or the schema has changed", Meanwhile: "texts that name no relation pass; others wait, go by the snapshot before, or fail (53300)",
		On: [Faults]Meaning{Again, Elsewhere, Elsewhere, Later}}
	SchemaThere = Question{Name: "schema of a database", When: "a client connects whose database stands for a schema", Meanwhile: "the client waits",
		On: [Faults]Meaning{Again, Elsewhere, Elsewhere, Client}}
	Locks = Question{Name: "rows of locks", When: "a lock is taken, renewed or given up", Meanwhile: "a lock that is wanted is not held; one that is held stays until its lease has run out",
		On: [Faults]Meaning{Again, Client, Client, Client}}
	Sequences = Question{Name: "sequences discarded", When: "a backend is lent on which another session has drawn numbers", Meanwhile: "currval and lastval fail as where nothing was drawn",
		On: [Faults]Meaning{Again, Elsewhere, Elsewhere, No}}
	Numbers = Question{Name: "numbers of the session's own", When: "currval or lastval in a block, on a backend that others have used", Meanwhile: "they fail as where nothing was drawn",
		On: [Faults]Meaning{Client, Client, Client, Later}}
	Settings = Question{Name: "settings", When: "a backend is lent that has others than the session's", Meanwhile: "nothing is sent",
		On: [Faults]Meaning{Again, Elsewhere, Elsewhere, Client}}
	Job = Question{Name: "job of an index", When: "a CREATE INDEX is awaited", Meanwhile: "the client waits",
		On: [Faults]Meaning{Again, Client, Client, No}}
	Index = Question{Name: "index of a job", When: "a job that has ended says why", Meanwhile: "the client waits",
		On: [Faults]Meaning{Again, Client, Client, Client}}
)

// Table has every question, with a row for each.
var Table = []*Question{&Groups, &Purity, &Unseen, &Left, &Schema, &SchemaThere, &Locks, &Sequences, &Numbers, &Settings, &Job, &Index}

// OnPostgres goes in front of a question in the same Query, on a server that is PostgreSQL. It keeps
// the settings that the backend has, of its last client or of this one, away from the question: a
// timeout, operators of a user's own, a role that may not look. What it sets ends with the Query. A
// client's timeout ends with the first statement: until then it can cut the Query short (Asked).
const OnPostgres = "SET LOCAL statement_timeout TO 0; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout TO 0; SET LOCAL search_path TO pg_catalog; " +
	"SET LOCAL SESSION AUTHORIZATION DEFAULT; SET LOCAL ROLE NONE; "

// mostAsked is how often Asked sends a question. The first statement of one takes far less than a
// millisecond, the shortest statement_timeout, unless the machine is busy: five in a row are hardly ever cut short.
const mostAsked = 5

// Asked calls send, which sends a question or a Query of settings, and calls it again where a client's
// statement_timeout cut that short (57014). send returns the SQLSTATE of the server's error ("" for none), or why
// there is no answer: behind that Asked calls it no more.
func Asked(send func() (state string, err error)) {
	for range mostAsked {
		if state, err := send(); err != nil || state != "57014" {
			return
		}
	}
}

// Classify returns the fault that an error of the server's with that SQLSTATE is. An error by which
// the server does not work now (resources, its operator, a lock, itself) says nothing of what was
// asked, and counts as a Timeout.
func Classify(state string) Fault {
	if state == "40001" {
		return Conflict
	}
	for _, class := range []string{"08", "25P03", "40", "53", "54", "55P03", "57", "58", "72", "XX"} {
		if strings.HasPrefix(state, class) {
			return Timeout
		}
	}
	return Refusal
}
