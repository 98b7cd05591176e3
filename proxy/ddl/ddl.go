// Package ddl carries out DDL that DSQL refuses, as statements of Sluice's own.
//
// For returns the SteppedDDL of a statement: ALTER TABLE ... ADD COLUMN with a default (column.go), an ALTER TABLE of
// several commands (commands.go), a DO block of one statement (guarded.go), and the statements of package constraint.
// Database performs CREATE DATABASE and DROP DATABASE (database.go).
//
// A session owns a SteppedDDL for the time of one statement. The session is outside of a transaction, and its turn has
// sent the backend nothing else. Each step commits at once. So the error of a SteppedDDL names what remains in the
// database, and the client can send the statement again.
package ddl

import (
	"github.com/sluice-proxy/sluice/proxy/constraint"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// Server is the backend of a session, as package constraint needs it, and the session's settings for commands.
type Server interface {
	constraint.Server
	// Warnings returns the frames of the WARNING before the tag of a statement that Sluice replaces by another one.
	// Warnings returns nil for any other statement.
	Warnings(st *rewrite.Statement) [][]byte
	// EarlyCommit counts a statement that commits some of its parts before its end.
	EarlyCommit()
}

// SteppedDDL is a statement that Sluice carries out by several statements (steps), each of which commits at once.
type SteppedDDL interface {
	// Run runs the steps. Its error is the server's refusal, or an error of a Server's method that ends the work.
	Run() error
	// WithPartialResult adds to Run's error what remains in the database.
	WithPartialResult(err error) error
}

// For returns the SteppedDDL that performs a statement whose Steps are set. After Run, the function notices returns
// the notices for the client. An Alteration without a default is a change of type.
func For(server Server, st *rewrite.Statement) (work SteppedDDL, notices func() [][]byte) {
	switch steps := st.Steps.(type) {
	case *rewrite.MultiCommand:
		c := &multiCommandAlter{server: server, MultiCommand: steps}
		return c, func() [][]byte { return c.notices }
	case *rewrite.DoBlock:
		g := &doBlock{server: server, DoBlock: steps}
		return g, func() [][]byte { return g.notices }
	case *alter.EnumValueAddition:
		e := constraint.NewEnumValueAdder(server, steps)
		return e, func() [][]byte { return e.Notices }
	case *rewrite.SerialTable:
		n := constraint.NewSerialTableCreator(server, steps)
		return n, func() [][]byte { return n.Notices }
	case *alter.AddedConstraints:
		c := constraint.NewConstraintAdder(server, steps)
		return c, func() [][]byte { return c.Notices }
	}
	alteration := st.Steps.(*alter.Alteration)
	if alteration.Default == "" {
		r := constraint.NewColumnRetyper(server, alteration)
		return r, func() [][]byte { return r.Notices }
	}
	a := &columnAddition{server: server, Alteration: alteration}
	return a, func() [][]byte { return a.notices }
}

// ofCommand returns the SteppedDDL that performs one command of an ALTER TABLE, and a function for its notices.
func ofCommand(server Server, part *rewrite.AlterCommand) (work SteppedDDL, notices func() [][]byte) {
	if part.St.MayRunInSteps() {
		return For(server, part.St)
	}
	return plainAlterCommand{server, part.Text}, func() [][]byte { return server.Warnings(part.St) }
}

// plainAlterCommand is a command of an ALTER TABLE that the server supports.
type plainAlterCommand struct {
	server Server
	text   string
}

// Run sends the command and returns the server's error.
func (p plainAlterCommand) Run() error { return p.server.Ask(p.text, nil) }

// WithPartialResult returns err unchanged: a failed single command changes nothing.
func (p plainAlterCommand) WithPartialResult(err error) error { return err }
