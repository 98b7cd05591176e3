package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/constraint"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// ALTER TABLE of several commands that is carried out one by one (rewrite.Commands), where the
// server refuses it. What a command does is undone where that command fails; what the commands
// before have done stays, and the client is told which they are. So nothing is begun of a statement
// whose changes of type are known to be refused.

// What an error tells, by when it comes:
//
//	the statement itself  the server's error, unless it is a refusal (0A000; 42704 for a serial type)
//	may                   the refusal, with what is in the way of a change of type
//	the first command     its own error: nothing stands but what that names itself
//	a later one           its own error, with those that are committed, and those that are not done
//
// A command of a kind that the relay carries out is its own work, with its own undoing and its own
// words of what it leaves (alters); any other is sent as it is. A cancel, a timeout and the client's
// end are heeded between two of them.

// commands is such a statement, which is being carried out. at and done say how far it has come.
type commands struct {
	*rewrite.Commands
	s       *session
	notices [][]byte
	at      carried // the command under way; nil: none is
	done    int     // commands
}

// plainCommand is a command that the server takes.
type plainCommand struct {
	s    *session
	text string
}

// Run sends it: it is done, or not, as the server says.
func (p plainCommand) Run() error { return asked{p.s}.Ask(p.text, nil) }

// Partly has nothing to add: a single command leaves nothing where it fails.
func (p plainCommand) Partly(err error) error { return err }

// Run has the server carry the statement out, or does it command by command.
func (c *commands) Run() error {
	err := asked{c.s}.Ask(c.Text, nil)
	told := refused(err)
	if told == nil || told.Code != retry.StateUnsupported && !c.serial(told) {
		return err
	}
	if err := c.may(told); err != nil {
		return err
	}
	for i := range c.Parts {
		if err := c.s.wantsMore(); err != nil {
			return err
		}
		if err := c.run(&c.Parts[i]); err != nil {
			return err
		}
		c.at, c.done = nil, c.done+1
	}
	if c.done > 1 {
		c.s.srv.metrics.EarlyCommit()
		done := c.labels(0, c.done)
		warning := &wire.Error{Code: "01000", Message: "the commands of the ALTER TABLE are carried out one by one, since DSQL refuses the whole",
			Detail: "Committed, each by itself: " + done.String() + ".", Hint: rewrite.InTransactionsKey + " says so. Others may have seen what is between them."}
		c.notices = append(c.notices, warning.AppendNotice(nil, "WARNING"))
	}
	return nil
}

// serial reports the error of a server that has no type for a serial column of the statement. A type that the client has
// misspelt is the client's to be told of.
func (c *commands) serial(told *wire.Error) bool {
	return told.Code == unknownType && strings.Contains(told.Message, "serial") &&
		slices.ContainsFunc(c.Parts, func(p rewrite.Command) bool { return p.St.Alteration != nil && p.St.Alteration.Own != nil })
}

// may refuses a change of type as it would be refused, before anything is done. What the statement
// drops itself is in nobody's way.
func (c *commands) may(told *wire.Error) error {
	var freed []string
	for i := range c.Parts {
		if name := c.Parts[i].Frees; name != "" {
			freed = append(freed, name)
		}
	}
	for i := range c.Parts {
		if a := c.Parts[i].St.Alteration; a != nil && a.Default == "" {
			if err := constraint.NewRetype(asked{c.s}, a).May(told, freed); err != nil {
				return err
			}
		}
	}
	return nil
}

// run carries one command out. What there is to tell of it, a warning for one, is told at the end of the
// whole, in front of the tag; where a later command fails it is told nothing.
func (c *commands) run(part *rewrite.Command) error {
	work, notices := c.s.workOf(part)
	c.at = work
	err := work.Run()
	if err == nil {
		c.notices = append(c.notices, notices()...)
	}
	return err
}

// workOf is the work of a statement that is a part of another, and what there is to tell when it is
// done.
func (s *session) workOf(part *rewrite.Command) (work carried, notices func() [][]byte) {
	if part.St.Alters() {
		return s.alters(part.St)
	}
	return plainCommand{s, part.Text}, func() [][]byte { return s.warningOf(part.St) }
}

// labels are commands as a message names them.
func (c *commands) labels(from, to int) (l listing.Statements) {
	for i := from; i < to; i++ {
		l.Add(c.Parts[i].Text)
	}
	return l
}

// Partly adds to an error what stands all the same: of the command that has failed, as that says
// itself, and of those before it. A conflict is no conflict then: whoever is told of one sends the
// whole statement again, of which a part is done.
func (c *commands) Partly(err error) error {
	if c.at != nil {
		err = c.at.Partly(err)
	}
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal || c.done == 0 {
		return err
	}
	with := *told
	done, rest := c.labels(0, c.done), c.labels(c.done, len(c.Parts))
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s Of the statement this is committed: %s.", told.Detail, done.String()))
	with.Hint = strings.TrimSpace(fmt.Sprintf("%s Do not send the whole statement again. What is not done, in this order: %s.", told.Hint, rest.String()))
	if with.Code == retry.StateConflict {
		with.Code = "25000"
	}
	return &with
}
