package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A DO block whose one statement is carried out (rewrite.Guarded), where the server refuses the
// block. The condition and the statement are transactions of their own, so that another client may
// make between them what the condition has not found: the statement then fails, as it does in
// PostgreSQL, where the catalog is not locked by the condition either.

// guarded is such a block, which is being carried out. at is the work of its statement; nil before.
type guarded struct {
	*rewrite.Guarded
	s       *session
	notices [][]byte
	at      carried
}

// Run has the server carry the block out, or does what is in it.
func (g *guarded) Run() error {
	err := asked{g.s}.Ask(g.Text, nil)
	if told := refused(err); told == nil || told.Code != retry.StateUnsupported {
		return err
	}
	if g.Condition != "" {
		holds := false
		err := asked{g.s}.Ask("SELECT ("+g.Condition+")::pg_catalog.bool", func(values []string) { holds = slices.Equal(values, []string{"t"}) })
		if err != nil || !holds {
			return err
		}
		if err := g.s.wantsMore(); err != nil {
			return err
		}
	}
	work, notices := g.s.workOf(&g.Command)
	g.at = work
	err = work.Run()
	if told := refused(err); told != nil && slices.Contains(g.Ignores, told.Code) && work.Partly(err) == err {
		return nil // as the block would: nothing of the statement stands
	}
	if err == nil {
		g.notices = notices()
	}
	return err
}

// Partly adds to an error what stands of the statement.
func (g *guarded) Partly(err error) error {
	if g.at == nil {
		return err
	}
	return g.at.Partly(err)
}
