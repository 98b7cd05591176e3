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
	Fill   DefaultKind // what the server writes if an INSERT does not name the column
	// Time describes how the column's default derives from the transaction's time. In a transaction, columns with equal
	// Time get the same value. Time is "" if the default does not depend on the time.
	Time string
	// Kind is the type of a column for times, in the form that TimeOfDefault expects, and "" for other columns.
	Kind string
	// Always means GENERATED ALWAYS AS IDENTITY, which a statement may write only with OVERRIDING SYSTEM VALUE.
	// Computed means GENERATED ALWAYS AS an expression, which no statement may write.
	Always, Computed bool
}

// CanRepeatValue reports whether a repeated INSERT may write the value that the server generated for the column in the
// first run. clock says that the value may also be a time.
func (c Column) CanRepeatValue(clock bool) bool { return c.Fill == Drawn || c.Fill == Clock && clock }

// ServerName returns the column's name on the server. A mapped column (bytea stored as text) has another name there.
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
	View         bool     // the relation may be a view, which computes its rows when it is read
	Sequence     bool
	ID           string   // the OID of a sequence, or of a relation with columns that the server fills; otherwise ""
	Key          []string // the columns of the primary key, by the names that clients use; nil for none
}

// Column returns the column that clients know by name. The result is false if the relation does not have the column.
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

// Schema is an immutable snapshot of the names and columns of all relations of a server. It includes relations without
// mapped columns (bytea stored as text), because they decide which relation an unqualified name means.
type Schema struct {
	relations map[relationName]*Relation
	mapped    map[string]bool // names, without schema, of relations with mapped columns
	known     map[string]bool // names, without schema, of all relations
	// Outside is the snapshot that other sessions use, if a transaction read this snapshot after its own DDL. Outside
	// is nil for a snapshot of committed relations. It must not change after other goroutines have got the snapshot.
	Outside *Schema

	mu    sync.Mutex
	names map[string]*NameResolver // keyed by search path (ResolverFor)
}

// New returns a snapshot of relations. The snapshot holds pointers to the slice's elements.
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

// Relation returns the relation with a schema and a name, or nil if the snapshot has none.
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

// maxPaths is the number of search paths whose NameResolvers a snapshot caches, and maxPath is their greatest length in
// bytes. ResolverFor makes a new NameResolver each time for any other path.
const (
	maxPaths = 256
	maxPath  = 4 << 10
)

// resolversMade counts the NameResolvers of all snapshots. Each NameResolver gets its number as id.
var resolversMade atomic.Uint64

// NameResolver finds the relation that a name denotes, by a snapshot of the schema and a search path. A plan depends on
// the NameResolver of its session. A NameResolver is immutable.
type NameResolver struct {
	schema *Schema
	// path lists the schemas in which Sluice searches an unqualified name. path is nil if Sluice does not know it.
	path []string
	id   uint64
}

// ResolverFor returns the NameResolver of a session with a search path. If path does not contain pg_catalog, pg_catalog
// comes first. ResolverFor returns the same NameResolver for equal paths, while the snapshot has at most maxPaths.
func (s *Schema) ResolverFor(path []string) *NameResolver {
	if path == nil {
		path = []string{}
	}
	if !slices.Contains(path, "pg_catalog") {
		path = slices.Insert(slices.Clone(path), 0, "pg_catalog")
	}
	return s.cachedResolver(strings.Join(path, "\x00"), path)
}

// ResolverForUnknownPath returns the NameResolver of a session whose search path Sluice does not know.
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

// ForSnapshot returns the NameResolver for the same search path and another snapshot of the schema.
func (n *NameResolver) ForSnapshot(s *Schema) *NameResolver {
	if n.path == nil {
		return s.ResolverForUnknownPath()
	}
	return s.ResolverFor(n.path)
}

// ID returns the NameResolver's number, by which caches distinguish plans. ID returns 0 for nil.
func (n *NameResolver) ID() uint64 {
	if n == nil {
		return 0
	}
	return n.id
}

// Schema returns the snapshot in which the NameResolver finds relations, or nil for a nil NameResolver.
func (n *NameResolver) Schema() *Schema {
	if n == nil {
		return nil
	}
	return n.schema
}

// FindRelation returns the relation that a name denotes, or nil if the snapshot has none. schema is "" for an
// unqualified name. known is false if the search path is unknown and a relation of that name has mapped bytea columns.
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

// Relation returns the relation that a name denotes, or nil if Sluice does not know the relation.
func (n *NameResolver) Relation(schema, name string) *Relation {
	if n == nil {
		return nil
	}
	r, _ := n.FindRelation(schema, name)
	return r
}

// MayConcernMapped reports whether a text may concern mapped columns (bytea stored as text). It does if it names a
// mapped relation of any schema, or contains the word bytea, because a new table may then get one. False positives are
// possible. Texts in lower case cost no allocation.
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
