package dsqlsim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// capture is how to find the rows that a statement's locking clauses name: its
// plan, and the client's parameters if it has any.
type capture struct {
	plan          *occ.Plan
	types, values []byte
}

// setUp brings the transaction into the state that the next statement needs.
// No reply may be pending if that takes more than a look. The failure is what the
// client is to be told instead of running the statement.
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

// captureRows finds the rows that a statement's locking clauses name. They are
// written, or locked, at COMMIT: until then nobody is in their way.
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
		// The statement has the same fault, or reads a view: there nothing is named.
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

// asText is the end of a Bind's body with all results asked for as text.
func asText(values []byte) []byte {
	var b pgproto3.Bind
	if err := b.Decode(append([]byte{0, 0}, values...)); err != nil {
		return values
	}
	b.ResultFormatCodes = nil
	return encode(&b)[frameHeader+2:]
}

// readOnly tells whether a block that begins so cannot write.
func readOnly(begin string) bool {
	words := strings.Fields(strings.ToUpper(strings.TrimRight(begin, "; \n")))
	i := slices.Index(words, "READ")
	return i >= 0 && i+1 < len(words) && strings.HasPrefix(words[i+1], "ONLY")
}

// needsCertifying tells whether COMMIT needs more than PostgreSQL's own.
func (s *session) needsCertifying() bool {
	b := &s.block
	return b.doomed != nil || b.log.parked || len(b.namedRows) > 0 || s.schema.stale() && b.hasSnapshot ||
		b.changedRows && s.server.certifier.Keys() > 0
}

// certify decides whether the transaction can commit, and has PostgreSQL hold
// everything that it needs for that.
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

// holdNamedRows writes the rows named FOR UPDATE, as they are, and locks those named
// FOR KEY SHARE. Both fail if another's commit has changed them.
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

// askOrDoom runs a statement of ours that takes locks, and dooms the transaction if
// it cannot.
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

// tableFacts are a table's name, a column that an UPDATE may set (empty when
// there is none), and an expression for the condition that names a row.
type tableFacts struct{ name, column, condition string }

// tableSQL asks for them, of the oid behind it. Without a primary key a row is
// named by its place.
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

// checkNamedKeys dooms a transaction that has deleted a row, or changed its key,
// which another has named FOR KEY SHARE and committed since the snapshot.
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
		// Either it is deleted, or the snapshot never had it.
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

// missing tells whether the transaction does not see a row.
func (s *session) missing(k occ.Key) (bool, error) {
	answer, err := s.ask("SELECT FROM " + k.Table + " WHERE " + k.Condition)
	if err != nil || answer.failed != nil {
		return false, err
	}
	return len(answer.rows) == 0, nil
}
