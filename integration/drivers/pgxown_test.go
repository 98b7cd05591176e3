package drivers

import (
	"context"

	"github.com/jackc/pgx/v5"
)

var pgxOwn []ownScenario

func playBatch(ctx context.Context, w *transcript, dsn, table string, mode pgx.QueryExecMode) {
	w.line("x")
}
