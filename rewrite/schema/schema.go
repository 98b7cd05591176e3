package schema

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// MappedSuffix is the end of the name of a mapped column on the server. Clients see a mapped column as bytea. The
// server stores it as text of lower-case hexadecimal digits, because the server takes no bytea in a key.
const MappedSuffix = "__byteahex"

// Column describes a column of a relation.
type Column struct {
	Name   string // the name that clients use
	Mapped bool
	Fill   DefaultKind // the value in an INSERT without the column
	// Time describes how the column's default consists of the transaction's time. Columns with equal Time have the same
	// value in a transaction. Time is "" for other columns.
	Time string
	// Kind is the type of a column for times, in the form that TimeOfDefault expects. Kind is "" for other columns.
	Kind string
	// Always means GENERATED ALWAYS AS IDENTITY, which only OVERRIDING SYSTEM VALUE may write. Computed means
	// GENERATED ALWAYS AS an expression, which no statement may write.
	Always, Computed bool
}

// CanRepeatValue reports whether a repeated INSERT may write the value that the server generated for the column in the
// first run. With clock set, the value may be a time, too.
func (c Column) CanRepeatValue(clock bool) bool { return c.Fill == Drawn || c.Fill == Clock && clock }

// ServerName returns the name of the column on the server.
func (c Column) ServerName() string {
	if c.Mapped {
		return c.Name + MappedSuffix
	}
	return c.Name
}

// Relation is a table, a view or a sequence.
type Relation struct {
	Schema, Name string
	Columns      []Column // the columns in the table's order
	View         bool     // it may compute its rows when it is read
	Sequence     bool
	ID           string   // identifies a sequence, or a relation with columns that the server fills, among relations of the same name
	Key          []string // the columns of the primary key, by the names that clients use; nil for none
}

// Column returns the column whose name for clients is name. ok is false if the relation has none.
func (r *Relation) Column(name string) (Column, bool) {
	i := slices.IndexFunc(r.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return Column{}, false
	}
	return r.Columns[i], true
}

// HasMapped reports whether the relation has mapped columns (bytea stored as text).
func (r *Relation) HasMapped() bool {
	return slices.ContainsFunc(r.Columns, func(c Column) bool { return c.Mapped })
}

// relationName is a relation's name with its schema.
type relationName struct{ schema, name string }

// Schema is an immutable snapshot of all relations of a server. A Schema includes relations without mapped columns
// (bytea stored as text), because they decide what an unqualified name means.
type Schema struct {
	relations map[relationName]*Relation
	mapped    map[string]bool // names, without schema, of relations with mapped columns
	known     map[string]bool // names, without schema, of all relations
	// Outside is the snapshot of other sessions, if this one was read within a transaction that has run DDL. Outside is
	// nil for a snapshot of committed relations. It must not change after other goroutines have got the snapshot.
	Outside *Schema

	mu    sync.Mutex
	names map[string]*NameResolver // by search path (ResolverFor)
}

// New returns a snapshot of relations. The snapshot refers to the slice's elements.
func New(relations []Relation) *Schema {
	s := &Schema{relations: make(map[relationName]*Relation, len(relations)), mapped: map[string]bool{}, known: map[string]bool{}, names: map[string]*NameResolver{}}
	for i := range relations {
		s.AddRelation(&relations[i])
	}
	return s
}

// AddRelation adds a relation to the snapshot. AddRelation must not be called after other goroutines have got the
// snapshot.
func (s *Schema) AddRelation(r *Relation) {
	s.relations[relationName{r.Schema, r.Name}] = r
	s.known[r.Name] = true
	if r.HasMapped() {
		s.mapped[r.Name] = true
	}
}

// Relation returns the relation with a name, or nil.
func (s *Schema) Relation(schema, name string) *Relation {
	return s.relations[relationName{schema, name}]
}

// Equal reports whether two snapshots have equal relations.
func (s *Schema) Equal(o *Schema) bool {
	return maps.EqualFunc(s.relations, o.relations, func(a, b *Relation) bool {
		return a.View == b.View && a.Sequence == b.Sequence && a.ID == b.ID && slices.Equal(a.Columns, b.Columns) && slices.Equal(a.Key, b.Key)
	})
}

// SameSequences reports whether two snapshots have the same sequences. A sequence that was dropped and created again
// does not count as the same.
func (s *Schema) SameSequences(o *Schema) bool {
	if s == o {
		return true
	}
	sequences := func(s *Schema) map[relationName]string {
		all := map[relationName]string{}
		for name, r := range s.relations {
			if r.Sequence {
				all[name] = r.ID
			}
		}
		return all
	}
	return maps.Equal(sequences(s), sequences(o))
}

