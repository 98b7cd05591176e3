// Package retry knows when a transaction may be run again without its client
// noticing, and keeps what that takes. It is pure: no input, no output, no
// goroutine of its own, and time and chance are given to it.
//
// # The claim
//
// If a transaction that is run again, on a fresh snapshot, answers every request
// with exactly the bytes that its client was already sent, and then commits, the
// client's history is a history of the transaction that committed. The client
// was merely slow.
//
// # The parts
//
//   - Classify (classify.go) tells conflicts from other errors, by SQLSTATE.
//   - A Log (log.go) holds one transaction: the frames that were sent, and for
//     each settled turn a digest of what the client was told. It is also the
//     verifier (verify.go): the same calls that note a turn's replies check them
//     while the transaction is run again, and say which bytes to drop because
//     the client has them.
//   - Attempts (attempts.go) paces the replays of one transaction, the Budget
//     (budget.go) those of the process, and the Gate (gate.go) orders
//     transactions that fight for the same rows.
//   - Held (held.go) is output that may still be taken back.
//   - Reason (reason.go) is why a replay is refused.
//
// # Invariants
//
//   - Only the turn in progress may answer otherwise than it did, and of that
//     only what its client has not been sent.
//   - A digest (digest.go) is keyed at random for each process: data that make
//     two different answers look alike cannot be computed.
//   - Everything is bounded. What does not fit makes its transaction
//     unreplayable; it never waits, and never fails a request.
//   - In the steady state nothing allocates: logs and their chunks are pooled.
//
// A Log, Attempts and a Held belong to one session's goroutine. Logs, Quota,
// Budget and Gate are shared, and safe for concurrent use.
package retry
