// Package stored holds the rows of cursors in memory, and the cursors' positions. A cursor moves as PostgreSQL's own
// portals do (DoPortalRunFetch and PortalRunSelect of pquery.c). The order of PostgreSQL's steps decides which step
// fails for a forward-only cursor.
//
// Rows are stored as text, and can be converted to the binary format (formats.go, binarynumbers.go, binarytimes.go).
// The bytes of rows are bounded, for a session and for all sessions (cursor.go). The package does no I/O.
package stored
