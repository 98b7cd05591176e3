package pgtest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQL runs statements as the superuser over the Unix socket, as one simple query. It returns their rows, unaligned,
// without the trailing newline. A later call must not rely on state of the session.
func (s *Server) SQL(tb testing.TB, database, sql string) string {
	tb.Helper()
	rows, err := s.runQuery(tb.Context(), database, sql)
	if err != nil {
		tb.Fatalf("SQL: %v", err)
	}
	return rows
}

// Connect returns a connection to a new database, as the superuser over the Unix socket. The server ends the
// connection when the test drops the database.
func (s *Server) Connect(tb testing.TB) *pgconn.PgConn {
	tb.Helper()
	config, err := pgconn.ParseConfig("sslmode=disable")
	if err != nil {
		tb.Fatal(err)
	}
	config.Host, config.Port, config.User, config.Database = s.SocketDir, uint16(s.Port), s.User, s.NewDatabase(tb)
	conn, err := pgconn.ConnectConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	return conn
}

// runQuery runs statements as SQL does, without a test. It ignores a cancelled ctx, because a test's cleanup runs after
// its context has ended.
func (s *Server) runQuery(ctx context.Context, database, sql string) (string, error) {
	ctx = context.WithoutCancel(ctx)
	conn, err := s.sessions.takeSession(ctx, s, database)
	if err != nil {
		return "", err
	}
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		conn.Close(ctx)
		return "", err
	}
	if _, err := conn.Exec(ctx, "DISCARD ALL").ReadAll(); err == nil {
		s.sessions.putIdle(database, conn)
	} else { // a block is open
		conn.Close(ctx)
	}
	var out strings.Builder
	for _, result := range results {
		for _, row := range result.Rows {
			for i, value := range row {
				if i > 0 {
					out.WriteByte('|')
				}
				out.Write(value)
			}
			out.WriteByte('\n')
		}
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// idleSessions holds at most one idle connection to each database, which SQL uses again. A new connection would cost
// the server more than most statements. Tests count sessions, so there is only one for each database.
type idleSessions struct {
	mu   sync.Mutex
	idle map[string]*pgconn.PgConn
}

// takeSession returns a connection to a database that works, an idle one if possible.
func (c *idleSessions) takeSession(ctx context.Context, s *Server, database string) (*pgconn.PgConn, error) {
	for {
		conn := c.takeIdle(database)
		if conn == nil {
			break
		}
		if conn.Ping(ctx) == nil { // tests end all sessions that they find
			return conn, nil
		}
		conn.Close(ctx)
	}
	config, err := pgconn.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.Host, config.Port, config.User, config.Database = s.SocketDir, uint16(s.Port), s.User, database
	config.TLSConfig, config.Fallbacks, config.RuntimeParams = nil, nil, map[string]string{}
	return pgconn.ConnectConfig(ctx, config)
}

// takeIdle removes the idle connection to a database from c and returns it, or nil if there is none.
func (c *idleSessions) takeIdle(database string) *pgconn.PgConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.idle[database]
	delete(c.idle, database)
	return conn
}

func (c *idleSessions) putIdle(database string, conn *pgconn.PgConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle[database] != nil {
		conn.Close(context.Background())
		return
	}
	if c.idle == nil {
		c.idle = map[string]*pgconn.PgConn{}
	}
	c.idle[database] = conn
}

// close closes the idle connections.
func (c *idleSessions) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		conn.Close(context.Background())
	}
	c.idle = nil
}
