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

// This file holds prepared statements: templates, which all clients share (templateCache), and each client's statements
// (clientStatement). A backend has its own serverStatements. A client's name is never sent to a server. templates.go
// makes templates and prepares them on backends. schema.go decides how long remembered facts are valid.

// statementTemplate is one statement text that clients prepare. All clients and backends share it. Its key is the SQL
// text, the parameter types and the settings for parsing. Only atomic fields change, and any session may set them.
type statementTemplate struct {
	sql  string
	cost int    // approximate memory: see texts
	oids string // the parameter types of the Parse frame, with their count
	plan *rewrite.Plan
	// parsing is the hash of the settings that affect how SQL is parsed. names is the number of the schema snapshot by
	// which the text's table names were resolved.
	parsing settings.ParsingHashes
	names   uint64
	// plannerNumber is the number of the planner that the plan depends on (Planner.ForOptions). 0 is the configuration's
	// planner, or means that all planners make the same plan.
	plannerNumber uint64
	// unshared means that only one client uses the template. sharedForm is then the shared template of the same text, or
	// nil. See reuseParsedStatement and unparsedTemplate.
	unshared      bool
	sharedForm    *statementTemplate
	optsOut       bool // a comment in the text asks for no replay
	inserts       bool // it may be an INSERT ... RETURNING
	mayShowTxTime bool // may return now() or the like, the time of its transaction
	// split is set in the template for the two-statement form of a query (FOR UPDATE on a join). The answer for the client
	// comes from its prepared statement. splitForm, in the original template, is that form's template, once made.
	split     *rewrite.SplitQuery
	splitForm atomic.Pointer[statementTemplate]
	// unsplitForm, in a template with split, is the template of the client's own text. The cost includes both texts.
	unsplitForm *statementTemplate
	// accepted is 1 plus the schema epoch in which a backend last accepted the text, or 0 if no backend has.
	accepted atomic.Uint64
	// desc is the description of the statement that Sluice may send to any client (publishDescription).
	desc   atomic.Pointer[statementDescription]
	portal atomic.Pointer[statementDescription] // of a portal, as last sent to a client
}

// isLong reports whether a statement's text is too long for the cache, so that no other client shares the template.
func (t *statementTemplate) isLong() bool { return len(t.sql)+len(t.oids) > maxCachedText }

// clientStatements holds a client's prepared statements by name.
type clientStatements struct {
	stmts        map[string]*clientStatement
	unnamed      *clientStatement
	unnamedSlot  clientStatement    // the struct that unnamed usually points to
	lastTemplate *statementTemplate // the template of the last Parse
	// txParsing has the hashes of the settings for parsing while a transaction has changed them, and is otherwise zero.
	txParsing settings.ParsingHashes
}

// statementDescription is the server's answer to a Describe. Sessions share it. Only the field seen changes.
type statementDescription struct {
	epoch uint64
	// seen is when the server last returned this description, or bound a statement with it, in nanoseconds since the
	// process began. See Config.DescribeMemory.
	seen   atomic.Int64
	frames []byte // ParameterDescription (not for a portal), then RowDescription or NoData
}

// columnSize is the length in bytes of a column in a RowDescription, without its name.columnType and columnFormat are
// the offsets of its type and format. The fields are table (4), attribute (2), type (4), size (2), modifier (4), format
// (2).
const columnSize, columnType, columnFormat = 18, 6, 16

// splitFrames returns a description's ParameterDescription (nil for a portal) and its RowDescription or NoData.
func (d *statementDescription) splitFrames() (params, row []byte) {
	if d.frames[0] != wire.ParameterDescription {
		return nil, d.frames
	}
	n := 1 + int(binary.BigEndian.Uint32(d.frames[1:]))
	return d.frames[:n], d.frames[n:]
}

