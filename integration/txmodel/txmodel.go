// Package txmodel models the transactions of a PostgreSQL server, for tests that compare Sluice with the model. The
// model knows nothing of Sluice: its commands are words such as BEGIN, WRITE, DDL and ROLLBACK TO.
package txmodel

import "strings"

// ServerModel models a PostgreSQL server with one client. It applies or undoes pending changes where PostgreSQL would.
// New makes a ServerModel.
type ServerModel struct {
	tx byte // ' ' none, 'i' implicit, 'b' block, 'f' failed block
	// Pending is the number of changes that are not committed.
	Pending int
	// now has a bit for each pending (not committed) change, and done has a bit for each committed one.
	now, done uint64
	// savepoints are the savepoints of the block, all of the same name. Each has the changes that were pending before it.
	savepoints []uint64
	// Applied is the number of committed changes. A block that commits counts as one more.
	Applied int
	// ddlCommits means that DDL outside a block commits at once.
	ddlCommits bool
	// Failed means that a command has failed.
	Failed bool
}

func (m *ServerModel) commit(next byte) {
	m.Applied += m.Pending
	m.done |= m.now
	m.now = 0
	if m.tx == 'b' {
		m.Applied++
	}
	m.Pending, m.savepoints, m.tx = 0, nil, next
}

func (m *ServerModel) rollback(next byte) {
	m.Pending, m.savepoints, m.now, m.tx = 0, nil, 0, next
}

// failCommand models the failure of a command: a block fails, and an implicit transaction ends without a commit.
func (m *ServerModel) failCommand() {
	m.Failed, m.Pending = true, 0
	if m.tx != 'b' {
		m.now = 0
	}
	if m.tx == 'b' {
		m.tx = 'f'
	} else if m.tx == 'i' {
		m.tx = ' '
	}
}

// RunCommand runs one command. change is the bit of the change that a WRITE or DDL makes.
func (m *ServerModel) RunCommand(text string, change uint64) {
	if m.tx == ' ' {
		m.tx = 'i'
	}
	if m.tx == 'f' {
		m.runFailed(text)
		return
	}
	block := m.tx == 'b'
	switch text {
	case "BEGIN":
		m.tx = 'b'
	case "WRITE":
		m.Pending++
		m.now |= change
	case "DDL":
		m.Pending++
		m.now |= change
		if m.ddlCommits && !block {
			m.commit('i')
		}
	case "COMMIT":
		m.commit(' ')
	case "ROLLBACK":
		m.rollback(' ')
	case "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "SAVEPOINT", "RELEASE", "ROLLBACK TO":
		if !block {
			m.failCommand()
			return
		}
		m.runInBlock(text)
	}
}

// runInBlock runs a command that a server accepts only in a block.
func (m *ServerModel) runInBlock(text string) {
	last := len(m.savepoints) - 1
	switch {
	case text == "COMMIT AND CHAIN":
		m.commit('b')
	case text == "ROLLBACK AND CHAIN":
		m.rollback('b')
	case text == "SAVEPOINT":
		m.savepoints = append(m.savepoints, m.now)
	case last < 0:
		m.failCommand()
	case text == "RELEASE":
		m.savepoints = m.savepoints[:last]
	default:
		m.now = m.savepoints[last]
	}
}

// runFailed runs a command in a block that has failed.
func (m *ServerModel) runFailed(text string) {
	switch {
	case text == "COMMIT" || text == "ROLLBACK":
		m.rollback(' ')
	case strings.HasSuffix(text, "AND CHAIN"):
		m.rollback('b')
	case text == "ROLLBACK TO" && len(m.savepoints) > 0:
		m.tx, m.now = 'b', m.savepoints[len(m.savepoints)-1]
	default:
		m.failCommand()
	}
}

// EndRequest ends a simple Query, or applies a Sync.
func (m *ServerModel) EndRequest() {
	if m.tx == 'i' {
		m.commit(' ')
	}
}

// Status returns the status in a ReadyForQuery: I, T or E.
func (m *ServerModel) Status() byte {
	return map[byte]byte{' ': 'I', 'i': 'I', 'b': 'T', 'f': 'E'}[m.tx]
}

// New returns a ServerModel whose session has the given status: I, T or E. In a block there is one savepoint. If
// impatient is set, the server commits DDL outside of a block at once.
func New(status byte, impatient bool) *ServerModel {
	m := &ServerModel{tx: map[byte]byte{'I': ' ', 'T': 'b', 'E': 'f'}[status], ddlCommits: impatient}
	if status != 'I' {
		m.savepoints = []uint64{0}
	}
	return m
}

// PlayTurn plays the commands of a turn on the model. It plays as many as executes says by the extended protocol, and
// the rest in one simple Query. In a block (start 'T') change 0 is pending, and command i makes change i+1. PlayTurn
// returns the changes that are committed after each number of commands and at the end, and the final status.
func PlayTurn(start byte, commands []string, executes int) (applied []uint64, status byte) {
	m := ServerModel{tx: ' '}
	if start == 'T' {
		m.tx, m.now = 'b', 1
	}
	applied = append(applied, 0)
	for i, c := range commands {
		if !m.Failed {
			m.RunCommand(c, 2<<i)
			if i == len(commands)-1 && executes <= i && !m.Failed {
				m.EndRequest()
			}
		}
		applied = append(applied, m.done)
	}
	if !m.Failed {
		m.EndRequest()
	}
	return append(applied, m.done), m.Status()
}
