package schema

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// MappedSuffix ends the name under which the server has a mapped column: one that clients
// know as bytea, and that is stored as text of lower-case hexadecimal digits, because the
// server takes no bytea in a key.
const MappedSuffix = "__byteahex"

// Column is a column of a relation.
type Column struct {
	Name   string // as clients know it
	Mapped bool
	Fill   Fill // of an INSERT that leaves it out
	// Time is the same for columns that all have the same value in a transaction, which is made of
	// its time alone; "" for any other.
	Time string
	// Kind is the type of a column of times, as TimeOf is told of it; "" for any other.
	Kind string
	// Always: an identity to which only OVERRIDING SYSTEM VALUE writes; Computed: GENERATED
	// ALWAYS AS an expression, to which nothing writes.
	Always, Computed bool
}

// Drawn reports whether what the server fills in can be given back to it: clock says whether
// the time can.
func (c Column) Drawn(clock bool) bool { return c.Fill == Drawn || c.Fill == Clock && clock }

// Physical is the name of the column at the server.
func (c Column) Physical() string {
	if c.Mapped {
		return c.Name + MappedSuffix
	}
	return c.Name
}

// Relation is what a query can read from: a table, a view.
type Relation struct {
	Schema, Name string
	Columns      []Column // in their order
	View         bool     // what it shows may be computed when it is read
	Sequence     bool
	ID           string   // of a sequence, and of one with columns that the server fills in: tells it from others of its name
	Key          []string // the columns of the primary key, as clients know them; nil for none
}

// Column returns the column that clients know by a name.
func (r *Relation) Column(name string) (Column, bool) {
	i := slices.IndexFunc(r.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return Column{}, false
	}
	return r.Columns[i], true
}

// Maps reports whether a column is mapped.
func (r *Relation) Maps() bool {
	return slices.ContainsFunc(r.Columns, func(c Column) bool { return c.Mapped })
}

// relationName is a relation's name with that of its schema.
type relationName struct{ schema, name string }

// Schema is a snapshot of the relations of a server: it never changes. It holds all of
// them, mapped or not: what a name means depends on all that it could mean.
type Schema struct {
	relations map[relationName]*Relation
	mapped    map[string]bool // names, without schema, of relations that have mapped columns
	known     map[string]bool // names, without schema, of all

	mu    sync.Mutex
	names map[string]*Names // by path; see In
}

// New makes a snapshot. It keeps the relations.
func New(relations []Relation) *Schema {
	s := &Schema{relations: make(map[relationName]*Relation, len(relations)), mapped: map[string]bool{}, known: map[string]bool{}, names: map[string]*Names{}}
	for i := range relations {
		s.Add(&relations[i])
	}
	return s
}

// Add takes a relation in, while nobody else has the snapshot.
func (s *Schema) Add(r *Relation) {
	s.relations[relationName{r.Schema, r.Name}] = r
	s.known[r.Name] = true
	if r.Maps() {
		s.mapped[r.Name] = true
	}
}

// Relation returns the relation of a name, or nil.
func (s *Schema) Relation(schema, name string) *Relation {
	return s.relations[relationName{schema, name}]
}

// Equal reports whether two snapshots say the same.
func (s *Schema) Equal(o *Schema) bool {
	return maps.EqualFunc(s.relations, o.relations, func(a, b *Relation) bool {
		return a.View == b.View && a.Sequence == b.Sequence && a.ID == b.ID && slices.Equal(a.Columns, b.Columns) && slices.Equal(a.Key, b.Key)
	})
}

// SameSequences reports whether two snapshots have the same sequences: none was dropped, made,
// or made anew between them.
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

// Mapped are the relations that have mapped columns, by schema and name.
func (s *Schema) Mapped() []*Relation {
	var all []*Relation
	for _, r := range s.relations {
		if r.Maps() {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Relation) int {
		return strings.Compare(a.Schema+"\x00"+a.Name, b.Schema+"\x00"+b.Name)
	})
	return all
}

// maxPaths bounds the search paths that a snapshot remembers. Names of further ones are
// made anew each time, and so are those of paths that are longer than maxPath.
const (
	maxPaths = 256
	maxPath  = 4 << 10
)

// namesMade counts all Names, which gives each a number of its own.
var namesMade atomic.Uint64

// Names says what the names of relations in a text stand for: by a snapshot and a search
// path. Plans depend on it. It never changes.
type Names struct {
	schema *Schema
	// path are the schemas in which a name without schema is looked for, in order; nil
	// where nobody knows.
	path []string
	id   uint64
}

// In returns the names of a session that looks for relations in these schemas, in this
// order. pg_catalog comes first where the path does not name it. Equal paths get the same
// Names, as long as few are asked for.
func (s *Schema) In(path []string) *Names {
	if path == nil {
		path = []string{}
	}
	if !slices.Contains(path, "pg_catalog") {
		path = slices.Insert(slices.Clone(path), 0, "pg_catalog")
	}
	return s.namesOf(strings.Join(path, "\x00"), path)
}

// InUnknown returns the names of a session whose search path nobody knows.
func (s *Schema) InUnknown() *Names { return s.namesOf("\x00", nil) }

func (s *Schema) namesOf(key string, path []string) *Names {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.names[key]; n != nil {
		return n
	}
	n := &Names{schema: s, path: path, id: namesMade.Add(1)}
	if len(s.names) < maxPaths && len(key) <= maxPath {
		s.names[key] = n
	}
	return n
}

// Renewed are the names of the same session by another snapshot.
func (n *Names) Renewed(s *Schema) *Names {
	if n.path == nil {
		return s.InUnknown()
	}
	return s.In(n.path)
}

// ID tells Names apart, for keys of caches: 0 for nil.
func (n *Names) ID() uint64 {
	if n == nil {
		return 0
	}
	return n.id
}

// Schema is the snapshot; nil for nil.
func (n *Names) Schema() *Schema {
	if n == nil {
		return nil
	}
	return n.schema
}

// Find returns the relation that a name in a text stands for; schema is "" where the text
// gives none. It is nil where the snapshot has none of that name. known is false where the
// search path decides and nobody knows it, unless no relation of that name is mapped.
func (n *Names) Find(schema, name string) (r *Relation, known bool) {
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

// Relation is the relation that a name in a text stands for; nil where that is not known.
func (n *Names) Relation(schema, name string) *Relation {
	if n == nil {
		return nil
	}
	r, _ := n.Find(schema, name)
	return r
}

// Concerns reports whether a text may touch the mapping: it names a mapped relation in
// some schema, or holds the word bytea, which a new table's column has. It errs towards
// yes, and allocates nothing for words in small letters.
func (n *Names) Concerns(sql []byte) bool {
	for l := (parse.Lexer{Text: sql}); ; {
		kind := l.Next()
		if kind == parse.BadToken || n.touches(kind, l.Lexeme()) {
			return true
		}
		if kind == parse.EndToken {
			return false
		}
	}
}

// touches reports whether a token is why a text may touch the mapping.
func (n *Names) touches(kind parse.Token, lexeme []byte) bool {
	switch kind {
	case parse.WordToken:
		if parse.IsWord(lexeme, "bytea") {
			return true
		}
		var small [64]byte
		return len(n.schema.mapped) > 0 && n.schema.mapped[string(parse.Fold(small[:0], lexeme))]
	case parse.QuotedToken:
		return lexeme[0] != '"' || slices.Contains(lexeme[1:len(lexeme)-1], '"') || n.schema.mapped[string(lexeme[1:len(lexeme)-1])]
	}
	return false
}
