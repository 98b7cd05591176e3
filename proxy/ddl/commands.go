package ddl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/constraint"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// An ALTER TABLE of several commands that the server refuses is run as one statement per command
// (rewrite.MultiCommand). A failed command is undone, but earlier ones are committed, and the error lists them. So
// commands that change rows are checked before the first command runs.

// The client's error depends on where the failure is:
//
//	the statement itself  the server's error, unless it is a refusal (0A000; 42704 for a serial type)
//	checkCommands         the refusal, with the obstacle to a change of type or to a default
//	the first command     its own error, since nothing is committed but what that error names
//	a later one           its own error, with the commands that are committed, and those that are not done
//
// Commands that Sluice itself emulates have undoing and error texts of their own (For). Others are sent unchanged. A
// cancel, a timeout and a client that has left take effect between two commands.

// multiCommandAlter is a running ALTER TABLE of several commands.
type multiCommandAlter struct {
	*rewrite.MultiCommand
	server    Server
	notices   [][]byte
	running   SteppedDDL // the running command; nil for none
	committed int        // number of commands that are committed
}

// Run sends the whole statement. If the server refuses it as unsupported, Run runs command by command.
func (c *multiCommandAlter) Run() error {
	err := c.server.Ask(c.Text, nil)
	told := c.server.RefusalFrom(err)
	if told == nil || told.Code != retry.StateUnsupported && !c.isSerialTypeRefusal(told) {
		return err
	}
	if err := c.checkCommands(told); err != nil {
		return err
	}
	for i := range c.Parts {
		if err := c.server.CheckMayContinue(); err != nil {
			return err
		}
		if err := c.runCommand(&c.Parts[i]); err != nil {
			return err
		}
		c.running, c.committed = nil, c.committed+1
	}
	if c.committed > 1 {
		c.server.EarlyCommit()
		done := c.listCommands(0, c.committed)
		warning := &wire.Error{Code: "01000", Message: "the commands of the ALTER TABLE are carried out one by one, since DSQL refuses the whole",
			Detail: "Committed, each by itself: " + done.String() + ".", Hint: rewrite.InTransactionsKey + " says so. Others may have seen what is between them."}
		c.notices = append(c.notices, warning.AppendNotice(nil, "WARNING"))
	}
	return nil
}

// isSerialTypeRefusal reports whether the error says that the server has no serial types, and the statement has a
// serial column. A type name that the client has misspelt remains the client's error.
func (c *multiCommandAlter) isSerialTypeRefusal(told *wire.Error) bool {
	return told.Code == unknownType && strings.Contains(told.Message, "serial") &&
		slices.ContainsFunc(c.Parts, func(p rewrite.AlterCommand) bool {
			a, is := p.St.Steps.(*alter.Alteration)
			return is && a.Own != nil
		})
}

// checkCommands returns the error of a change of type, or of a default, that cannot succeed, before any command runs.
// Objects that the statement itself drops are no obstacle.
func (c *multiCommandAlter) checkCommands(told *wire.Error) error {
	var freed []string
	for i := range c.Parts {
		if name := c.Parts[i].DroppedConstraint; name != "" {
			freed = append(freed, name)
		}
	}
	for i := range c.Parts {
		var err error
		switch a, is := c.Parts[i].St.Steps.(*alter.Alteration); {
		case !is:
		case a.Default == "":
			err = constraint.NewColumnRetyper(c.server, a).CheckPossible(told, freed)
		default:
			add := columnAddition{server: c.server, Alteration: a}
			if _, err = add.lookUpColumn(); err == nil && len(add.notices) == 0 {
				err = add.checkFillable()
			} else if c.server.RefusalFrom(err) != nil { // the command itself fails so, or an earlier one removes the cause
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runCommand runs one command. The client gets the command's warnings before the tag of the whole statement, and not
// at all if a later command fails.
func (c *multiCommandAlter) runCommand(part *rewrite.AlterCommand) error {
	work, notices := ofCommand(c.server, part)
	c.running = work
	err := work.Run()
	if err == nil {
		c.notices = append(c.notices, notices()...)
	}
	return err
}

// listCommands returns the commands with the numbers from up to, but without, to, in the form for error messages.
func (c *multiCommandAlter) listCommands(from, to int) (l listing.Statements) {
	for i := from; i < to; i++ {
		l.Add(c.Parts[i].Text)
	}
	return l
}

// WithPartialResult adds to an error the commands that remain committed. The failed command adds its own part. A
// conflict becomes 25000, since a client would answer 40001 by sending the whole statement again.
func (c *multiCommandAlter) WithPartialResult(err error) error {
	if c.running != nil {
		err = c.running.WithPartialResult(err)
	}
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal || c.committed == 0 {
		return err
	}
	with := *told
	done, rest := c.listCommands(0, c.committed), c.listCommands(c.committed, len(c.Parts))
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s Of the statement this is committed: %s.", told.Detail, done.String()))
	with.Hint = strings.TrimSpace(fmt.Sprintf("%s Do not send the whole statement again. What is not done, in this order: %s.", told.Hint, rest.String()))
	if with.Code == retry.StateConflict {
		with.Code = "25000"
	}
	return &with
}
