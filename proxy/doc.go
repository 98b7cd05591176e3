// Package proxy speaks the Postgres protocol to clients and pairs them, for
// one transaction at a time, with backends of a reservoir.
//
// One goroutine owns a session. It reads the client, writes the backend, reads
// the backend and writes the client, one turn after the other, so it always
// knows where both streams stand and can tell the client of any error. The
// exceptions: the writer of an oversized turn (uplink.go), which lives no longer
// than the turn; the watcher of a backend that may speak while the client is
// awaited (copy.go); cancel requests, which come on connections of their own
// (cancel.go); and wake-ups by a read deadline in the past, from the sweeper, a
// flushReplies or a cancel. A read that such a deadline ended looks for its reason and
// goes on when it finds none, so a late one does no harm. Write deadlines never
// expire on a connection that lives on: TLS would be broken by it.
//
// Frames pass as bytes. What a session must know of them is kept in the owed
// queue: one entry for each frame that the server will answer, and one for each
// answer that Sluice makes up, in the order in which the client expects them.
package proxy
