// Package stored holds the rows of cursors in memory, and the cursors' positions. A cursor moves as
// PostgreSQL's own portals do: DoPortalRunFetch and PortalRunSelect of its pquery.c, whose order of
// steps decides which of them fails for a forward-only cursor. Rows are stored as text, and can be
// converted to the binary format (formats.go, binarynumbers.go, binarytimes.go). Their bytes are
// bounded, for a session and for all (cursor.go). The package does no I/O.
package stored
