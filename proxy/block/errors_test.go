package block

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// The errors about savepoints name the savepoint, and have PostgreSQL's SQLSTATE where PostgreSQL has the error.
func TestSavepointErrors(t *testing.T) {
	t.Parallel()
	for code, e := range map[string]*wire.Error{
		"3B001": ErrNoSavepoint("a b"), retry.StateConflict: ErrRollbackToDiffers("a b"), retry.StateUnsupported: ErrCannotReturn("a b", "why"),
	} {
		if e.Code != code || !strings.Contains(e.Message, `savepoint "a b"`) {
			t.Errorf("%s: %+v", code, e)
		}
	}
	if e := ErrValuesRegenerated("a", retry.ReplayDifference{}); e.Code != retry.StateUnsupported || e.Detail == "" || e.Hint == "" {
		t.Errorf("%+v", e)
	}
}
