package dsqlsim

import (
	"context"
	"crypto/sha256"
	_ "embed" // for catalog.sql
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

//go:embed catalog.sql
var catalogSQL string

// limitsSetting is the parameter that marks a PostgreSQL session of dsqlsim and carries its limits.
const limitsSetting = "dsqlsim.limits"

// simCatalog is the schema sys that dsqlsim installs in the PostgreSQL database before its first session, see
// catalog.sql.
type simCatalog struct {
	mu        sync.Mutex
	installed bool
	there     atomic.Bool
}

// ensureInstalled creates the schema sys, unless it exists. Without a superuser's rights it returns an error. In that
// case dsqlsim has no jobs, and does not enforce the rules of the schema.
func (c *simCatalog) ensureInstalled(ctx context.Context, u *upstreamDialer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.installed {
		return nil
	}
	conn, err := u.dialInternal(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	c.installed = true // or never will be
	if err := installCatalog(ctx, conn); err != nil {
		return fmt.Errorf("install catalog: %w", err)
	}
	c.there.Store(true)
	return nil
}

// installCatalog installs the schema sys, also in place of one of another version of dsqlsim. An advisory lock lets
// only one dsqlsim at a time do so.
func installCatalog(ctx context.Context, conn *pgconn.PgConn) error {
	sum := sha256.Sum256([]byte(catalogSQL))
	version := "dsqlsim " + hex.EncodeToString(sum[:8])
	steps := "BEGIN; SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(hashtext('dsqlsim catalog'));" +
		"SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'sys'"
	results, err := conn.Exec(ctx, steps).ReadAll()
	if err != nil {
		return err
	}
	has := ""
	if rows := results[len(results)-1].Rows; len(rows) > 0 {
		has = "a schema of somebody's"
		if rows[0][0] != nil {
			has = string(rows[0][0])
		}
	}
	drop := ""
	switch {
	case has == version:
		_, err = conn.Exec(ctx, "COMMIT").ReadAll()
		return err
	case strings.HasPrefix(has, "dsqlsim "):
		drop = "DROP SCHEMA sys CASCADE;"
	case has != "":
		return fmt.Errorf("the database has a schema sys that is not dsqlsim's")
	}
	_, err = conn.Exec(ctx, drop+catalogSQL+"COMMENT ON SCHEMA sys IS '"+version+"'; COMMIT").ReadAll()
	return err
}

// cleanCatalogError removes the traces of the functions in schema sys from an error. It gives a too large key the
// message that a cluster has for it.
func cleanCatalogError(e *pgproto3.ErrorResponse) *pgproto3.ErrorResponse {
	switch {
	case strings.Contains(e.Where, "function sys."):
		e.Where, e.File, e.Line, e.Routine = "", "", 0, ""
	case e.Code == codeLimit && strings.HasPrefix(e.Message, "index row "):
		return (&failure{code: codeLimit, message: "key size too large"}).response()
	}
	return e
}
