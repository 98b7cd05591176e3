package retry

import "strconv"

// RefusalReason says why a transaction is not run again.
type RefusalReason uint8

const (
	Replayable   RefusalReason = iota // none: it can be run again
	OptedOut                          // the client opted out
	LogFull                           // its frames exceed retry.log_bytes
	MemoryFull                        // all logs together have reached retry.log_total_bytes
	CopyFrom                          // COPY FROM, whose data are not recorded
	Cancelled                         // a statement was cancelled
	TimedOut                          // a statement was timed out
	InnerCommit                       // a transaction of the same request has ended already
	Pinned                            // the session has state that a replay cannot restore
	Unread                            // a text that was not parsed because it exceeds a bound
	Masked                            // a statement whose answer is partly Sluice's own
	PartialGroup                      // a Sync group that may be more than one transaction
	Failed                            // a statement failed, so that only a rollback can follow
	Differs                           // the replay answered differently
	Delivered                         // it would commit before its answers can be compared with those delivered
	Exhausted                         // retry.max_retries or retry.max_elapsed is used up
	OverBudget                        // the process replays too much already
	NoBackend                         // no backend was free in time
	ClientGone                        // the client has left
	Draining                          // the process is about to stop
	Renamed                           // a statement has another meaning by the current schema
	Unchanged                         // the current schema does not know a name either
	reasonCount
)

// reasonTexts has the label of each reason, the DETAIL for the client, and the meaning in the documentation.
var reasonTexts = [reasonCount]struct{ label, detail, meaning string }{
	Replayable: {"", "", ""},
	OptedOut: {"opted_out", "replay is off for this client or statement",
		"the startup option `sluice.retry=off`, configuration, or the comment `/* sluice: no-retry */` in a statement of the transaction or its BEGIN; it applies from that statement to the transaction's end"},
	LogFull: {"log_full", "the transaction sent more than is kept for a replay",
		"the statements need more than `retry.log_bytes`"},
	MemoryFull: {"memory_full", "the memory for replays is used up",
		"all logs together have reached `retry.log_total_bytes`"},
	CopyFrom: {"copy_from", "the transaction copied data in",
		"COPY FROM that goes to the server, because Sluice does not log the data. A COPY that runs as INSERTs (`copy.from: insert`) is replayed as INSERTs"},
	Cancelled: {"cancelled", "a statement of the transaction was cancelled",
		"the statement was cancelled before the replay, in its waits (pause, gate, backend) or in its run. The client gets 57014, and a block fails, as on PostgreSQL"},
	TimedOut: {"timed_out", "a statement of the transaction timed out",
		"the statement exceeded `statement_timeout`; otherwise as `cancelled`"},
	InnerCommit: {"inner_commit", "a transaction of the same request has ended already",
		"a transaction of the same simple query or pipeline has ended already"},
	Pinned: {"pinned", "the session holds state that cannot be restored",
		"the session has state that a replay cannot restore. After a change of the schema (OC001) Sluice replays two kinds of transactions nevertheless. The statement that begins the state (PREPARE, a temporary table) runs again on another connection. A later transaction of the session runs again on the session's own connection, unless it has a FETCH, DEALLOCATE or another PREPARE, which a rollback does not undo"},
	Unread: {"unread", "a statement was too long or too deep to be read",
		"a statement that Sluice did not parse: too long for the log, too deep though the server accepted it, or outside the PostgreSQL grammar that Sluice knows"},
	Masked: {"masked", "a statement was answered in part by the proxy",
		"a statement that Sluice answers in part itself: CREATE INDEX in a block or among others (alone in autocommit it is replayed)"},
	PartialGroup: {"partial_group", "the request may be more than one transaction",
		"a pipeline outside a block that may be more than one transaction; a pipeline that continues after a text that Sluice did not parse, without a savepoint"},
	Failed: {"failed", "a statement of the transaction had failed",
		"a statement has failed: only a rollback can follow"},
	Differs: {"differs", "",
		"the replay has another answer; DETAIL names the statement by its number among those the server answered after BEGIN"},
	Delivered: {"delivered", "part of the result was delivered, and a replay would commit before it can be compared",
		"a part of the result was sent already (more than `retry.held_bytes`, or after `retry.hold_time`), and the statement commits by itself: a replay would commit before the comparison"},
	Exhausted: {"exhausted", "every attempt met a conflict again, or time ran out",
		"`retry.max_retries` or `retry.max_elapsed` is used up"},
	OverBudget: {"budget", "too many transactions are being run again",
		"the process has used up its budget of replays"},
	NoBackend: {"no_backend", "no connection was free in time",
		"no connection was free in time"},
	ClientGone: {"client_gone", "the client is gone",
		"the client sent Terminate after the request, or its connection is closed or broken. A client that closed only its sending half still gets its answer; requests before a Terminate still run"},
	Draining: {"draining", "the proxy is shutting down",
		"the process is about to end"},
	Renamed: {"renamed", "a statement of the transaction means something else since the schema was changed",
		"the schema has changed meanwhile, and an answered statement of the transaction has another meaning now (`rewrite.bytea`)"},
	Unchanged: {"unchanged", "the schema has not changed",
		"the server did not know a table or column (42P01, 42703), and the current schema does not have it either: most often the client's own mistake"},
}

