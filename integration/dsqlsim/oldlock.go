package dsqlsim

import (
	"context"
	"slices"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// keySQL selects the columns of a table's primary key. The result is empty if the table does not exist, or if other
// sessions do not see it yet.
const keySQL = `SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
 WHERE indisprimary AND indrelid = to_regclass(`

// checkWholeKeys returns a failure unless a statement names the whole primary key of every table that it locks. Older
// clusters demanded that. checkWholeKeys asks the catalog on a new connection, because the session cannot send a
// query in the middle of a turn.
func (s *session) checkWholeKeys(st *dialect.Statement) (*failure, error) {
	ctx, cancel := context.WithTimeout(s.server.ctx, dialTimeout)
	defer cancel()
	conn, err := s.server.upstream.dialInternal(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, l := range st.Locked {
		name := quoteIdentifier(l.Table)
		if l.Schema != "" {
			name = quoteIdentifier(l.Schema) + "." + name
		}
		answer := conn.ExecParams(ctx, keySQL+quoteLiteral(name)+")", nil, nil, nil, nil).Read()
		if answer.Err != nil {
			return nil, upstreamError(answer.Err)
		}
		for _, row := range answer.Rows {
			if !slices.Contains(l.Columns, string(row[0])) {
				return failureOf(dialect.WholeKeyRequired), nil
			}
		}
	}
	return nil, nil
}
