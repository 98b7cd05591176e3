package proxy

import (
	"bytes"
	"container/list"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Prepared statements: the texts as all clients share them (template, catalog), the statements of a client
// (clientStatement), and those that a backend holds (serverStatements). A client's name never reaches a server.
// templates.go makes templates and prepares them on backends; schema.go says how long what is remembered holds.

// template is one statement text as clients prepare it: shared by every client and backend, keyed by SQL, parameter
// types and the settings that change parsing. It is immutable but for its atomic fields, which any session may set.
type template struct {
	sql  string
	cost int    // see texts
	oids string // the parameter-type part of a Parse, count included
	plan *rewrite.Plan
	// parsing is the hash of the settings that it is parsed under, and names the number of
	// what its names stood for when it was planned.
	parsing settings.Parsing
	names   uint64
	// by is the number of the planner that the plan depends on (rewrite.Planner.Under); 0 for
	// that of the configuration, and where the plan is the same by any.
	by uint64
	// own: it is one client's alone; of is then the shared template of the text, if it has
	// one: see asParsed and unreadTemplate.
	own     bool
	of      *template
	optsOut bool // of replay, by a comment
	inserts bool // it may be an INSERT ... RETURNING
	tells   bool // it may tell the time of its transaction
	// split: this is the form in two parts, and its server-side statement is the
	// part that answers; inTwo is that form of the others, once there is one.
	split *rewrite.Split
	inTwo atomic.Pointer[template]
	// whole, of a split form, is the one that it was made of: its texts are counted while that lives.
	whole *template
	// accepted is 1 + the epoch in which a backend last accepted the text; 0 never.
	accepted atomic.Uint64
	// desc is what others are told that the statement returns; see publish.
	desc   atomic.Pointer[description]
	portal atomic.Pointer[description] // that of a portal, as last told to a client
}

// long reports whether the catalog does not keep the text: nobody shares the template.
func (t *template) long() bool { return len(t.sql)+len(t.oids) > maxCachedText }

// statements are those that a client has prepared. A session embeds it.
type statements struct {
	stmts   map[string]*clientStatement
	unnamed *clientStatement
	spare   clientStatement // where unnamed points, most of the time
	recent  *template       // of the last Parse
	// txParsing replaces the hashes of the settings while a transaction has changed them; zero otherwise.
	txParsing settings.Parsing
}

// description is the server's answer to Describe of a statement or portal. It is shared, and immutable but for seen.
type description struct {
	epoch uint64
	// seen is when the server last described it so, or bound a statement that it had
	// described so: in nanoseconds since the process began. See Config.DescribeMemory.
	seen   atomic.Int64
	frames []byte // ParameterDescription, then RowDescription or NoData; of a portal only these
}

// columnSize is the length of a column of a RowDescription without its name: table (4) and
// attribute (2) that it is from, type (4), size (2), modifier (4), format (2).
const columnSize, columnType, columnFormat = 18, 6, 16

// parts splits a description into ParameterDescription, nil for a portal's, and RowDescription or NoData.
func (d *description) parts() (params, row []byte) {
	if d.frames[0] != wire.ParameterDescription {
		return nil, d.frames
	}
	n := 1 + int(binary.BigEndian.Uint32(d.frames[1:]))
	return d.frames[:n], d.frames[n:]
}

// params is how many parameters a described statement takes; 0 for a portal's, which says nothing of them.
func (d *description) params() int {
	if params, _ := d.parts(); params != nil {
		return int(binary.BigEndian.Uint16(params[wire.HeaderLen:]))
	}
	return 0
}

// cost is what it costs to keep a description, 0 for none.
func (d *description) cost() int {
	if d == nil {
		return 0
	}
	return descriptionCost + len(d.frames)
}

// promises reports whether d tells a client the same as other does: types of the
// parameters, where other tells them, and name and type of each column. A column may come
// from another table, as PostgreSQL lets it when a table is made anew.
func (d *description) promises(other *description) bool {
	params, a := d.parts()
	otherParams, b := other.parts()
	if otherParams != nil && !bytes.Equal(params, otherParams) || len(a) != len(b) {
		return false
	}
	head := wire.HeaderLen
	if a[0] == wire.RowDescription {
		head += 2
	}
	if !bytes.Equal(a[:head], b[:head]) {
		return false
	}
	for a, b = a[head:], b[head:]; len(a) > 0; a, b = a[columnSize:], b[columnSize:] {
		name := bytes.IndexByte(a, 0) + 1
		if len(a) < name+columnSize || !bytes.Equal(a[:name], b[:name]) {
			return false
		}
		a, b = a[name:], b[name:]
		if !bytes.Equal(a[columnType:columnFormat], b[columnType:columnFormat]) {
			return false
		}
	}
	return true
}

// catalog holds the templates of all clients, the least recently parsed evicted, and the
// epoch of the server's schema as far as it was seen to change. A template that was evicted
// lives on with those who have it; a new one of the text shares nothing with it.
type catalog struct {
	epoch    atomic.Uint64
	privates atomic.Uint64 // see schema.go

	mu    sync.Mutex
	limit int // of templates
	most  int // of their cost
	cost  int
	m     map[string]*list.Element
	lru   *list.List // of *catalogEntry, the newest in front
}

// catalogEntry is what the list holds: the key is needed for the eviction.
type catalogEntry struct {
	key  string
	tmpl *template
}

// newCatalog returns an empty catalog of at most limit templates, which cost most together.
func newCatalog(limit, most int) *catalog {
	return &catalog{limit: limit, most: most, m: map[string]*list.Element{}, lru: list.New()}
}

// cacheable reports whether the catalog may keep a text: of a longer one no key is made.
func cacheable(sql, oids []byte) bool { return len(sql)+len(oids) <= maxCachedText }

// templateKey appends the key of a text to dst. The types begin with their number: so no
// two texts with their types have one key.
func templateKey(dst, sql, oids []byte, parsing settings.Parsing, names, by uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, parsing.All)
	dst = binary.BigEndian.AppendUint64(dst, names)
	dst = append(dst, byte(by)) // there are fewer planners
	dst = append(dst, oids...)
	dst = append(dst, 0)
	return append(dst, sql...)
}