// String returns the reason as a value of the label reason of dsql_tx_replay_refused_total.
func (r RefusalReason) String() string { return reasonTexts[r].label }

// RefusalReasons returns all values of the label reason of dsql_tx_replay_refused_total.
func RefusalReasons() []string {
	labels := make([]string, 0, reasonCount)
	for r := OptedOut; r < reasonCount; r++ {
		labels = append(labels, r.String())
	}
	return labels
}

// ReasonTable returns the reasons to refuse a replay as a Markdown table, with the meaning of each.
func ReasonTable() string {
	table := "| reason | meaning |\n| --- | --- |\n"
	for _, t := range reasonTexts[OptedOut:] {
		table += "| `" + t.label + "` | " + t.meaning + " |\n"
	}
	return table
}

// Hint is the HINT of the error that a client gets after a refused replay.
const Hint = "Retry the whole transaction in the application."

// Detail returns one sentence for the client that says why the transaction was not run again. d matters for the
// RefusalReason Differs only. The zero d means that a statement was not sent because its answer would differ.
func (r RefusalReason) Detail(d ReplayDifference) string {
	const refused = "Replay refused: "
	switch {
	case r != Differs:
		return refused + reasonTexts[r].detail + "."
	case d.First == 0: // the server was not asked
		return refused + "a statement would answer, or store, otherwise than before, and was not sent again."
	}
	return refused + "the result of " + d.DescribeStatement() + " differs in " + d.Kind.String() + "."
}

// DifferenceKind names the kind of difference between a transaction's answers and those of its replay.
type DifferenceKind uint8

const (
	Values  DifferenceKind = iota // as much output, with other bytes
	Size                          // more or fewer, longer or shorter rows
	Outcome                       // an error instead of a result, or the reverse
	whatCount
)

func (w DifferenceKind) String() string {
	return [whatCount]string{"its values", "its size", "its outcome"}[w]
}

// ReplayDifference locates the first answer of a replay that differs. It holds no data of the answer.
type ReplayDifference struct {
	// First and Last are ordinals, from 1, of the statements that the server answered. A BEGIN sent ahead is not counted.
	// First and Last are not equal where several statements were answered together.
	First, Last int
	Verb        CommandVerb // of the first statement
	Kind        DifferenceKind
}

// DescribeStatement returns a name for the differing statement, for example "statement 1 (insert)".
func (d ReplayDifference) DescribeStatement() string {
	s := "statement " + strconv.Itoa(d.First)
	if d.Last > d.First {
		return "one of the statements " + strconv.Itoa(d.First) + " to " + strconv.Itoa(d.Last)
	}
	if d.Verb != OtherVerb {
		s += " (" + d.Verb.String() + ")"
	}
	return s
}
