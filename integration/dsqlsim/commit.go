package dsqlsim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// capture is how to find the rows that a statement's locking clauses name: the statement's plan and the client's
// parameters.
type capture struct {
	plan          *occ.Plan
	types, values []byte
}

// setUp brings the transaction into the state that the next statement needs. If that takes more than a check, no reply
// may be pending. A failure is the error that the client gets, and then the statement does not run.
func (s *session) setUp(st *dialect.Statement, c capture) (*failure, error) {
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
		if !s.needsCertifying() {
			return nil, nil
		}
		return s.certify()
	}
	if !b.hasSnapshot {
		b.hasSnapshot, b.snapshot = true, s.server.certifier.Open()
	}
	if b.log.parked {
		if err := s.resume(); err != nil {
			return nil, err
		}
	}
	if s.server.config.TellsAtOnce && b.lacks(st) {
		return b.doomed, nil
	}
	if c.plan != nil {
		return s.captureRows(c)
	}
	return nil, nil
}

// captureRows finds the rows that a statement's locking clauses name. COMMIT writes or locks these rows; until then
// they block no other transaction.
func (s *session) captureRows(c capture) (*failure, error) {
	b := &s.block
	if readOnly(b.beginSQL) {
		return noLockInReadOnly, nil
	}
	if c.plan.Capture == "" {
		return nil, nil
	}
	var frames []*frame
	if !b.log.savepointSet {
		frames = ownFrames(savepointSQL, nil, noValues)
		b.log.savepointSent, b.log.savepointSet = true, true
	}
	answer, err := s.exchange(append(frames, ownFrames(c.plan.Capture, c.types, asText(c.values))...)...)
	if err != nil {
		return nil, err
	}
	if answer.failed != nil {
		// The statement itself will fail the same way, or it reads a view, of which no row is recorded.
		if err := s.rewind(); err != nil {
			return nil, err
		}
		return nil, s.resume()
	}
	if b.namedRows == nil {
		b.namedRows = make(map[place]occ.Strength)
	}
	for _, row := range answer.rows {
		columns := row[len(row)-2*len(c.plan.Strengths):]
		for i, strength := range c.plan.Strengths {
			table, ctid := columns[2*i], columns[2*i+1]
			if table == nil || ctid == nil {
				continue
			}
			at := place{string(table), string(ctid)}
			b.namedRows[at] = max(b.namedRows[at], strength)
		}
	}
	return nil, nil
}

// asText returns the end of a Bind's body, changed to ask for all results as text.
func asText(values []byte) []byte {
	var b pgproto3.Bind
	if err := b.Decode(append([]byte{0, 0}, values...)); err != nil {
		return values
	}
	b.ResultFormatCodes = nil
	return encode(&b)[frameHeader+2:]
}

// readOnly reports whether a block cannot write, by the statement that began it.
func readOnly(begin string) bool {
	words := strings.Fields(strings.ToUpper(strings.TrimRight(begin, "; \n")))
	i := slices.Index(words, "READ")
	return i >= 0 && i+1 < len(words) && strings.HasPrefix(words[i+1], "ONLY")
}

// needsCertifying reports whether the stand-in must check the transaction before PostgreSQL commits it.
func (s *session) needsCertifying() bool {
	b := &s.block
	return b.doomed != nil || b.log.parked || len(b.namedRows) > 0 || s.schema.stale() && b.hasSnapshot ||
		b.changedRows && s.server.certifier.Keys() > 0
}

