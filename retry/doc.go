// Package retry decides when a transaction may be run again without its client noticing, and records the data for that.
// The package does no I/O and starts no goroutine. Time and random numbers are parameters.
//
// # The claim
//
// A transaction is run again on a new snapshot. The replay must answer every request with exactly the bytes that the
// client already has, and must then commit. To the client, the committed transaction then looks like its own, only
// slower.
//
// # The parts
//
//   - Classify (classify.go) separates conflicts from other errors, by SQLSTATE.
//   - A ReplayLog (log.go) holds one transaction: the frames that were sent, and a digest of each
//     settled turn's answers. The ReplayLog also verifies a replay (verify.go). The calls that record a
//     turn's replies then compare them, and say which bytes to drop because the client has them.
//   - Attempts (attempts.go) paces the replays of one transaction, and Budget (budget.go) those
//     of the process. ConflictGate (gate.go) orders transactions that want the same rows.
//   - HeldOutput (held.go) is output that a replay may still replace.
//   - RefusalReason (reason.go) is why a replay is refused.
//
// # Invariants
//
//   - Only the turn in progress may answer differently, and only in bytes that its client does
//     not have.
//   - A digest (digest.go) has a random key per process, so that nobody can compute data that
//     make two different answers look equal.
//   - Everything is bounded. A transaction beyond a bound becomes unreplayable. It never waits,
//     and no request fails because of a bound.
//   - In the steady state nothing allocates: logs and their chunks are pooled.
//
// A ReplayLog, an Attempts and a HeldOutput belong to one session's goroutine. ReplayLogPool, ByteQuota, Budget and
// ConflictGate are safe for concurrent use.
package retry
