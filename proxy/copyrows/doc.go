// Package copyrows reads what a client sends for COPY ... FROM STDIN: the text, CSV and binary
// formats, as PostgreSQL 15 and 16 read them. It is pure: bytes go in by Feed, in pieces of any
// size, and rows come out of Next.
//
//	rows.go      Options, Row, Reader
//	where.go     Where an error stands, as PostgreSQL's CONTEXT says it, and Error
//	lines.go     the lines of the text and CSV formats, and the end-of-data marker
//	fields.go    the values of a line, and the header
//	binary.go    the binary format
//	columns.go   the columns that a COPY names, and whether a relation takes one
//	literal.go   rows as VALUES have them; batch.go has INSERTs of them
//	decode.go    binary values as text; times in decodetime.go, numeric in decodenumeric.go
//
// A value is text in PostgreSQL's input syntax, whatever the format, so that the server's own
// input functions judge it. Errors have PostgreSQL's code, text and line. Which of several errors
// of one COPY is found first may differ: a line is judged as a whole here.
package copyrows
