// Package values says what a transaction that is run again may be given of what its client was sent before: an INSERT
// its keys, and any statement the time of the transaction.
//
// InsertionOf reads an INSERT ... VALUES, and With writes it with values of its answer (insertion.go, given.go;
// unrolled.go reads SQLAlchemy's form). TimedOf reads what can be given the time (timed.go), and AtInstant writes an
// instant where a text names the time (instant.go). SurveyOf returns what else a text may do to such values (survey.go,
// computedclock.go), and NamesTime whether it plainly reads the time (namestime.go). HidesTime and StoredTimes find the
// answers that show it (toldtimes.go, storedtimes.go).
//
// The relay owns the answers, and decides what is given. A Planner of package rewrite reads the texts.
//
// Invariants:
//   - SurveyOf errs towards reading the clock, and towards numbers set back; NamesTime errs towards no.
//   - A text that is given nothing is returned as "", and is sent as it was.
//   - The quick looks (MayTell, MayTellInstant, MayUseTime) err towards yes, and read the words alone.
package values
