// Package cursor has the parts of SQL cursors that need neither a session nor a server: the state of an open cursor,
// the stored cursors of a session (WITH HOLD), the answers from stored rows, and the errors.
//
//	cursor.go   an open cursor, which is a portal of the cursor's query; one FETCH or MOVE of it
//	stored.go   the cursors of a session whose rows Sluice has in memory
//	errors.go   the errors of statements about cursors that Sluice refuses
package cursor
