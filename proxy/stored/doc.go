// Package stored has the rows of cursors that are in memory, and where the cursors stand among
// them. A cursor moves as PostgreSQL's own portals do (DoPortalRunFetch and PortalRunSelect of its
// pquery.c, whose order of steps decides which of them fails for a cursor that only goes forward).
// Rows are kept as text, and can be had in the binary format (formats.go, binarynumbers.go,
// binarytimes.go). Their bytes are bounded,
// for a session and for all (cursor.go). Nothing here does I/O.
package stored
