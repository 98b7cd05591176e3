package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// What the names in a session's texts stand for (schema.Names): the snapshot of mapping.go, by the session's search
// path. Every text is planned by it.
//
// The names are the session's as its next statement will find them: the settings that its transaction has staged count,
// and so does what is sent and not yet answered. Where that cannot be told the names are those of an unknown path.

// mapped is what a session remembers of its names. They hold for one snapshot and one set of
// values, both of which are compared by pointer: most texts cost two comparisons.
type mapped struct {
	schema *schema.Schema
	values *settings.Values
	names  *schema.Names
	// planned are those by which the text at hand was planned; nil where nothing is mapped.
	planned *schema.Names
	// lost: something on the session's own backend may have moved its search path.
	lost bool
	// called: so may a function that the transaction has called.
	called bool
	// nothing: the text at hand names no relation, and was planned without a schema.
	nothing bool
}

// mappingSettled: the next transaction has called no function.
func mappingSettled(s *session, _ bool) { s.mapped.called = false }

// hidesPath are the reasons of a pin behind which nobody knows the search path, or what is found by it.
var hidesPath = map[rewrite.Pin]bool{rewrite.PinTemp: true, rewrite.PinSetConfig: true, rewrite.PinProcedural: true,
	rewrite.PinUnparsed: true, rewrite.PinRole: true}

// names are what the names in the session's next text stand for; nil where nothing is mapped.
// It may wait for the schema to be read. An error is for the client, or the session's end.
func (s *session) names() (*schema.Names, error) {
	k := &s.srv.keeper
	if !k.on {
		return nil, nil
	}
	s.mapped.nothing = false
	if s.schemaDue() != "" {
		if err := s.renewNames(); err != nil {
			s.mapped.planned = nil // what needs no names may go on (nameless)
			return nil, err
		}
	}
	s.mapped.planned = s.namesBy(k.now.Load())
	return s.mapped.planned, nil
}

// namesBy are the session's names by a snapshot.
func (s *session) namesBy(now *snapshot) *schema.Names {
	m := &s.mapped
	switch {
	case s.pinned && m.lost, m.called, s.pathAwaited():
		return now.InUnknown()
	case len(s.settings.Staged.Changes) > 0:
		return s.namesAnew(now)
	case m.schema != now.Schema || m.values != s.settings.InForce:
		m.schema, m.values, m.names = now.Schema, s.settings.InForce, s.namesAnew(now)
	}
	return m.names
}

// namesAnew is namesBy by the settings as they stand.
func (s *session) namesAnew(now *snapshot) *schema.Names {
	if path, ok := pathInForce(&s.settings, now.base.role, now.base.path); ok {
		return now.In(path)
	}
	return now.InUnknown()
}

// pathAwaited reports whether the answer to something that may change the search path is
// still owed: a statement of settings, or the end of a transaction that has changed it.
func (s *session) pathAwaited() bool {
	t := s.t
	if t.owed.empty() {
		return false
	}
	return t.movesNames || movesNames(s.settings.Staged.Changes) && slices.ContainsFunc(t.owed.items[t.owed.head:], func(o owed) bool {
		return o.plan != nil && o.plan.Kind == rewrite.Control
	})
}

// movesNames reports whether names may mean something else for one statement of a string than
// for the one before. All statements of a string are planned by the same names.
func (s *session) movesNames(plan *rewrite.Plan) bool {
	if len(plan.Statements) < 2 {
		return false
	}
	staged := movesNames(s.settings.Staged.Changes)
	return plan.Any(func(st *rewrite.Statement) bool {
		return st.Calls || movesNames(st.Changes) || staged && st.Kind == rewrite.Control
	})
}

// needsNoNames reports whether a text means the same whatever its names stand for: it has none. Such are settings and
// the control of transactions, which clients send at their start, when no backend may be there to ask.
func needsNoNames(plan *rewrite.Plan) bool {
	return plan.Kind != rewrite.Unknown && !plan.Any(func(st *rewrite.Statement) bool {
		return st.Kind != rewrite.Setting && st.Kind != rewrite.Control
	})
}

// planStays reports whether no schema makes another plan of a statement: asNamed leaves it as it is, and
// reads no schema for it. So nobody may wait for such a statement to be planned by a newer one.
func (s *session) planStays(plan *rewrite.Plan) bool {
	return plan.Pin == rewrite.PinUnparsed || needsNoNames(plan) || s.status() == 'E'
}

// noNames is what names stand for where no relation is known: a text that names any lacks it (Plan.Lacks).
var noNames = schema.New(nil).InUnknown()

