// Package feature is the interface between a session of package proxy and features. A feature is a package that
// performs statements which the server lacks.
//
// A feature answers the client, reads the client's frames, and sends the server statements of Sluice's own. A feature
// sees a session as a Session, and imports nothing above this package. Package proxy implements Session, and names each
// feature in its list of handlers.
//
// The goroutine of a session calls its features, in a turn of the client. That goroutine owns every value here, so no
// value has a lock. A feature that remembers data beyond one statement has a type of its own for the data.
//
// Errors have the same meanings as in a session. A *wire.Error that is not Fatal is for the client, and the session
// continues (IsRefusal). Any other error ends the session. A feature returns the errors of a Session unchanged, except
// that it may add to an error for the client.
//
// Statements that the server gets unchanged do not use this package, because it costs interface calls.
package feature
