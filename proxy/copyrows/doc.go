// Package copyrows reads the data of COPY ... FROM STDIN in the text, CSV and binary formats, as PostgreSQL 15 and 16
// do. The package does no I/O: Reader.Feed takes bytes in pieces of any size, and Reader.Next returns rows.
//
//	rows.go      Options, Row, Reader
//	where.go     DataPosition, the place of an error, in the form of PostgreSQL's CONTEXT, and Error
//	lines.go     the lines of the text and CSV formats, and the end-of-data marker
//	fields.go    the values of a line, and the header
//	binary.go    the binary format
//	columns.go   the columns of a COPY, and relations without COPY
//	literal.go   rows in the form of VALUES; batch.go has INSERTs of them
//	decode.go    binary values as text; times in decodetime.go, numeric in decodenumeric.go
//
// A value is text in PostgreSQL's input syntax, whatever the format, so that the server's own input functions check it.
// Errors have PostgreSQL's code, text and line. If one COPY has several errors, another one than PostgreSQL's may be
// found first, because a line is checked as a whole.
package copyrows
