package ddl

import (
	"slices"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file runs a DO block of one guarded statement (rewrite.DoBlock), if the server refuses the block. The condition
// and the statement are two transactions. Another client may create the object in between: the statement then fails.
// Such a failure can happen in PostgreSQL too, since the condition does not lock the catalog there.

// doBlock is a running DO block of one statement. The field running performs that statement; it is nil until then.
type doBlock struct {
	*rewrite.DoBlock
	server  Server
	notices [][]byte
	running SteppedDDL
}

// Run sends the DO block to the server. If the server refuses the block as unsupported, Run carries out the block's
// statement.
func (g *doBlock) Run() error {
	err := g.server.Ask(g.Text, nil)
	if told := g.server.RefusalFrom(err); told == nil || told.Code != retry.StateUnsupported {
		return err
	}
	if g.Condition != "" {
		holds := false
		err := g.server.Ask("SELECT ("+g.Condition+")::pg_catalog.bool", func(values []string) { holds = slices.Equal(values, []string{"t"}) })
		if err != nil || !holds {
			return err
		}
		if err := g.server.CheckMayContinue(); err != nil {
			return err
		}
	}
	work, notices := ofCommand(g.server, &g.Command)
	g.running = work
	err = work.Run()
	if told := g.server.RefusalFrom(err); told != nil && slices.Contains(g.IgnoredCodes, told.Code) && work.WithPartialResult(err) == err {
		return nil // nothing of the statement remains, and the block ignores this error
	}
	if err == nil {
		g.notices = notices()
	}
	return err
}

// WithPartialResult adds to an error which effects of the statement remain.
func (g *doBlock) WithPartialResult(err error) error {
	if g.running == nil {
		return err
	}
	return g.running.WithPartialResult(err)
}