// MappedRelations returns the relations with mapped columns (bytea stored as text), sorted by schema and name.
func (s *Schema) MappedRelations() []*Relation {
	var all []*Relation
	for _, r := range s.relations {
		if r.HasMapped() {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Relation) int {
		return strings.Compare(a.Schema+"\x00"+a.Name, b.Schema+"\x00"+b.Name)
	})
	return all
}

// maxPaths and maxPath bound the search paths whose NameResolvers a snapshot caches: their number, and their length in
// bytes. ResolverFor makes a new NameResolver each time for a path beyond the bounds.
const (
	maxPaths = 256
	maxPath  = 4 << 10
)

// resolversMade counts the NameResolvers of all snapshots, to number them.
var resolversMade atomic.Uint64

// NameResolver resolves names of relations by a snapshot of the schema and a search path. Plans depend on their
// NameResolver. A NameResolver is immutable.
type NameResolver struct {
	schema *Schema
	// path lists the schemas in which an unqualified name is searched, in order. path is nil for an unknown path.
	path []string
	id   uint64
}

// ResolverFor returns the NameResolver of a session with a search path. pg_catalog comes first if path does not contain
// it. Equal paths get the same NameResolver while the snapshot has at most maxPaths.
func (s *Schema) ResolverFor(path []string) *NameResolver {
	if path == nil {
		path = []string{}
	}
	if !slices.Contains(path, "pg_catalog") {
		path = slices.Insert(slices.Clone(path), 0, "pg_catalog")
	}
	return s.cachedResolver(strings.Join(path, "\x00"), path)
}

// ResolverForUnknownPath returns the NameResolver of a session whose search path is unknown.
func (s *Schema) ResolverForUnknownPath() *NameResolver { return s.cachedResolver("\x00", nil) }

func (s *Schema) cachedResolver(key string, path []string) *NameResolver {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.names[key]; n != nil {
		return n
	}
	n := &NameResolver{schema: s, path: path, id: resolversMade.Add(1)}
	if len(s.names) < maxPaths && len(key) <= maxPath {
		s.names[key] = n
	}
	return n
}

// ForSnapshot returns the NameResolver of the same search path in another snapshot of the schema.
func (n *NameResolver) ForSnapshot(s *Schema) *NameResolver {
	if n.path == nil {
		return s.ResolverForUnknownPath()
	}
	return s.ResolverFor(n.path)
}

// ID returns a number that identifies the NameResolver in keys of caches, or 0 for nil.
func (n *NameResolver) ID() uint64 {
	if n == nil {
		return 0
	}
	return n.id
}

// Schema returns the snapshot of the schema in which names are resolved, or nil for a nil NameResolver.
func (n *NameResolver) Schema() *Schema {
	if n == nil {
		return nil
	}
	return n.schema
}

// FindRelation returns the relation that a name denotes, or nil if the snapshot has none. schema is "" for an
// unqualified name. known is false if the path is unknown and relations of that name have mapped bytea columns.
func (n *NameResolver) FindRelation(schema, name string) (r *Relation, known bool) {
	if schema != "" {
		return n.schema.relations[relationName{schema, name}], true
	}
	if n.path == nil && n.schema.mapped[name] {
		return nil, false
	}
	for _, schema := range n.path {
		if r := n.schema.relations[relationName{schema, name}]; r != nil {
			return r, true
		}
	}
	return nil, true
}

// Relation returns the relation that a name denotes, or nil if that is unknown.
func (n *NameResolver) Relation(schema, name string) *Relation {
	if n == nil {
		return nil
	}
	r, _ := n.FindRelation(schema, name)
	return r
}

// MayConcernMapped reports whether a text may concern mapped columns (bytea stored as text): the text names a mapped
// relation of any schema, or contains the word bytea, which a new table may have. False positives are possible. Texts
// in lower case cost no allocation.
func (n *NameResolver) MayConcernMapped(sql []byte) bool {
	for l := (parse.Lexer{Text: sql}); ; {
		kind := l.Next()
		if kind == parse.BadToken || n.tokenMayBeMapped(kind, l.Lexeme()) {
			return true
		}
		if kind == parse.EndToken {
			return false
		}
	}
}

// tokenMayBeMapped reports whether a token shows that a text may concern mapped columns (bytea stored as text).
func (n *NameResolver) tokenMayBeMapped(kind parse.TokenKind, lexeme []byte) bool {
	switch kind {
	case parse.WordToken:
		if parse.IsWord(lexeme, "bytea") {
			return true
		}
		var small [64]byte
		return len(n.schema.mapped) > 0 && n.schema.mapped[string(parse.FoldName(small[:0], lexeme))]
	case parse.QuotedToken:
		return lexeme[0] != '"' || slices.Contains(lexeme[1:len(lexeme)-1], '"') || n.schema.mapped[string(lexeme[1:len(lexeme)-1])]
	}
	return false
}
