// Package values finds values that a repeated transaction can get from its first run: the keys of INSERTs, and
// the time of the transaction.
//
// ParseInsertion reads an INSERT ... VALUES, and Insertion.WithFirstRun adds values of its first answer (insertion.go,
// given.go; unrolled.go reads SQLAlchemy's form). ParseTimed reads statements that can get the transaction's time
// (timed.go). ReplaceTxTime replaces expressions for the time by an instant (instant.go). EffectsOf finds what else in
// a text may change these values (survey.go, computedclock.go). PlainlyReadsTxTime reports whether a text plainly reads
// the time (namestime.go). MayHideTxTime and StoredTxTimes find answers that contain the time (showntimes.go,
// storedtimes.go).
//
// Package proxy stores the answers and decides which values are given. A Planner of package rewrite reads the
// texts.
//
// Invariants:
//   - In doubt, EffectsOf reports that a text reads the clock or changes sequences. PlainlyReadsTxTime reports false.
//   - Functions that add given values return "" if none is given, and the original text is sent.
//   - MayReturnTimeOrRows, MayReturnTxTime and MayUseTxTime examine only words, and prefer false positives.
package values
