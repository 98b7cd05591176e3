package retry

import "bytes"

// These are the SQLSTATEs that have their own ResultClass.
const (
	StateConflict    = "40001"
	StateUnsupported = "0A000"
)

// ResultClass is the class of an error or of a result of the server.
type ResultClass uint8

const (
	// Permanent is the class of every error without its own class. The error goes to the client.
	Permanent ResultClass = iota
	// ConditionFailed is the class of an UPDATE or DELETE whose condition matched no row. The client must see this result,
	// which is no error and is never retried.
	ConditionFailed
	// Conflict is the class of an abort by optimistic concurrency control: the transaction did not commit and may run
	// again.
	Conflict
	// Unsupported is the class of an error for a feature that the server lacks. A retry cannot help.
	Unsupported
	classCount
)

// String returns the class as a value of the metrics label error_type.
func (c ResultClass) String() string {
	return [classCount]string{"permanent", "condition_failed", "conflict", "unsupported"}[c]
}

// Retryable reports whether a transaction with an error of class c may be run again.
func (c ResultClass) Retryable() bool { return c == Conflict }

// ReplayCause is the reason for a replay of a transaction.
type ReplayCause uint8

const (
	// UnknownConflict is the cause of a replay after a 40001 without a known code.
	UnknownConflict ReplayCause = iota
	DataConflict                // OC000: another transaction wrote the same rows
	SchemaConflict              // OC001: the backend's catalog was out of date
	// BackendLost is the cause of a replay after the loss of the backend, before a frame that commits was sent.
	BackendLost
	// FormRefused is the cause of a replay after the server refused a statement that Sluice can rewrite in another way.
	// The next attempt sends the other text.
	FormRefused
	// UnknownName is the cause of a replay after the server did not know a relation or column. After reading the current
	// schema, Sluice may rewrite the statement in another way.
	UnknownName
	causeCount
)

// MayConflict reports whether a replay for the cause c has met a conflict or may meet one. Other transactions then
// wait for the replay, and it needs a token of the Budget.
func (c ReplayCause) MayConflict() bool { return c < FormRefused }

// IsRowContention reports whether another transaction wanted the same rows, as far as the server reported.
func (c ReplayCause) IsRowContention() bool { return c == DataConflict || c == UnknownConflict }

// String returns the cause as a metrics label: the OC code, the SQLSTATE, or a name.
func (c ReplayCause) String() string {
	return [causeCount]string{"unknown", "OC000", "OC001", "backend_lost", StateUnsupported, "unknown_name"}[c]
}

// Classify returns the class of an error by its SQLSTATE alone. The cause comes from the code that DSQL writes into the
// message, for example "(OC000)". The cause is used for labels and pauses, not for the decision to replay.
func Classify(sqlstate, message []byte) (ResultClass, ReplayCause) {
	switch string(sqlstate) {
	case StateConflict:
		return Conflict, conflictCause(message)
	case StateUnsupported:
		return Unsupported, UnknownConflict
	}
	return Permanent, UnknownConflict
}

func conflictCause(message []byte) ReplayCause {
	i := bytes.Index(message, []byte("(OC00"))
	if i < 0 || len(message) < i+7 || message[i+6] != ')' {
		return UnknownConflict
	}
	switch message[i+5] {
	case '0':
		return DataConflict
	case '1':
		return SchemaConflict
	}
	return UnknownConflict
}

// MatchedNoRows reports whether a command tag says that an UPDATE or DELETE matched no row. If its condition was a key
// and a version, another transaction has changed the row. The result class is then ConditionFailed.
func MatchedNoRows(tag []byte) bool {
	switch string(tag) {
	case "UPDATE 0", "DELETE 0":
		return true
	}
	return false
}

// CommandVerb is the kind of a statement: the first word of its command tag.
type CommandVerb uint8

const (
	OtherVerb CommandVerb = iota
	Select
	Insert
	Update
	Delete
	Merge
	Copy
	Fetch
	verbCount
)

// String returns the verb as ReplayDifference.DescribeStatement shows it.
func (v CommandVerb) String() string {
	return [verbCount]string{"other", "select", "insert", "update", "delete", "merge", "copy", "fetch"}[v]
}

// VerbOf returns the verb of a command tag, its first word, as a CommandVerb.
func VerbOf(tag []byte) CommandVerb {
	if i := bytes.IndexByte(tag, ' '); i >= 0 {
		tag = tag[:i]
	}
	switch string(tag) {
	case "SELECT":
		return Select
	case "INSERT":
		return Insert
	case "UPDATE":
		return Update
	case "DELETE":
		return Delete
	case "MERGE":
		return Merge
	case "COPY":
		return Copy
	case "FETCH":
		return Fetch
	}
	return OtherVerb
}
