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

// wholeKeys returns a failure unless a statement names the whole primary key of every table that it locks, as older
// clusters demanded. It asks the catalog on a new connection, because the session cannot send a query in the middle of
// a turn.
func (s *session) wholeKeys(st *dialect.Statement) (*failure, error) {
	ctx, cancel := context.WithTimeout(s.server.ctx, dialTimeout)
	defer cancel()
	conn, err := s.server.upstream.dialOwn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, l := range st.Locked {
		name := identifier(l.Table)
		if l.Schema != "" {
			name = identifier(l.Schema) + "." + name
		}
		answer := conn.ExecParams(ctx, keySQL+literal(name)+")", nil, nil, nil, nil).Read()
		if answer.Err != nil {
			return nil, upstreamError(answer.Err)
		}
		for _, row := range answer.Rows {
			if !slices.Contains(l.Columns, string(row[0])) {
				return refused(dialect.NoWholeKey), nil
			}
		}
	}
	return nil, nil
}
