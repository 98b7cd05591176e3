package dsqlsim

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// prepare brings the transaction into the state that the next statement needs.
// Nothing may be owed if that takes more than a look. The failure is what the
// client is to be told instead of running the statement.
func (s *session) prepare(st *dialect.Statement, c capture) (*failure, error) {
	if failed := s.outdated(st, s.status); failed != nil {
		return failed, nil
	}
	w := &s.work
	switch st.Kind {
	case dialect.Begin:
		if s.status == statusIdle {
			w.begin = st.SQL
		}
		return nil, nil
	case dialect.Rollback:
		return nil, nil
	}
	if s.status != statusInBlock {
		return nil, nil
	}
	if st.Kind == dialect.Commit {
		if !s.contended() {
			return nil, nil
		}
		return s.adjudicate()
	}
	if !w.begun {
		w.begun, w.snapshot = true, s.server.certifier.Open()
	}
	if w.parked {
		if err := s.resume(); err != nil {
			return nil, err
		}
	}
	if c.plan != nil {
		return s.note(c)
	}
	return nil, nil
}

// outdated is the conflict of a statement that needs the catalog, in a session
// that does not know its last change: recorded of idle sessions, and of every
// statement up to the first of a block. It happens once.
func (s *session) outdated(st *dialect.Statement, status byte) *failure {
	if !s.stale() || status == statusFailed || status == statusInBlock && s.work.begun {
		return nil
	}
	switch st.Kind {
	case dialect.Begin, dialect.Commit, dialect.Rollback:
		return nil
	}
	switch st.Verb {
	case "SET", "RESET", "SHOW":
		return nil
	}
	s.schema = s.server.schema.Load()
	return schemaConflict
}

// stale tells whether another session has changed the schema since this one
// looked.
func (s *session) stale() bool { return s.schema != s.server.schema.Load() }

// note finds the rows that a statement's locking clauses name. They are written,
// or locked, at COMMIT: until then nobody is in their way.
func (s *session) note(c capture) (*failure, error) {
	w := &s.work
	if readOnly(w.begin) {
		return noLockInReadOnly, nil
	}
	if c.plan.Capture == "" {
		return nil, nil
	}
	var packets [][]byte
	if !w.savepoint {
		packets = bound(savepointSQL, nil, noValues)
		packets = packets[:len(packets)-1] // one Sync is enough
		w.asked, w.savepoint = true, true
	}
	answer, err := s.aside(append(packets, bound(c.plan.Capture, c.types, asText(c.values))...)...)
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
	if w.named == nil {
		w.named = make(map[place]occ.Strength)
	}
	for _, row := range answer.rows {
		columns := row[len(row)-2*len(c.plan.Strengths):]
		for i, strength := range c.plan.Strengths {
			table, ctid := columns[2*i], columns[2*i+1]
			if table == nil || ctid == nil {
				continue
			}
			at := place{string(table), string(ctid)}
			w.named[at] = max(w.named[at], strength)
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

// contended tells whether COMMIT needs more than PostgreSQL's own.
func (s *session) contended() bool {
	w := &s.work
	return w.doomed != nil || w.parked || len(w.named) > 0 || s.stale() && w.begun ||
		w.changed && s.server.certifier.Keys() > 0
}

// adjudicate decides whether the transaction can commit, and has PostgreSQL hold
// everything that it needs for that.
func (s *session) adjudicate() (*failure, error) {
	w := &s.work
	if s.stale() && w.begun {
		s.schema = s.server.schema.Load()
		return schemaConflict, nil
	}
	for _, step := range []func() error{s.resume, s.secure, s.compare} {
		if w.doomed != nil {
			break
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	return w.doomed, nil
}

// secure writes the rows named FOR UPDATE, as they are, and locks those named
// FOR KEY SHARE. Both fail if another's commit has changed them.
func (s *session) secure() error {
	w := &s.work
	type group struct {
		table    string
		strength occ.Strength
	}
	places := make(map[group][]string)
	for at, strength := range w.named {
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
		answer, err := s.insist(sql)
		if err != nil || w.doomed != nil {
			return err
		}
		for _, row := range answer.rows {
			keys = append(keys, occ.Key{Table: t.name, Condition: string(row[0])})
		}
	}
	s.server.certifier.Announce(w.snapshot, keys)
	return nil
}

// insist runs a statement of ours that takes locks, and dooms the transaction if
// it cannot.
func (s *session) insist(sql string) (*told, error) {
	for began := time.Now(); ; {
		answer, err := s.ask(sql)
		if err != nil || answer.failed == nil {
			return answer, err
		}
		again := s.obstacleIn(answer.failed) == wait && time.Since(began) < maxTrying
		if err := s.rewind(); err != nil {
			return nil, err
		}
		if !again {
			s.work.doom()
			return nil, nil
		}
		if err := s.resume(); err != nil || s.work.doomed != nil {
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

// compare dooms a transaction that has deleted a row, or changed its key, which
// another has named FOR KEY SHARE and committed since the snapshot.
func (s *session) compare() error {
	w := &s.work
	if !w.changed {
		return nil
	}
	for _, k := range s.server.certifier.Against(w.snapshot) {
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
			w.doom()
			return nil
		}
		if err := s.resume(); err != nil || w.doomed != nil {
			return err
		}
		if err := s.secure(); err != nil || w.doomed != nil {
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

// changedSchema makes every other session's knowledge of the schema outdated.
func (s *session) changedSchema() {
	if s.server.config.SchemaConflicts {
		s.schema = s.server.schema.Add(1)
	}
}