// certify returns the conflict that prevents the transaction's COMMIT, or nil. PostgreSQL then holds all effects and
// locks of the transaction.
func (s *session) certify() (*failure, error) {
	b := &s.block
	if s.schema.stale() && b.hasSnapshot {
		s.schema.update()
		return schemaConflict, nil
	}
	for _, step := range []func() error{s.resume, s.holdNamedRows, s.checkNamedKeys} {
		if b.doomed != nil {
			break
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b.doomed, nil
}

// holdNamedRows writes the rows named FOR UPDATE, unchanged, and locks those named FOR KEY SHARE. It dooms the
// transaction if another's commit has changed one.
func (s *session) holdNamedRows() error {
	b := &s.block
	type group struct {
		table    string
		strength occ.Strength
	}
	places := make(map[group][]string)
	for at, strength := range b.namedRows {
		g := group{at.table, strength}
		places[g] = append(places[g], `"`+at.ctid+`"`)
	}
	var keys []occ.Key
	for g, ctids := range places {
		t, err := s.table(g.table)
		if err != nil {
			return err
		}
		where := " WHERE ctid = ANY ('{" + strings.Join(ctids, ",") + "}'::tid[])"
		sql := "UPDATE " + t.name + " SET " + t.column + " = " + t.column + where
		if g.strength == occ.Share || t.column == "" {
			sql = "SELECT " + t.condition + " FROM " + t.name + where + " FOR KEY SHARE"
		}
		answer, err := s.askOrDoom(sql)
		if err != nil || b.doomed != nil {
			return err
		}
		for _, row := range answer.rows {
			keys = append(keys, occ.Key{Table: t.name, Condition: string(row[0])})
		}
	}
	s.server.certifier.Announce(b.snapshot, keys)
	return nil
}

// askOrDoom runs a statement of the stand-in that takes locks. If PostgreSQL cannot run it, askOrDoom dooms the
// transaction and returns no answer.
func (s *session) askOrDoom(sql string) (*answer, error) {
	for tried := (tries{}); ; {
		answer, err := s.ask(sql)
		if err != nil || answer.failed == nil {
			return answer, err
		}
		again := s.obstacleIn(answer.failed) == lockWait && s.again(&tried)
		if err := s.rewind(); err != nil {
			return nil, err
		}
		if !again {
			s.block.doom()
			return nil, nil
		}
		if err := s.resume(); err != nil || s.block.doomed != nil {
			return nil, err
		}
	}
}

// tableFacts are facts about a table: its name, a column that an UPDATE may set (empty when there is none), and an SQL
// expression. The expression makes the condition that selects one row.
type tableFacts struct{ name, column, condition string }

// tableSQL selects the tableFacts of a table; the table's oid follows it. Without a primary key the condition names a
// row by its ctid.
const tableSQL = `SELECT c.oid::regclass,
 (SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
   AND attgenerated = '' AND attidentity <> 'a' ORDER BY attnum DESC LIMIT 1),
 coalesce((SELECT string_agg(format('format(''%%I = %%L'', %L, %I)', attname, attname), ' || '' AND '' || ')
   FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
   WHERE indrelid = c.oid AND indisprimary), 'format(''ctid = %L'', ctid)')
 FROM pg_class c WHERE c.oid = `

func (s *session) table(oid string) (tableFacts, error) {
	answer, err := s.ask(tableSQL + oid)
	if err != nil {
		return tableFacts{}, err
	}
	if answer.failed != nil || len(answer.rows) == 0 {
		return tableFacts{}, fmt.Errorf("%w: table %s is gone", errUpstream, oid)
	}
	row := answer.rows[0]
	return tableFacts{string(row[0]), string(row[1]), string(row[2])}, nil
}

// checkNamedKeys dooms a transaction that deleted a row, or changed its key, against another transaction's FOR KEY
// SHARE. The other transaction must have committed since the snapshot.
func (s *session) checkNamedKeys() error {
	b := &s.block
	if !b.changedRows {
		return nil
	}
	for _, k := range s.server.certifier.Against(b.snapshot) {
		gone, err := s.missing(k)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		// Either this transaction has deleted the row, or the snapshot never had it.
		if err := s.rewind(); err != nil {
			return err
		}
		never, err := s.missing(k)
		if err != nil {
			return err
		}
		if !never {
			b.doom()
			return nil
		}
		if err := s.resume(); err != nil || b.doomed != nil {
			return err
		}
		if err := s.holdNamedRows(); err != nil || b.doomed != nil {
			return err
		}
	}
	return nil
}

// missing reports whether the transaction does not see the row of a key.
func (s *session) missing(k occ.Key) (bool, error) {
	answer, err := s.ask("SELECT FROM " + k.Table + " WHERE " + k.Condition)
	if err != nil || answer.failed != nil {
		return false, err
	}
	return len(answer.rows) == 0, nil
}
