package dsqlsim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/asked"
)

// FaultPoint is a moment at which dsqlsim may inject a fault.
type FaultPoint string

const (
	AtConnect   FaultPoint = "connect"    // the startup packet was read
	AtStatement FaultPoint = "statement"  // before a statement goes to PostgreSQL, COMMIT included
	AtRow       FaultPoint = "row"        // in the middle of a statement's result
	Running     FaultPoint = "running"    // a statement is on its way, and its outcome is unknown
	Answered    FaultPoint = "answered"   // PostgreSQL has completed the statement, and the client has no answer yet
	AtCommit    FaultPoint = "commit"     // before a COMMIT that ends an open transaction goes
	Committing  FaultPoint = "committing" // that COMMIT is on its way, and its outcome is unknown
	Committed   FaultPoint = "committed"  // PostgreSQL has committed, and the client has no answer yet
)

var points = []FaultPoint{AtConnect, AtStatement, AtRow, Running, Answered, AtCommit, Committing, Committed}

// FaultAction says what happens at a planned fault: an error, a cut connection or a pause.
type FaultAction string

const (
	// Fail answers the statement with the fault's Error; the statement has no effect.
	Fail FaultAction = "fail"
	// Cut closes the client's connection without an error message. The PostgreSQL connection closes as well, except while
	// a statement is on its way (Running, Committing). That statement still runs to its end.
	Cut FaultAction = "cut"
	// Stall stops the session for the fault's Seconds.
	Stall FaultAction = "stall"
)

var actions = []FaultAction{Fail, Cut, Stall}

// refusals lists the values that Fault.Error may have, each with the error that it names.
var refusals = []struct {
	name      string
	atConnect bool
	*failure
}{
	{"conflict", false, dataConflict}, // OC000
	{"schema", false, schemaConflict}, // OC001
	{"timeout", false, cutShort},
	{"refused", false, notAllowed},
	{"rate", true, tooFast},
	{"connections", true, tooMany},
	{"denied", true, accessDenied},
	{"waking-up", true, clusterWakingUp},
}

// Always as Fault.Count makes the fault happen without limit.
const Always = -1

// maxFaults bounds the number of planned faults, maxStall the length of one Stall, and maxMatch the length of a text to
// match.
const (
	maxFaults = 1000
	maxStall  = time.Hour
	maxMatch  = 1000
)

