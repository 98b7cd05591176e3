// Package cursor has what SQL cursors need that no session and no server is part of: the state of an open cursor, a
// session's stored cursors (WITH HOLD), the answers that Sluice gives from stored rows, and the errors.
//
//	cursor.go   an open cursor, which is a portal of the cursor's query; one FETCH or MOVE of it
//	stored.go   the cursors of a session whose rows Sluice has in memory
//	errors.go   what clients get for statements about cursors that Sluice refuses
package cursor
