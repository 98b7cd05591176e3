package retry

import "bytes"

// SQLSTATEs that have a class of their own.
const (
	StateConflict    = "40001"
	StateUnsupported = "0A000"
)

// Class is what becomes of an error or a result.
type Class uint8

const (
	// Permanent is every other error. It is the client's.
	Permanent Class = iota
	// ConditionFailed is a fenced write that matched no row: a result that its
	// client must see, never an error, and never retried.
	ConditionFailed
	// Conflict is an OCC abort: the transaction did not commit and may run again.
	Conflict
	// Unsupported is a feature that the server lacks. Trying again cannot help.
	Unsupported
	classCount
)

// String is the value of the label error_type.
func (c Class) String() string {
	return [classCount]string{"permanent", "condition_failed", "conflict", "unsupported"}[c]
}

// Retryable reports whether a transaction that met c may be run again.
func (c Class) Retryable() bool { return c == Conflict }

// Cause is why a transaction has to run again.
type Cause uint8

const (
	// UnknownConflict is a 40001 with no code, or one that nobody knows.
	UnknownConflict Cause = iota
	DataConflict          // OC000: another transaction wrote what this one did
	SchemaConflict        // OC001: the backend's catalog was out of date
	// BackendLost is the loss of the backend before anything that commits was sent.
	BackendLost
	// FormRefused is the refusal of a statement that goes out in another form next.
	FormRefused
	// UnknownName is a relation or column that the server does not know, of a statement that
	// the schema as it is now may have sent otherwise.
	UnknownName
	causeCount
)

// Conflicts reports whether a transaction that has to run again for c has met a conflict, or
// may meet one: others wait for it, and it takes of the budget.
func (c Cause) Conflicts() bool { return c < FormRefused }

// Contended reports whether another transaction wanted the same rows, as far as
// the server says.
func (c Cause) Contended() bool { return c == DataConflict || c == UnknownConflict }

// String is a value for labels: the OC code or SQLSTATE where there is one.
func (c Cause) String() string {
	return [causeCount]string{"unknown", "OC000", "OC001", "backend_lost", StateUnsupported, "unknown_name"}[c]
}

// Classify judges an error by its SQLSTATE alone. The message is read for the
// code in it, which DSQL writes as "(OC000)": good for labels and for how long to
// wait, not for the decision.
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

// Missed reports whether a command tag says that an UPDATE or DELETE matched no
// row. Where the statement was fenced by a key and a version, that is a
// ConditionFailed.
func Missed(tag []byte) bool {
	switch string(tag) {
	case "UPDATE 0", "DELETE 0":
		return true
	}
	return false
}

// Verb is what a statement's command tag begins with.
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

// String is the verb as it stands in a Difference.
func (v Verb) String() string {
	return [verbCount]string{"other", "select", "insert", "update", "delete", "merge", "copy", "fetch"}[v]
}

// VerbOf reads a command tag.
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
