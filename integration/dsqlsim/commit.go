package dsqlsim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// rowCapture has what is needed to find the rows that a statement's locking clauses name: the statement's plan and the
// client's parameters.
type rowCapture struct {
	plan          *occ.LockPlan
	types, values []byte
}

// prepareTransaction brings the transaction into the state that the next statement needs. If that takes more than a
// check, no reply may be pending. If it returns a failure, the client gets the failure and the statement does not run.
func (s *session) prepareTransaction(st *dialect.Statement, c rowCapture) (*failure, error) {
	if failed := s.schemaConflictFor(st, s.status); failed != nil {
		return failed, nil
	}
	b := &s.block
	switch st.Kind {
	case dialect.Begin:
		if s.status == statusIdle {
			b.beginSQL = st.SQL
		}
		return nil, nil
	case dialect.Rollback:
		return nil, nil
	}
	if s.status != statusInBlock {
		return nil, nil
	}
	if st.Kind == dialect.Commit {
		if !s.needsCertification() {
			return nil, nil
		}
		return s.certifyCommit()
	}
	if !b.hasSnapshot {
		b.hasSnapshot, b.snapshot = true, s.server.certifier.OpenSnapshot()
	}
	if b.log.parked {
		if err := s.unparkTransaction(); err != nil {
			return nil, err
		}
	}
	if s.server.config.ReportsConflictEarly && b.mayReturnLess(st) {
		return b.doomed, nil
	}
	if c.plan != nil {
		return s.captureNamedRows(c)
	}
	return nil, nil
}

// captureNamedRows finds the rows that a statement's locking clauses name. Before COMMIT these rows block no other
// transaction: dsqlsim writes or locks them only at COMMIT.
func (s *session) captureNamedRows(c rowCapture) (*failure, error) {
	b := &s.block
	if isReadOnlyBegin(b.beginSQL) {
		return noLockInReadOnly, nil
	}
	if c.plan.Capture == "" {
		return nil, nil
	}
	var frames []*frame
	if !b.log.savepointSet {
		frames = ownStatementFrames(savepointSQL, nil, noValues)
		b.log.savepointSent, b.log.savepointSet = true, true
	}
	answer, err := s.exchangeUpstream(append(frames, ownStatementFrames(c.plan.Capture, c.types, withTextResults(c.values))...)...)
	if err != nil {
		return nil, err
	}
	if answer.failed != nil {
		// The query for the rows failed, so parkTransaction and unparkTransaction restore the block. The client's statement
		// will fail in the same way, or it reads a view, whose rows are not recorded.
		if err := s.parkTransaction(); err != nil {
			return nil, err
		}
		return nil, s.unparkTransaction()
	}
	if b.namedRows == nil {
		b.namedRows = make(map[rowPlace]occ.LockStrength)
	}
	for _, row := range answer.rows {
		columns := row[len(row)-2*len(c.plan.Strengths):]
		for i, strength := range c.plan.Strengths {
			table, ctid := columns[2*i], columns[2*i+1]
			if table == nil || ctid == nil {
				continue
			}
			at := rowPlace{string(table), string(ctid)}
			b.namedRows[at] = max(b.namedRows[at], strength)
		}
	}
	return nil, nil
}

// withTextResults returns a copy of values, a Bind's body after the two names, that asks for all results as text.
func withTextResults(values []byte) []byte {
	var b pgproto3.Bind
	if err := b.Decode(append([]byte{0, 0}, values...)); err != nil {
		return values
	}
	b.ResultFormatCodes = nil
	return encodeMessage(&b)[frameHeader+2:]
}

// isReadOnlyBegin reports whether a block cannot write. begin is the statement that opened the block.
func isReadOnlyBegin(begin string) bool {
	words := strings.Fields(strings.ToUpper(strings.TrimRight(begin, "; \n")))
	i := slices.Index(words, "READ")
	return i >= 0 && i+1 < len(words) && strings.HasPrefix(words[i+1], "ONLY")
}

// needsCertification reports whether dsqlsim must check the transaction for conflicts before PostgreSQL commits it.
func (s *session) needsCertification() bool {
	b := &s.block
	return b.doomed != nil || b.log.parked || len(b.namedRows) > 0 || s.schema.isStale() && b.hasSnapshot ||
		b.changedRows && s.server.certifier.KeyCount() > 0
}

