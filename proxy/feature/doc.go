// Package feature is the seam between a session of package proxy and the features that are packages of
// their own.
//
// A feature does statements that the server lacks: it answers the client, reads its frames, and sends the
// server statements of Sluice's own. It sees a session as a Session, and imports nothing above this
// package. Package proxy implements Session, and names a feature where it lists its handlers.
//
// The goroutine of a session calls its features, in a turn of the client. It owns every value here, so
// that none has a lock. A feature that remembers something beyond one statement has a type of its own for
// that.
//
// Errors have the meanings that they have in a session. An *wire.Error that is not Fatal is for the
// client, and the session goes on (IsRefusal). Any other error ends the session. A feature returns the
// errors of a Session as they are, unless it adds to one that is for the client.
//
// No statement that the server gets as it is passes this seam: it costs interface calls.
package feature
