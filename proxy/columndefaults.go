package proxy

import (
	"errors"
	"time"

	"github.com/sluice-proxy/sluice/proxy/catalog"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file reads how the server fills columns (defaults, identities), which replays need to know (recordedvalues.go).
// If the server refuses the query, every column counts as unclear, and a replay repeats no values.
//
// A schema change during the reading may make the result wrong, which does no harm. Sluice refuses a replay whose
// answer differs, and columns only get values that the server once made for them.

// maxColumnQueryTime limits how long the schema query for the columns may have taken. If that query took longer, Sluice
// does not send catalog.DefaultsQuery, since sessions wait for the two queries.
const maxColumnQueryTime = time.Second

// readColumnDefaults records in relations how the server fills their columns. took is how long the query for the
// columns took. An error means that the backend is lost, or that the schema has changed meanwhile.
func (srv *Server) readColumnDefaults(ask queryFunc, relations []schema.Relation, took time.Duration) error {
	if took > maxColumnQueryTime {
		catalog.MarkDefaultsUnclear(relations)
		return nil
	}
	var fills catalog.Defaults
	err := srv.queryRows(ask, catalog.DefaultsQuery, func(row []string) error { return fills.AddRow(row[0]) })
	var refused *serverRefusal
	// If the server refuses catalog.DefaultsQuery, Sluice asks again only when it reads the schema again.
	if errors.As(err, &refused) && refused.code != retry.StateConflict {
		catalog.MarkDefaultsUnclear(relations)
		return nil
	}
	if err != nil {
		return err
	}
	fills.Apply(relations)
	return nil
}
