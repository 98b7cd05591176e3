// Package schema defines the entities of the application, as in ent's tutorial.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema/edge"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/index"
)

// Author is an entity with several books.
type Author struct{ ent.Schema }

func (Author) Fields() []ent.Field {
	return []ent.Field{field.String("name"), field.String("email").Unique(),
		field.Time("born").Optional().Nillable().SchemaType(map[string]string{dialect.Postgres: "date"})}
}

func (Author) Indexes() []ent.Index { return []ent.Index{index.Fields("born")} }

func (Author) Edges() []ent.Edge {
	return []ent.Edge{edge.To("books", Book.Type).Annotations(entsql.OnDelete(entsql.Cascade))}
}

// Book is an entity that belongs to one author.
type Book struct{ ent.Schema }

func (Book) Fields() []ent.Field {
	return []ent.Field{
		field.String("title").MaxLen(200),
		field.Int("pages").Positive(),
		field.Int("stock").Default(0),
		field.JSON("details", map[string]any{}).Optional(),
		field.Enum("kind").Values("novel", "manual").Default("novel"),
	}
}

func (Book) Edges() []ent.Edge {
	return []ent.Edge{edge.From("author", Author.Type).Ref("books").Unique().Required()}
}

func (Book) Indexes() []ent.Index {
	return []ent.Index{index.Fields("title"), index.Fields("title").Edges("author").Unique()}
}

// Item is an entity with many rows.
type Item struct{ ent.Schema }

func (Item) Fields() []ent.Field {
	return []ent.Field{field.String("name"), field.Int("value")}
}

// Counter is an entity that all writers update.
type Counter struct{ ent.Schema }

func (Counter) Fields() []ent.Field {
	return []ent.Field{field.String("name").Unique(), field.Int("n").Default(0)}
}

func (Counter) Edges() []ent.Edge {
	return []ent.Edge{edge.To("entries", Entry.Type)}
}

// Entry is an entity that each transaction of a writer inserts.
type Entry struct{ ent.Schema }

func (Entry) Fields() []ent.Field {
	return []ent.Field{field.String("label")}
}

func (Entry) Edges() []ent.Edge {
	return []ent.Edge{edge.From("counter", Counter.Type).Ref("entries").Unique()}
}