// find returns the template of a key, or nil. The key is not kept.
func (c *catalog) find(key []byte) *template {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[string(key)]
	if !ok {
		return nil
	}
	c.lru.MoveToFront(e)
	return e.Value.(*catalogEntry).tmpl
}

// add stores a template unless another session was faster, and returns the one that is stored.
func (c *catalog) add(key []byte, t *template) *template {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.m[string(key)]; ok {
		return e.Value.(*catalogEntry).tmpl
	}
	for c.lru.Len() > 0 && (c.lru.Len() >= c.limit || c.cost+t.cost > c.most) {
		oldest := c.lru.Remove(c.lru.Back()).(*catalogEntry)
		delete(c.m, oldest.key)
		c.cost -= oldest.tmpl.cost
	}
	k := string(key)
	c.m[k] = c.lru.PushFront(&catalogEntry{key: k, tmpl: t})
	c.cost += t.cost
	return t
}

// clear lets every template go.
func (c *catalog) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m, c.cost = map[string]*list.Element{}, 0
	c.lru.Init()
}

// flush forgets what is known of every text: DDL, OC001 or a changed plan was seen. Nothing
// is removed: what belongs to an older epoch is no longer told.
func (c *catalog) flush() { c.epoch.Add(1) }

// clientStatement is one prepared statement of a client, under one of its names. Only its
// client's session has it; portals and the log point to it.
type clientStatement struct {
	tmpl *template
	// cost is that of the text that it was prepared with, and of the longest description; columns that of
	// the description.
	cost, columns int32
	// epoch is that of the schema which the client prepared it under.
	epoch uint64
	// names is the number of what names stood for when the template's plan was last seen to hold; see asNamed.
	names uint64
	// described is what the client was told when it asked for a description; nil if it never did.
	described *description
	// known is what it would have been told when it prepared the statement; nil if nobody knew.
	known *description
	// since is 1 + session.heard of a Parse that was answered from memory; 0: the server was asked.
	since uint64
	// declares is what it declares, where tmpl is of the query of a cursor; else nil. optsOut:
	// a comment in front of that query asks for no replay.
	declares *rewrite.Cursor
	optsOut  bool
	// listed: it is among those that have a name, and is charged.
	listed bool
}

// statement returns the client's statement of that name, or nil.
func (s *session) statement(name []byte) *clientStatement {
	if len(name) == 0 {
		return s.unnamed
	}
	return s.stmts[string(name)]
}

// setStatement gives a name of the client's its statement; nil takes it from the name.
func (s *session) setStatement(name string, st *clientStatement) {
	switch {
	case name == "":
		s.unnamed = st
	default:
		if prev := s.stmts[name]; prev != nil {
			s.lists(name, prev, false)
			delete(s.stmts, name)
		}
		if st == nil {
			return
		}
		if s.stmts == nil {
			s.stmts = map[string]*clientStatement{}
		}
		s.stmts[name] = st
		s.lists(name, st, true)
	}
}

// lists charges a statement that gets a name, or gives back what one has that loses it.
func (s *session) lists(name string, st *clientStatement, listed bool) {
	sign := -1
	if st.listed = listed; listed {
		sign = 1
	}
	s.account.Add(account.Texts, sign*int(st.cost))
	s.nameCost.Set(&s.account, s.nameCost.Bytes()+sign*(nameBytes+len(name)))
}

// describes notes what a client was told of one of its statements, which costs as its text does.
func (s *session) describes(cs *clientStatement, d *description) {
	cs.described = d
	if more := d.cost() - int(cs.columns); more > 0 {
		cs.columns, cs.cost = cs.columns+int32(more), cs.cost+int32(more)
		if cs.listed {
			s.account.Add(account.Texts, more)
		}
	}
}

// setStatements gives the client those of a map in the place of all that have a name.
func (s *session) setStatements(stmts map[string]*clientStatement) {
	for name, st := range s.stmts {
		s.lists(name, st, false)
	}
	s.stmts = stmts
	for name, st := range stmts {
		s.lists(name, st, true)
	}
}

// destroyUnnamed is a Parse of the unnamed statement that Sluice refuses: as at a server,
// what was prepared before is gone all the same. Behind an error of what is still owed the
// Parse would have been skipped: then that statement is back.
func (s *session) destroyUnnamed() {
	if s.unnamed != nil && !s.t.owed.empty() {
		s.t.owed.undoable("", s.unnamed)
	}
	s.unnamed = nil
}

// forgetStatements is DEALLOCATE ALL, which spares the unnamed statement. A new map takes
// the place of the old one, which a localState may hold.
func (s *session) forgetStatements() { s.setStatements(nil) }

// statementsRan records that the server has deallocated all statements: the client's, and those of all clients of the
// backend.
func statementsRan(s *session, _ *owed, st *rewrite.Statement, tag []byte) {
	if tag != nil && st != nil && (st.Does == rewrite.DeallocatesAll || hasChange(st, rewrite.DiscardAll)) {
		s.b.prepared.clear()
		s.forgetStatements()
	}
}