// nameless is the plan of a text that means the same whatever names stand for, where they cannot be told for an error;
// nil for any other. While there is no backend to ask, only what needs none is one of them.
func (s *session) nameless(sql []byte, err error) *rewrite.Plan {
	plan := s.planner().Plan(sql)
	switch {
	case !isRefusal(err):
		return nil
	case needsNoNames(plan):
		return plan
	case isUntold(err) && plan.Kind <= rewrite.Read && !s.srv.planner.PlanIn(sql, noNames).Lacks:
		return plan
	}
	return nil
}

// planned is the plan of a text by the session's names, and those names.
func (s *session) planned(sql []byte) (*rewrite.Plan, *schema.Names, error) {
	names, err := s.names()
	if err != nil {
		if plan := s.nameless(sql, err); plan != nil {
			return plan, nil, nil
		}
		return nil, nil, err
	}
	plan := s.planner().PlanIn(sql, names)
	if s.mustLook(plan) {
		if err := s.missing(); err != nil {
			return nil, nil, err
		}
		names = s.namesBy(s.srv.keeper.now.Load())
		plan = s.planner().PlanIn(sql, names)
	} else if names != nil && refusal(plan) != nil && refusal(s.srv.planner.Plan(sql)) == nil {
		if names, err = s.refusing(names); err != nil {
			return nil, nil, err
		}
		plan = s.planner().PlanIn(sql, names)
	}
	if names != nil && s.movesNames(plan) {
		names = names.Schema().InUnknown()
		plan = s.planner().PlanIn(sql, names)
	}
	s.mapped.planned = names
	return plan, names, nil
}

// refusing are the names by which a text is refused that would be by names: such a text never gets to a server, which
// could tell that the schema has changed. So the schema is read where that was not done a moment ago.
func (s *session) refusing(names *schema.Names) (*schema.Names, error) {
	if s.status() == 'E' {
		return names, nil
	}
	if _, err := s.readSchema(metrics.LoadError); err != nil && !isUnread(err) {
		return nil, err
	}
	return s.namesBy(s.srv.keeper.now.Load()), nil
}

// mustLook reports whether the schema must be read before a text is sent. What a transaction
// has made itself, no other backend sees.
func (s *session) mustLook(plan *rewrite.Plan) bool {
	return plan.Lacks && s.status() != 'E' && !s.schema.ddl
}

// asNamed has a client's statement mean what its names stand for now, as a server plans one anew behind a change of the
// schema or of the search path, and has it carried out as the client has chosen by now. Whether it still returns what
// the client was told is found out where it is prepared (onBackend). An error is for the client, or the session's end;
// then nothing is changed.
func (s *session) asNamed(cs *clientStatement) error {
	t := cs.tmpl
	s.mapped.nothing = false
	if s.planStays(t.plan) || s.namesNothingBound(cs) {
		return nil
	}
	otherwise := s.outchosen(t)
	if !s.srv.keeper.on && !otherwise {
		return nil
	}
	names, err := s.names()
	if err != nil {
		if s.nameless([]byte(t.sql), err) != nil {
			return nil
		}
		return err
	}
	if id := names.ID(); !otherwise && (id == t.names || id == cs.names) && !s.mustLook(t.plan) {
		return nil
	}
	plan, names, err := s.planned([]byte(t.sql))
	if err != nil {
		return err
	}
	if err := refusal(plan); err != nil {
		return err
	}
	switch same := plan.Text == t.plan.Text && !otherwise; {
	case !same && t.own:
		return errReadOtherwise // its backend has it from before
	case !same || t.plan.Lacks && !plan.Lacks:
		cs.tmpl = s.srv.template(&s.t.scratch, []byte(t.sql), []byte(t.oids), t.parsing, names.ID(), plan.Choosable(s.planner()), plan).inForce()
	}
	cs.names = names.ID()
	return nil
}

// mapsUnread is the error of a text that is too long to be held, where it may name a table
// with mapped columns; nil where there is no such table.
func (s *session) mapsUnread() error {
	names, err := s.names()
	if err != nil || !names.Mentions(nil) {
		return err
	}
	r := rewrite.UnreadMapped()
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}

// unmapped is the error of a text that names a table with mapped columns where nothing is mapped; nil for any other. Of
// such tables it is enough to know as well as can be: the first text waits for the schema, and no other does.
func (s *session) unmapped(sql []byte) error {
	k := &s.srv.keeper
	if !k.watch {
		return nil
	}
	if cause := s.srv.schemaDue(); cause != "" && s.b == nil {
		if r, _ := s.srv.readSchema(cause); r != nil && cause == metrics.LoadStart {
			if err := s.awaitSchema(r); err != nil && !isUnread(err) {
				return err
			}
		}
	}
	now := k.now.Load()
	if now == nil {
		return nil // without a backend nothing is sent either
	}
	r := s.srv.planner.Unmapped(sql, now.InUnknown())
	if r == nil || s.status() == 'E' {
		return nil
	}
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}