// paramCount returns the number of a described statement's parameters, or 0 for a portal's description.
func (d *statementDescription) paramCount() int {
	if params, _ := d.splitFrames(); params != nil {
		return int(binary.BigEndian.Uint16(params[wire.HeaderLen:]))
	}
	return 0
}

// memoryBytes returns the description's approximate memory in bytes, or 0 for nil.
func (d *statementDescription) memoryBytes() int {
	if d == nil {
		return 0
	}
	return descriptionCost + len(d.frames)
}

// isCompatible reports whether two descriptions mean the same to a client: the parameter types, and each column's name
// and type. A column's table may differ, since PostgreSQL also allows a table to be recreated. A portal's description
// has no parameter types to compare.
func (d *statementDescription) isCompatible(other *statementDescription) bool {
	params, a := d.splitFrames()
	otherParams, b := other.splitFrames()
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

// templateCache holds the shared templates and the epoch, a counter of the schema changes that Sluice has noticed. A
// full cache evicts the template whose last Parse is oldest, even if clients still use that template.
type templateCache struct {
	epoch    atomic.Uint64
	txEpochs atomic.Uint64 // see schema.go

	mu    sync.Mutex
	limit int // of templates
	most  int // limit of their cost
	cost  int
	m     map[string]*list.Element
	lru   *list.List // of *templateCacheEntry, the most recent first
}

// templateCacheEntry is an element of the cache's list of templates. The eviction needs the key.
type templateCacheEntry struct {
	key  string
	tmpl *statementTemplate
}

// newTemplateCache returns an empty cache for at most limit templates with a total cost of at most most bytes.
func newTemplateCache(limit, most int) *templateCache {
	return &templateCache{limit: limit, most: most, m: map[string]*list.Element{}, lru: list.New()}
}

// isCacheable reports whether a statement's text and parameter types are short enough for the cache of templates.
func isCacheable(sql, oids []byte) bool { return len(sql)+len(oids) <= maxCachedText }

// templateKey appends the cache key of a statement's text to dst. oids begins with the number of types, so that
// different texts never share a key.
func templateKey(dst, sql, oids []byte, parsing settings.ParsingHashes, names, by uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, parsing.All)
	dst = binary.BigEndian.AppendUint64(dst, names)
	dst = append(dst, byte(by)) // there are fewer than 256 planners
	dst = append(dst, oids...)
	dst = append(dst, 0)
	return append(dst, sql...)
}

// find returns the template for a cache key, or nil. It does not retain key.
func (c *templateCache) find(key []byte) *statementTemplate {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.m[string(key)]
	if !ok {
		return nil
	}
	c.lru.MoveToFront(e)
	return e.Value.(*templateCacheEntry).tmpl
}

// add stores the template t and returns it, or returns the template that another session has stored under key.
func (c *templateCache) add(key []byte, t *statementTemplate) *statementTemplate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.m[string(key)]; ok {
		return e.Value.(*templateCacheEntry).tmpl
	}
	for c.lru.Len() > 0 && (c.lru.Len() >= c.limit || c.cost+t.cost > c.most) {
		oldest := c.lru.Remove(c.lru.Back()).(*templateCacheEntry)
		delete(c.m, oldest.key)
		c.cost -= oldest.tmpl.cost
	}
	k := string(key)
	c.m[k] = c.lru.PushFront(&templateCacheEntry{key: k, tmpl: t})
	c.cost += t.cost
	return t
}

// clear removes all templates from the cache.
func (c *templateCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m, c.cost = map[string]*list.Element{}, 0
	c.lru.Init()
}

// beginEpoch begins a new schema epoch after DDL, OC001 or a changed plan. Templates remain, but descriptions and other
// facts learned in older epochs are no longer used.
func (c *templateCache) beginEpoch() { c.epoch.Add(1) }

