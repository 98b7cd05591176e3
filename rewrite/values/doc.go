// Package values finds values that a repeated transaction can get from its first run: the keys of INSERTs, and
// the time of the transaction.
//
// InsertionOf reads an INSERT ... VALUES, and With adds values of its first answer (insertion.go, given.go;
// unrolled.go reads SQLAlchemy's form). TimedOf reads statements that can get the time (timed.go). AtInstant
// replaces expressions for the time by an instant (instant.go). SurveyOf finds what else in a text may change
// these values (survey.go, computedclock.go). NamesTime reports whether a text plainly reads the time
// (namestime.go). HidesTime and StoredTimes find answers that contain the time (showntimes.go, storedtimes.go).
//
// Package proxy stores the answers and decides which values are given. A Planner of package rewrite reads the
// texts.
//
// Invariants:
//   - In doubt, SurveyOf reports that a text reads the clock or changes sequences. NamesTime reports false.
//   - Functions that add given values return "" if none is given, and the original text is sent.
//   - MayTell, MayTellInstant and MayUseTime examine only words, and prefer false positives.
package values
