package rewrite_test

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// A DO block with a CREATE INDEX is refused with a hint about the statement, which is taken by itself.
func TestHintOfDoBlocks(t *testing.T) {
	config := rewrite.Defaults()
	config.Rules.Dialect = true
	p, err := rewrite.New(config)
	if err != nil {
		t.Fatal(err)
	}
	st := p.Plan([]byte("DO $$BEGIN CREATE INDEX i ON t (a); END$$")).SingleStatement()
	if st == nil || !strings.HasPrefix(st.Hint, "Send the statement by itself where the block would run it") {
		t.Errorf("%+v", st)
	}
}
