// Package values finds values of a transaction's first run that Sluice uses when it repeats the transaction. These are
// the keys that INSERTs generated, and the time of the transaction.
//
// ParseInsertion reads an INSERT ... VALUES, and Insertion.WithFirstRun adds values of the first answer (insertion.go,
// given.go; unrolled.go reads SQLAlchemy's form). ParseTimed reads statements that can get the first transaction's time
// (timed.go). ReplaceTxTime replaces expressions for the time by an instant (instant.go). EffectsOf finds out what else
// in a text may change these values (survey.go, computedclock.go). PlainlyReadsTxTime reports whether a text plainly
// reads the time (namestime.go). MayHideTxTime and StoredTxTimes find answers that depend on the time (showntimes.go,
// storedtimes.go).
//
// Package proxy stores the answers, and decides which values of them a repeated statement gets. A Planner of package
// rewrite parses the texts.
//
// Invariants:
//   - In doubt, EffectsOf reports that a text reads the clock or changes sequences. In doubt, PlainlyReadsTxTime
//     returns false.
//   - Functions that write values into a text return "" if there is no value. Sluice then sends the original text.
//   - MayReturnTimeOrRows, MayReturnTxTime and MayUseTxTime examine only words, and prefer false positives.
package values
