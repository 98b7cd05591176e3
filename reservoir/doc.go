// Package reservoir holds backends: connections to the server that are dialled ahead of time and lent to one borrower
// at a time. The reservoir closes backends before the server would.
//
// # A backend's life
//
// The fill dials a backend (fill.go, dial.go) as soon as fewer backends than the target are in use or ready. A ready
// backend is on the shelf (shelf.go). TryAcquire or Acquire lends it (checkout.go; line.go and waiters.go have the
// queue of borrowers). Exactly one Release or Discard returns it.
//
// A backend's lifetime is random. The calendar (calendar.go) assigns each backend a time of retirement before the end
// of its lifetime, apart from those of the others. So backends that were dialled together do not end together.
//
// # Invariants
//
//   - in use + ready + dialling + closing <= Config.MaxOpen, at all times. A slot is free when
//     the socket is closed.
//   - No request waits for a dial limit, a socket or the network: TryAcquire, Release and Discard
//     take one short lock.
//   - The backend that was shelved last is lent first, so that busy backends stay warm. Waiting
//     borrowers are served in order, before a backend is shelved.
//   - A backend in its guard window, the last part of its lifetime, is never lent.
//   - Every dialled backend ends in discard, with a CloseReason, and is counted once.
//   - A backend is dialled with a permit of the lease, which is released once: when the socket is
//     closed or was never opened.
//
// # The lease
//
// Every dial, even of a dedicated backend, calls admit (share.go). At each scan and each finished dial
// obeyLeaseLocked reads the lease's state. Backends whose slots other processes claim are closed: idle ones at once,
// and lent ones on their return. Backends whose slots are lost are closed during their loans. While no backend can
// be replaced, none retires for its age, up to the server's own limit. A client's request never reads the lease.
//
// # Ownership
//
// A lent Conn belongs to its borrower alone, with socket and attachment. The fill and the scan run in Run and end with
// it. A dial for the shelf belongs to Run, so a borrower that gives up does not end the dial.
package reservoir
