package retry

import "bytes"

// SQLSTATEs with their own class.
const (
	StateConflict    = "40001"
	StateUnsupported = "0A000"
)

// Class is the class of an error or a result.
type Class uint8

const (
	// Permanent is every other error. It goes to the client.
	Permanent Class = iota
	// ConditionFailed is a write with a condition that matched no row. It is a result that the
	// client must see, never an error, and never retried.
	ConditionFailed
	// Conflict is an OCC abort: the transaction did not commit and may run again.
	Conflict
	// Unsupported is a feature that the server lacks. A retry cannot help.
	Unsupported
	classCount
)

// String returns the value of the label error_type.
func (c Class) String() string {
	return [classCount]string{"permanent", "condition_failed", "conflict", "unsupported"}[c]
}

// Retryable reports whether a transaction with an error of class c may be run again.
func (c Class) Retryable() bool { return c == Conflict }

// Cause is the reason for a replay.
type Cause uint8

const (
	// UnknownConflict is a 40001 without a known code.
	UnknownConflict Cause = iota
	DataConflict          // OC000: another transaction wrote the same rows
	SchemaConflict        // OC001: the backend's catalog was out of date
	// BackendLost is the loss of the backend before anything that commits was sent.
	BackendLost
	// FormRefused is the refusal of a statement whose next attempt has another form.
	FormRefused
	// UnknownName is a relation or column that the server does not know, in a statement that may
	// have another form by the current schema.
	UnknownName
	causeCount
)

// Conflicts reports whether a replay for c has met a conflict or may meet one. Others then wait for
// it, and it uses the budget.
func (c Cause) Conflicts() bool { return c < FormRefused }

// Contended reports whether another transaction wanted the same rows, as far as the server says.
func (c Cause) Contended() bool { return c == DataConflict || c == UnknownConflict }

// String returns a label value: the OC code or SQLSTATE, if any.
func (c Cause) String() string {
	return [causeCount]string{"unknown", "OC000", "OC001", "backend_lost", StateUnsupported, "unknown_name"}[c]
}

// Classify returns the class of an error by its SQLSTATE alone. The cause comes from the code that
// DSQL writes into the message as "(OC000)". It is used for labels and pauses, not for the
// decision.
func Classify(sqlstate, message []byte) (Class, Cause) {
	switch string(sqlstate) {
	case StateConflict:
		return Conflict, causeOf(message)
	case StateUnsupported:
		return Unsupported, UnknownConflict
	}
	return Permanent, UnknownConflict
}

func causeOf(message []byte) Cause {
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

// Missed reports whether a command tag says that an UPDATE or DELETE matched no row. If the
// statement had a key and a version as its condition, that is a ConditionFailed.
func Missed(tag []byte) bool {
	switch string(tag) {
	case "UPDATE 0", "DELETE 0":
		return true
	}
	return false
}

// Verb is the first word of a command tag.
type Verb uint8

const (
	OtherVerb Verb = iota
	Select
	Insert
	Update
	Delete
	Merge
	Copy
	Fetch
	verbCount
)

// String returns the verb as a Difference shows it.
func (v Verb) String() string {
	return [verbCount]string{"other", "select", "insert", "update", "delete", "merge", "copy", "fetch"}[v]
}

// VerbOf returns the verb of a command tag.
func VerbOf(tag []byte) Verb {
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
