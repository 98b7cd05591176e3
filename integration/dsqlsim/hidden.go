package dsqlsim

import (
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// seesViolatingRow reports whether the transaction's snapshot contains the row that a constraint violation is about.
// PostgreSQL checks constraints beyond the snapshot. A row outside the snapshot was committed by another transaction: a
// conflict, not an error of the client.
func (s *session) seesViolatingRow(e *pgproto3.ErrorResponse) (bool, error) {
	columns, values, ok := parseKeyDetail(e.Detail)
	if !ok {
		return true, nil
	}
	if e.Code == codeForeignKey {
		answer, err := s.queryUpstream(referencingSQL + quoteLiteral(e.ConstraintName) +
			" AND conrelid = format('%I.%I', " + quoteLiteral(e.SchemaName) + ", " + quoteLiteral(e.TableName) + ")::regclass")
		if err != nil || answer.failed != nil || len(answer.rows) != 1 {
			return true, err
		}
		columns = string(answer.rows[0][0])
	}
	table := quoteIdentifier(e.SchemaName) + "." + quoteIdentifier(e.TableName)
	// The query compares values as text, as the error's detail shows them. That is slower than the use of an index, but
	// safe.
	answer, err := s.queryUpstream("SELECT FROM " + table + " WHERE concat_ws(', ', " + columns + ") = " + quoteLiteral(values) + " LIMIT 1")
	if err != nil || answer.failed != nil {
		return true, err
	}
	return len(answer.rows) > 0, nil
}

// mayRowBeHidden reports whether another transaction may have committed the row that a constraint violation is about.
// For a unique key mayRowBeHidden looks for the row on a new connection. PostgreSQL reports a violation of a unique
// key only after the other transaction has ended.
func (s *session) mayRowBeHidden(e *pgproto3.ErrorResponse) bool {
	columns, values, ok := parseKeyDetail(e.Detail)
	switch {
	case !ok || !s.server.config.KeyConflicts:
		return false
	case e.Code == codeForeignKey:
		return strings.Contains(e.Detail, referenced) // for a missing parent row a cluster has the same error
	}
	ctx := s.server.ctx
	conn, err := s.server.upstream.dialInternal(ctx)
	if err != nil {
		return true
	}
	defer conn.Close(ctx)
	all, err := conn.Exec(ctx, "SELECT FROM "+quoteIdentifier(e.SchemaName)+"."+quoteIdentifier(e.TableName)+
		" WHERE concat_ws(', ', "+columns+") = "+quoteLiteral(values)+" LIMIT 1").ReadAll()
	return err == nil && len(all) == 1 && all[0].CommandTag.RowsAffected() > 0
}

// referenced is a part of the error's detail when a referenced row cannot be deleted.
const referenced = "is still referenced from"

// referencingSQL selects the columns of a foreign key. The caller appends the name of the key's constraint.
const referencingSQL = `SELECT string_agg(quote_ident(attname), ', ' ORDER BY place)
 FROM pg_constraint, unnest(conkey) WITH ORDINALITY k (number, place), pg_attribute
 WHERE attrelid = conrelid AND attnum = number AND contype = 'f' AND conname = `

// parseKeyDetail returns the columns and values in the detail of a constraint violation, for example "Key (a, b)=(1, x)
// already exists."
func parseKeyDetail(detail string) (columns, values string, ok bool) {
	rest, ok := strings.CutPrefix(detail, "Key (")
	if !ok {
		return "", "", false
	}
	columns, rest, ok = strings.Cut(rest, ")=(")
	end := strings.LastIndex(rest, ") ")
	if !ok || end < 0 {
		return "", "", false
	}
	return columns, rest[:end], true
}

func quoteLiteral(s string) string    { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
func quoteIdentifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