// Fault is one fault that dsqlsim is asked to inject (a planned fault). At is the kind of moment at which the fault
// may happen. The fields from Session to Contains select some of these moments, and Skip to Count limit how often it
// happens.
type Fault struct {
	At     FaultPoint  `json:"at"`
	Action FaultAction `json:"action"`
	// Error is the name of the error that a Fail answers, see refusals.
	Error string `json:"error,omitempty"`
	// Seconds is the length of a Stall.
	Seconds float64 `json:"seconds,omitempty"`
	// Row is the number of rows that the client gets before a fault AtRow happens. In a shorter result the fault happens
	// at the end.
	Row int `json:"row,omitempty"`

	// Session is the number of a connection in the ledger, or 0 for any connection.
	Session uint64 `json:"session,omitempty"`
	// Transaction is the number of a transaction in its session, statements outside a block included. 0 means any
	// transaction.
	Transaction uint64 `json:"transaction,omitempty"`
	// Statement is the number of a statement in its transaction, BEGIN not counted. 0 means any statement.
	Statement int `json:"statement,omitempty"`
	// Verb is the first word of the statement, or "" for any word.
	Verb string `json:"verb,omitempty"`
	// Contains is a part of the statement's text, case-sensitive.
	Contains string `json:"contains,omitempty"`

	// Question is the name of a query that Sluice sends by itself (package asked), "" for any statement.
	Question string `json:"question,omitempty"`

	// Name and After make one fault wait for another. A fault with After counts only moments after the fault of that Name
	// has happened, for example "during the replay".
	Name  string `json:"name,omitempty"`
	After string `json:"after,omitempty"`
	// Skip is the number of matching moments that pass before the fault may happen.
	Skip int `json:"skip,omitempty"`
	// Probability is the chance of the fault at each moment, from a random source seeded with Seed. 0 means certain.
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`
	// Count is how often the fault happens. 0 means once, or Always if the fault has a Probability.
	Count int `json:"count,omitempty"`
	// PerSession means that Skip and Count apply to each session separately.
	PerSession bool `json:"per_session,omitempty"`
}

// Validate returns all problems of the fault.
func (f *Fault) Validate() error {
	var problems []error
	want := func(ok bool, key string, value any, remedy string) {
		if ok {
			return
		}
		if text, isText := value.(string); isText {
			value = fmt.Sprintf("%q", shortenText(text))
		}
		problems = append(problems, fmt.Errorf("%s %v: want %s", key, value, remedy))
	}
	want(slices.Contains(points, f.At), "at", string(f.At), listWords(points))
	want(slices.Contains(actions, f.Action), "action", string(f.Action), listWords(actions))
	if f.Action == Fail {
		want(!f.isAfterSend(), "action", string(f.Action), "cut or stall at "+string(f.At)+", when it is too late to fail")
		want(f.isAfterSend() || f.failure() != nil, "error", f.Error, listWords(f.fittingErrors()))
	} else {
		want(f.Error == "", "error", f.Error, "none unless the action is fail")
	}
	if f.Action == Stall {
		want(f.Seconds > 0 && f.Seconds <= maxStall.Seconds(), "seconds", f.Seconds, fmt.Sprintf("more than 0, at most %v", maxStall.Seconds()))
	} else {
		want(f.Seconds == 0, "seconds", f.Seconds, "none unless the action is stall")
	}
	want(f.Row == 0 || f.At == AtRow && f.Row > 0, "row", f.Row, "the number of rows to be sent before, at row only")
	want(f.Skip >= 0, "skip", f.Skip, "0 or more")
	want(f.Count >= Always, "count", f.Count, "1 or more, or -1 for always")
	want(f.Probability >= 0 && f.Probability <= 1, "probability", f.Probability, "more than 0, at most 1")
	want(f.Seed == 0 || f.Probability > 0, "seed", f.Seed, "none without a probability")
	want(f.Statement >= 0, "statement", f.Statement, "1 or more")
	want(len(f.Contains) <= maxMatch, "contains", f.Contains, fmt.Sprintf("at most %d bytes", maxMatch))
	want(f.Question == "" || asked.IsQuestion(f.Question), "question", f.Question, "one of "+asked.ListNames())
	want(len(f.Name) <= maxMatch, "name", f.Name, fmt.Sprintf("at most %d bytes", maxMatch))
	want(f.Name == "" || f.Name != f.After, "after", f.After, "the name of another fault")
	if f.At == AtConnect {
		const remedy = "none at connect: there is no session yet"
		want(f.Session == 0, "session", f.Session, remedy)
		want(f.Transaction == 0, "transaction", f.Transaction, remedy)
		want(f.Statement == 0, "statement", f.Statement, remedy)
		want(f.Verb == "", "verb", f.Verb, remedy)
		want(f.Contains == "", "contains", f.Contains, remedy)
		want(f.Question == "", "question", f.Question, remedy)
		want(!f.PerSession, "per_session", f.PerSession, remedy)
	}
	return errors.Join(problems...)
}

// isAfterSend reports whether the fault happens after its statement has gone to PostgreSQL.
func (f *Fault) isAfterSend() bool {
	return f.At == Running || f.At == Answered || f.At == Committing || f.At == Committed
}

// fittingErrors returns the names of the errors that can happen at the fault's moment.
func (f *Fault) fittingErrors() []string {
	var names []string
	for _, r := range refusals {
		if r.atConnect == (f.At == AtConnect) {
			names = append(names, r.name)
		}
	}
	return names
}

// failure returns the error of a Fail, nil if the name in Error does not fit.
func (f *Fault) failure() *failure {
	for _, r := range refusals {
		if r.name == f.Error && r.atConnect == (f.At == AtConnect) {
			return r.failure
		}
	}
	return nil
}

// stallDuration returns how long a fault with the action Stall stops the session.
func (f *Fault) stallDuration() time.Duration { return time.Duration(f.Seconds * float64(time.Second)) }

// faultMoment describes a moment at which a fault may happen, for the comparison with the plan.
type faultMoment struct {
	at      FaultPoint
	session uint64
	// The fields from transaction to sql describe the statement of a moment. At a moment of kind AtConnect they are
	// zero.
	transaction uint64
	statement   int
	verb, sql   string
}

// matchesMoment reports whether the fault may happen at this moment.
func (f *Fault) matchesMoment(m *faultMoment) bool {
	switch {
	case f.At != m.at,
		f.Session != 0 && f.Session != m.session,
		f.Transaction != 0 && f.Transaction != m.transaction,
		f.Statement != 0 && f.Statement != m.statement,
		f.Verb != "" && canonicalVerb(f.Verb) != m.verb,
		f.Question != "" && asked.QuestionOf(m.sql) != f.Question,
		// A ROLLBACK cannot fail, so a fault with the action Fail does not match.
		f.Action == Fail && m.verb == "ROLLBACK":
		return false
	}
	return strings.Contains(m.sql, f.Contains)
}

// repeatLimit returns how often the fault may happen, as Count and Probability say.
func (f *Fault) repeatLimit() int {
	switch {
	case f.Count == Always, f.Count == 0 && f.Probability > 0:
		return math.MaxInt
	}
	return max(f.Count, 1)
}

// listWords joins words to a list such as "a, b or c".
func listWords[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}

// shortenText cuts a wrong text of a user, so that it does not fill an error message.
func shortenText(s string) string {
	const enough = 60
	if len(s) <= enough {
		return s
	}
	return strings.ToValidUTF8(s[:enough], "") + "..."
}