// clientStatement is one prepared statement under one of a client's names. The client's session owns it; portals and
// the log refer to it.
type clientStatement struct {
	tmpl *statementTemplate
	// cost is the memory of the statement's text and of its longest description. columns is the description's share.
	cost, columns int32
	// epoch is the schema epoch in which the client prepared the statement.
	epoch uint64
	// names is the number of the latest schema snapshot for which the template's plan was checked (replanByNames).
	names uint64
	// described is the description of the statement that the client has received, or nil.
	described *statementDescription
	// known is the description that was valid when the client prepared the statement, or nil if Sluice had none.
	known *statementDescription
	// since is 1 + session.deliveries at the Parse, if Sluice answered the Parse from memory. Otherwise it is 0.
	since uint64
	// declares is the cursor that the statement declares, if tmpl is the cursor's query, and otherwise nil. optsOut means
	// that a comment before the query turns replay off.
	declares *rewrite.CursorStatement
	optsOut  bool
	// listed means that the statement has a name, and that the client's account is charged its cost.
	listed bool
}

// findStatement returns the client's statement with the name, or nil.
func (s *session) findStatement(name []byte) *clientStatement {
	if len(name) == 0 {
		return s.unnamed
	}
	return s.stmts[string(name)]
}

// setStatement stores a prepared statement under the client's name. nil removes the name.
func (s *session) setStatement(name string, st *clientStatement) {
	switch {
	case name == "":
		s.unnamed = st
	default:
		if prev := s.stmts[name]; prev != nil {
			s.chargeStatement(name, prev, false)
			delete(s.stmts, name)
		}
		if st == nil {
			return
		}
		if s.stmts == nil {
			s.stmts = map[string]*clientStatement{}
		}
		s.stmts[name] = st
		s.chargeStatement(name, st, true)
	}
}

// chargeStatement charges the client's account for a statement that gets a name, or credits the account for a statement
// that loses its name.
func (s *session) chargeStatement(name string, st *clientStatement, listed bool) {
	sign := -1
	if st.listed = listed; listed {
		sign = 1
	}
	s.account.Add(account.Texts, sign*int(st.cost))
	s.namesCharge.Set(&s.account, s.namesCharge.Bytes()+sign*(nameBytes+len(name)))
}

// recordDescription records the description of a statement that the client received, and charges its memory.
func (s *session) recordDescription(cs *clientStatement, d *statementDescription) {
	cs.described = d
	if more := d.memoryBytes() - int(cs.columns); more > 0 {
		cs.columns, cs.cost = cs.columns+int32(more), cs.cost+int32(more)
		if cs.listed {
			s.account.Add(account.Texts, more)
		}
	}
}

// replaceStatements replaces all named statements of the client by those of stmts.
func (s *session) replaceStatements(stmts map[string]*clientStatement) {
	for name, st := range s.stmts {
		s.chargeStatement(name, st, false)
	}
	s.stmts = stmts
	for name, st := range stmts {
		s.chargeStatement(name, st, true)
	}
}

// destroyUnnamedStatement removes the unnamed statement after Sluice refused a Parse of a new one, as a server does. If
// an earlier frame of the group fails, a server would have skipped that Parse, and an undo restores the statement.
func (s *session) destroyUnnamedStatement() {
	if s.unnamed != nil && !s.t.owed.empty() {
		s.t.owed.addNameUndo("", s.unnamed)
	}
	s.unnamed = nil
}

// forgetStatements forgets the client's named statements for DEALLOCATE ALL, but not the unnamed one. It does not
// change the old map, which a localStateCopy may refer to.
func (s *session) forgetStatements() { s.replaceStatements(nil) }

// recordDeallocateAll forgets all prepared statements of the client and the backend, once the server has run DEALLOCATE
// ALL or DISCARD ALL.
func recordDeallocateAll(s *session, _ *pendingReply, st *rewrite.Statement, tag []byte) {
	if tag != nil && st != nil && (st.Does == rewrite.DeallocatesAll || hasChange(st, rewrite.DiscardAll)) {
		s.b.prepared.clear()
		s.forgetStatements()
	}
}