// certifyCommit returns the conflict that prevents the transaction's COMMIT, or nil. After nil, PostgreSQL holds all
// effects and locks of the transaction.
func (s *session) certifyCommit() (*failure, error) {
	b := &s.block
	if s.schema.isStale() && b.hasSnapshot {
		s.schema.updateKnown()
		return schemaConflict, nil
	}
	for _, step := range []func() error{s.unparkTransaction, s.lockNamedRows, s.checkNamedKeys} {
		if b.doomed != nil {
			break
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b.doomed, nil
}

// lockNamedRows writes the rows named FOR UPDATE, unchanged, and locks those named FOR KEY SHARE. If another
// transaction's commit has changed one of the rows, the transaction is doomed to fail at COMMIT.
func (s *session) lockNamedRows() error {
	b := &s.block
	type group struct {
		table    string
		strength occ.LockStrength
	}
	places := make(map[group][]string)
	for at, strength := range b.namedRows {
		g := group{at.table, strength}
		places[g] = append(places[g], `"`+at.ctid+`"`)
	}
	var keys []occ.RowKey
	for g, ctids := range places {
		t, err := s.lookUpTable(g.table)
		if err != nil {
			return err
		}
		where := " WHERE ctid = ANY ('{" + strings.Join(ctids, ",") + "}'::tid[])"
		sql := "UPDATE " + t.name + " SET " + t.column + " = " + t.column + where
		if g.strength == occ.Share || t.column == "" {
			sql = "SELECT " + t.condition + " FROM " + t.name + where + " FOR KEY SHARE"
		}
		answer, err := s.queryOrDoom(sql)
		if err != nil || b.doomed != nil {
			return err
		}
		for _, row := range answer.rows {
			keys = append(keys, occ.RowKey{Table: t.name, Condition: string(row[0])})
		}
	}
	s.server.certifier.AnnounceKeys(b.snapshot, keys)
	return nil
}

// queryOrDoom runs one of dsqlsim's own statements, which takes locks. If PostgreSQL cannot run it, queryOrDoom
// makes the transaction's COMMIT fail, and returns no answer.
func (s *session) queryOrDoom(sql string) (*ownAnswer, error) {
	for tried := (retryTries{}); ; {
		answer, err := s.queryUpstream(sql)
		if err != nil || answer.failed == nil {
			return answer, err
		}
		again := s.conflictCauseOf(answer.failed) == lockWait && s.shouldRetry(&tried)
		if err := s.parkTransaction(); err != nil {
			return nil, err
		}
		if !again {
			s.block.markDoomed()
			return nil, nil
		}
		if err := s.unparkTransaction(); err != nil || s.block.doomed != nil {
			return nil, err
		}
	}
}

// tableFacts has a table's name, a column that an UPDATE may set (or ""), and an SQL expression. For a row of the
// table, the expression returns the condition that selects this row.
type tableFacts struct{ name, column, condition string }

// tableSQL selects the tableFacts of a table. The caller appends the table's oid. Without a primary key the condition
// names a row by its ctid.
const tableSQL = `SELECT c.oid::regclass,
 (SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
   AND attgenerated = '' AND attidentity <> 'a' ORDER BY attnum DESC LIMIT 1),
 coalesce((SELECT string_agg(format('format(''%%I = %%L'', %L, %I)', attname, attname), ' || '' AND '' || ')
   FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
   WHERE indrelid = c.oid AND indisprimary), 'format(''ctid = %L'', ctid)')
 FROM pg_class c WHERE c.oid = `

func (s *session) lookUpTable(oid string) (tableFacts, error) {
	answer, err := s.queryUpstream(tableSQL + oid)
	if err != nil {
		return tableFacts{}, err
	}
	if answer.failed != nil || len(answer.rows) == 0 {
		return tableFacts{}, fmt.Errorf("%w: table %s is gone", errUpstream, oid)
	}
	row := answer.rows[0]
	return tableFacts{string(row[0]), string(row[1]), string(row[2])}, nil
}

// checkNamedKeys makes the COMMIT of a transaction fail if it deleted or changed a key that another transaction named
// FOR KEY SHARE. The other transaction must have committed since the snapshot of this one.
func (s *session) checkNamedKeys() error {
	b := &s.block
	if !b.changedRows {
		return nil
	}
	for _, k := range s.server.certifier.KeysSince(b.snapshot) {
		gone, err := s.isRowMissing(k)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		// The transaction does not see the row: it has deleted the row, or its snapshot never had the row. Parked, without
		// its own effects, the transaction sees the row in the first case only.
		if err := s.parkTransaction(); err != nil {
			return err
		}
		never, err := s.isRowMissing(k)
		if err != nil {
			return err
		}
		if !never {
			b.markDoomed()
			return nil
		}
		if err := s.unparkTransaction(); err != nil || b.doomed != nil {
			return err
		}
		if err := s.lockNamedRows(); err != nil || b.doomed != nil {
			return err
		}
	}
	return nil
}

// isRowMissing reports whether the transaction does not see the row of a key.
func (s *session) isRowMissing(k occ.RowKey) (bool, error) {
	answer, err := s.queryUpstream("SELECT FROM " + k.Table + " WHERE " + k.Condition)
	if err != nil || answer.failed != nil {
		return false, err
	}
	return len(answer.rows) == 0, nil
}
