// Package reservoir keeps backends: connections to the server that were dialled
// ahead of time, are lent to one borrower at a time, and are closed before the
// server would close them.
//
// # A backend's life
//
// The fill dials it (fill.go, dial.go) as soon as in use + ready is under the
// target. It stands on the shelf (shelf.go), is lent by TryAcquire or Acquire
// (checkout.go; who waits is in line.go and waiters.go), and comes back by exactly one Release
// or Discard. Its lifetime
// is drawn when it is dialled; the calendar (calendar.go) gives it an hour of
// retirement of its own, before its lifetime's end and apart from the others',
// so that a crowd that was dialled together does not end together.
//
// # Invariants
//
//   - in use + ready + dialling + closing <= Config.MaxOpen, at all times. A
//     slot is given back when the socket is closed, not when that is decided.
//   - Nothing on the way of a request waits for a dial limit, a socket or the
//     network: TryAcquire, Release and Discard take one short lock.
//   - The shelf is last in, first out: busy backends stay warm. Waiting
//     borrowers are served first come, first served, and before the shelf.
//   - A backend inside the guard window before its end is never lent.
//   - Every backend that was dialled ends in discard, with a Reason, and is
//     counted once.
//   - A backend is dialled with a permit of the lease, which is released once,
//     when its socket is closed or was never opened.
//
// # The lease
//
// Every dial, dedicated ones too, passes admit (share.go). At each scan and
// each finished dial heedLocked reads what the lease asks for: backends that are
// owed to others close, idle ones at once and lent ones when they come back;
// those whose slot is lost are cut while they are lent; and while nothing can be
// replaced nothing is retired for its age, up to the server's own limit. The way
// of a request never asks the lease.
//
// # Who owns what
//
// A lent Conn belongs to its borrower alone, socket and attachment. The fill
// and the scan live in Run and end with it. A dial for the shelf belongs to
// Run: a borrower that gives up does not end it.
package reservoir
