// Package question has the questions that Sluice itself asks a server. All lists the questions, each with the action
// after each kind of fault. Schedule decides when a question is asked again.
//
// A fault is a failure to get an answer, and says nothing about the server. So a fault has no effect for longer than
// a pause, in which Sluice acts on the question's Meanwhile, a safe assumption.
package question

import "strings"

// Fault is a kind of failure to get an answer to a question.
type Fault uint8

// These are all kinds of faults: failures to get an answer to a question.
const (
	// Conflict is SQLSTATE 40001: the transaction of the question met a conflict, mostly because its backend's catalog was
	// old.
	Conflict Fault = iota
	// Loss means that the connection ended before the answer.
	Loss
	// Timeout means that the answer did not arrive in time, or that the server cannot work now (Classify).
	Timeout
	// Refusal means that the server answered with any other error.
	Refusal
	// Faults is the number of kinds of faults.
	Faults
)

// FaultAction is what Sluice does after a fault, a failure to get an answer to a question.
type FaultAction uint8

// These are all actions after a fault (a failure to get an answer). In any case Sluice closes a connection that was
// lost, or on which an answer is still due.
const (
	// Again means that Sluice asks again at once on the same backend. After several attempts it means Later.
	Again FaultAction = iota
	// Elsewhere means that Sluice asks again at once on another backend. After several attempts it means Later.
	Elsewhere
	// Later means that the server's answer is unknown, and that Sluice asks again after a pause.
	Later
	// No means that Sluice assumes that the server lacks the feature. It asks again when this assumption is old.
	No
	// Client means that the client's statement that needs the answer fails. For the next one Sluice asks again.
	Client
)

// Question is a question that Sluice itself asks a server. When, Meanwhile and On are its occasion, the assumption
// until the answer, and the action after each kind of fault.
type Question struct {
	Name, When, Meanwhile string
	On                    [Faults]FaultAction
}

// These are all questions that Sluice itself asks a server.
var (
	Groups = Question{Name: "groups", When: "a backend is lent, with replay", Meanwhile: "the statements of a pipeline outside of a block are not run again",
		On: [Faults]FaultAction{Again, Later, Later, Later}}
	Purity = Question{Name: "purity", When: "a backend is lent; a text that looks like a read is sent, or was lost", Meanwhile: "what was known before, for two minutes; else what looks like a read is a write",
		On: [Faults]FaultAction{Again, Later, Later, Later}}
	Unseen = Question{Name: "functions that leave something", When: "a backend is lent (kind postgres)", Meanwhile: "what was known before",
		On: [Faults]FaultAction{Later, Later, Later, Later}}
	Left = Question{Name: "what functions have left", When: "a transaction has ended that called functions (kind postgres)", Meanwhile: "the backend is nobody else's, and is given up",
		On: [Faults]FaultAction{Client, Client, Client, Client}}
	Schema = Question{Name: "schema", When: "a text names what the snapshot of the relations lacks, or the schema has changed", Meanwhile: "texts that name no relation pass; others wait, go by the snapshot before, or fail (53300)",
		On: [Faults]FaultAction{Again, Elsewhere, Elsewhere, Later}}
	SchemaThere = Question{Name: "schema of a database", When: "a client connects whose database stands for a schema", Meanwhile: "the client waits",
		On: [Faults]FaultAction{Again, Elsewhere, Elsewhere, Client}}
	Locks = Question{Name: "rows of locks", When: "a lock is taken, renewed or given up", Meanwhile: "a lock that is wanted is not held; one that is held stays until its lease has run out",
		On: [Faults]FaultAction{Again, Client, Client, Client}}
	Sequences = Question{Name: "sequences discarded", When: "a backend is lent on which another session has drawn numbers", Meanwhile: "currval and lastval fail as where nothing was drawn",
		On: [Faults]FaultAction{Again, Elsewhere, Elsewhere, No}}
	Numbers = Question{Name: "numbers of the session's own", When: "currval or lastval in a block, on a backend that others have used", Meanwhile: "they fail as where nothing was drawn",
		On: [Faults]FaultAction{Client, Client, Client, Later}}
	Settings = Question{Name: "settings", When: "a backend is lent that has others than the session's", Meanwhile: "nothing is sent",
		On: [Faults]FaultAction{Again, Elsewhere, Elsewhere, Client}}
	Job = Question{Name: "job of an index", When: "a CREATE INDEX is awaited", Meanwhile: "the client waits",
		On: [Faults]FaultAction{Again, Client, Client, No}}
	Index = Question{Name: "index of a job", When: "a job that has ended says why", Meanwhile: "the client waits",
		On: [Faults]FaultAction{Again, Client, Client, Client}}
)

// All lists all questions that Sluice asks.
var All = []*Question{&Groups, &Purity, &Unseen, &Left, &Schema, &SchemaThere, &Locks, &Sequences, &Numbers, &Settings, &Job, &Index}

// PostgresPrefix is SQL that precedes a question in the same Query, on a PostgreSQL server. The SQL protects the
// question from the settings of the backend's last client or of its current one: a timeout, a user's operators, a
// role without rights. The settings of PostgresPrefix end with the Query. Its first statement ends a client's
// statement_timeout, which can interrupt only that statement (RetryInterrupted).
const PostgresPrefix = "SET LOCAL statement_timeout TO 0; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout TO 0; SET LOCAL search_path TO pg_catalog; " +
	"SET LOCAL SESSION AUTHORIZATION DEFAULT; SET LOCAL ROLE NONE; "

// maxInterrupted bounds the attempts of RetryInterrupted. The first statement of a question takes far less than a
// millisecond, the shortest statement_timeout, unless the machine is busy. Five consecutive interruptions are very
// unlikely.
const maxInterrupted = 5

// RetryInterrupted calls send, which sends a question or a Query of settings. After an interruption by a client's
// statement_timeout (57014), RetryInterrupted calls send again. send returns the SQLSTATE of the server's error, or ""
// for none. An error of send means that there was no answer, and ends the attempts.
func RetryInterrupted(send func() (state string, err error)) {
	for range maxInterrupted {
		if state, err := send(); err != nil || state != "57014" {
			return
		}
	}
}

// Classify returns the kind of fault that an error with this SQLSTATE means. An error of a server that cannot work
// now (no resources, its operator, a lock, a bug) counts as a Timeout.
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
