// Package recorded has values that the server made and the client received: keys of INSERT ... RETURNING, numbers of
// sequences, and the transaction's time. A replay does not generate them again.
//
//	answer.go  Answer, the recorded rows of a statement's answer
//	values.go  Repeatable, which values a replay can repeat, and how SQL gets them
//
// The result of a replay is correct because a rollback does not return a drawn number or random value: no other
// transaction gets it. There are two exceptions. A transaction that creates or sets back the sequence would draw the
// number again. Time differs between two attempts.
package recorded
