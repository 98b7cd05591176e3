package retry

import "strconv"

// Reason is why a transaction is not run again, or cannot be.
type Reason uint8

const (
	Replayable   Reason = iota // no reason: it can
	OptedOut                   // the client asked for it
	LogFull                    // more was sent than retry.log_bytes
	MemoryFull                 // all logs together are at retry.log_total_bytes
	CopyFrom                   // COPY FROM: its data are not kept
	Cancelled                  // a statement was cancelled
	TimedOut                   // a statement was timed out
	InnerCommit                // a transaction of the same request has ended
	Pinned                     // the session has state that a replay cannot restore
	Unread                     // a text that nobody read: over a bound
	Masked                     // a statement whose answer is in part the proxy's own
	PartialGroup               // a Sync group that may be more than one transaction
	Failed                     // a statement failed: only a rollback can follow
	Differs                    // the replay answered otherwise
	Delivered                  // it would commit before it can be compared with what was delivered
	Exhausted                  // retry.max_retries or retry.max_elapsed is used up
	OverBudget                 // the process replays too much as it is
	NoBackend                  // there was none to be had in time
	ClientGone                 // nobody waits for it any more
	Draining                   // the process is about to end
	Renamed                    // a statement means something else by the schema as it is now
	Unchanged                  // the schema as it is now does not know a name either
	reasonCount
)

var reasonTexts = [reasonCount]struct{ label, detail string }{
	Replayable:   {"", ""},
	OptedOut:     {"opted_out", "replay is off for this client or statement"},
	LogFull:      {"log_full", "the transaction sent more than is kept for a replay"},
	MemoryFull:   {"memory_full", "the memory for replays is used up"},
	CopyFrom:     {"copy_from", "the transaction copied data in"},
	Cancelled:    {"cancelled", "a statement of the transaction was cancelled"},
	TimedOut:     {"timed_out", "a statement of the transaction timed out"},
	InnerCommit:  {"inner_commit", "a transaction of the same request has ended already"},
	Pinned:       {"pinned", "the session holds state that cannot be restored"},
	Unread:       {"unread", "a statement was too long or too deep to be read"},
	Masked:       {"masked", "a statement was answered in part by the proxy"},
	PartialGroup: {"partial_group", "the request may be more than one transaction"},
	Failed:       {"failed", "a statement of the transaction had failed"},
	Differs:      {"differs", ""},
	Delivered:    {"delivered", "part of the result was delivered, and a replay would commit before it can be compared"},
	Exhausted:    {"exhausted", "every attempt met a conflict again, or time ran out"},
	OverBudget:   {"budget", "too many transactions are being run again"},
	NoBackend:    {"no_backend", "no connection was free in time"},
	ClientGone:   {"client_gone", "the client is gone"},
	Draining:     {"draining", "the proxy is shutting down"},
	Renamed:      {"renamed", "a statement of the transaction means something else since the schema was changed"},
	Unchanged:    {"unchanged", "the schema has not changed"},
}

// String is the value of the label reason of dsql_tx_replay_refused_total.
func (r Reason) String() string { return reasonTexts[r].label }

// Reasons are all label values.
func Reasons() []string {
	labels := make([]string, 0, reasonCount)
	for r := OptedOut; r < reasonCount; r++ {
		labels = append(labels, r.String())
	}
	return labels
}

// Hint goes with every refused replay.
const Hint = "Retry the whole transaction in the application."

// Detail is one sentence for the client: why the transaction was not run again.
// d is of use for Differs only; the zero value says that a statement was not sent for what it would answer.
func (r Reason) Detail(d Difference) string {
	const refused = "Replay refused: "
	switch {
	case r != Differs:
		return refused + reasonTexts[r].detail + "."
	case d.First == 0: // nobody has asked the server
		return refused + "a statement would answer, or store, otherwise than before, and was not sent again."
	}
	return refused + "the result of " + d.Statement() + " differs in " + d.What.String() + "."
}

// What differs between a transaction and its replay.
type What uint8

const (
	Values  What = iota // the same amount of output, other bytes
	Size                // rows or columns more or fewer, longer or shorter
	Outcome             // an error in place of a result, or the reverse
	whatCount
)

func (w What) String() string {
	return [whatCount]string{"its values", "its size", "its outcome"}[w]
}

// Difference says where a replay first answered otherwise. It holds no data.
type Difference struct {
	// First and Last are ordinals, from 1, of the transaction's statements that
	// the server answered; a BEGIN sent ahead is none. They differ where several
	// statements were answered together.
	First, Last int
	Verb        Verb // of the first
	What        What
}

// Statement names it: statement 1 (insert).
func (d Difference) Statement() string {
	s := "statement " + strconv.Itoa(d.First)
	if d.Last > d.First {
		return "one of the statements " + strconv.Itoa(d.First) + " to " + strconv.Itoa(d.Last)
	}
	if d.Verb != OtherVerb {
		s += " (" + d.Verb.String() + ")"
	}
	return s
}
