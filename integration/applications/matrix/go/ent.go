package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/schema"

	"github.com/sluice-proxy/sluice/integration/applications/matrix/go/ent"
	"github.com/sluice-proxy/sluice/integration/applications/matrix/go/ent/author"
	"github.com/sluice-proxy/sluice/integration/applications/matrix/go/ent/book"
	"github.com/sluice-proxy/sluice/integration/applications/matrix/go/ent/counter"
	"github.com/sluice-proxy/sluice/integration/applications/matrix/go/ent/item"
	"github.com/sluice-proxy/sluice/integration/applications/matrix/go/ent/migrate"
)

// entApplication returns the steps of the phase c.phase for ent, over pgx, with ent's automatic migration.
func entApplication(c *call) ([]named, error) {
	db, err := sql.Open("pgx", c.url)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(c.writers)
	db.SetMaxIdleConns(c.writers)
	e := &entUse{c, db, ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, db))), context.Background()}
	switch c.phase {
	case "up":
		return []named{{"tables", e.migrate(1)}, {"alter", e.migrate(2)}, {"default", e.migrate(3)}, {"widen", e.migrate(4)}, {"again", e.migrate(4)}}, nil
	case "down":
		return nil, nil
	}
	return []named{{"crud", e.crud}, {"relations", e.relations}, {"nested", e.nested}, {"bulk", e.bulk},
		{"batches", e.batches}, {"stream", e.stream}, {"writers", e.writers}}, nil
}

type entUse struct {
	*call
	db     *sql.DB
	client *ent.Client
	ctx    context.Context
}

// entTables returns the tables of one version of the program. Earlier versions lack the columns and the length that
// later migrations add.
func entTables(version int) []*schema.Table {
	without := func(table *schema.Table, name string) {
		table.Columns = slices.DeleteFunc(slices.Clone(table.Columns), func(c *schema.Column) bool { return c.Name == name })
		table.Indexes = slices.DeleteFunc(slices.Clone(table.Indexes), func(i *schema.Index) bool {
			return slices.ContainsFunc(i.Columns, func(c *schema.Column) bool { return c.Name == name })
		})
	}
	if version < 2 {
		without(migrate.AuthorsTable, "born")
	}
	if version < 3 {
		without(migrate.BooksTable, "stock")
	}
	for _, c := range migrate.BooksTable.Columns {
		if c.Name == "title" && version < 4 {
			c.Size = 100
		}
	}
	return migrate.Tables
}

// migrate returns a step that brings the tables to one version of the program, as a program does at its start. For an
// earlier version the step changes the declarations in package migrate, and restores them afterwards.
func (e *entUse) migrate(version int) func() (any, error) {
	return func() (any, error) {
		authors, books := *migrate.AuthorsTable, *migrate.BooksTable
		title := slices.IndexFunc(books.Columns, func(c *schema.Column) bool { return c.Name == "title" })
		size := books.Columns[title].Size
		err := migrate.Create(e.ctx, e.client.Schema, entTables(version))
		*migrate.AuthorsTable, *migrate.BooksTable = authors, books
		books.Columns[title].Size = size
		if err != nil {
			return nil, err
		}
		return columns(e.db)
	}
}

func (e *entUse) crud() (any, error) {
	frank, err := e.client.Author.Create().SetName("Frank").SetEmail("frank@example.com").Save(e.ctx)
	if err != nil {
		return nil, err
	}
	dune, err := e.client.Book.Create().SetTitle("Dune").SetPages(412).SetAuthor(frank).
		SetDetails(map[string]any{"tags": []string{"sand"}, "year": 1965}).Save(e.ctx)
	if err != nil {
		return nil, err
	}
	read, err := e.client.Book.Query().Where(book.Title("Dune")).Only(e.ctx)
	if err != nil {
		return nil, err
	}
	said := []any{read.Title, read.Pages, read.Kind, read.Details}
	if read, err = read.Update().SetPages(500).Save(e.ctx); err != nil {
		return nil, err
	}
	changed, err := e.client.Book.Update().Where(book.PagesGTE(500)).AddPages(1).Save(e.ctx)
	if err != nil {
		return nil, err
	}
	if dune, err = e.client.Book.Get(e.ctx, dune.ID); err != nil {
		return nil, err
	}
	said = append(said, read.Pages, changed, dune.Pages)
	if err := e.client.Author.DeleteOne(frank).Exec(e.ctx); err != nil {
		return nil, err
	}
	authors, err := e.client.Author.Query().Count(e.ctx)
	if err != nil {
		return nil, err
	}
	books, err := e.client.Book.Query().Count(e.ctx)
	return append(said, authors, books), err
}

func (e *entUse) relations() (any, error) {
	var authors []*ent.Author
	for _, name := range []string{"ann", "bob"} {
		one, err := e.client.Author.Create().SetName(name).SetEmail(name + "@example.com").Save(e.ctx)
		if err != nil {
			return nil, err
		}
		authors = append(authors, one)
	}
	for i := range 4 {
		if err := e.client.Book.Create().SetTitle(fmt.Sprint("book ", i)).SetPages(100 + i).SetAuthor(authors[i%2]).Exec(e.ctx); err != nil {
			return nil, err
		}
	}
	var said []string
	loaded, err := e.client.Author.Query().WithBooks().Order(author.ByName()).All(e.ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range loaded {
		said = append(said, fmt.Sprint(one.Name, len(one.Edges.Books)))
	}
	of, err := e.client.Book.Query().Where(book.HasAuthorWith(author.Name("ann"))).Order(book.ByTitle()).All(e.ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range of {
		said = append(said, one.Title)
	}
	for _, broken := range []func() error{
		func() error { return e.client.Author.Create().SetName("again").SetEmail("ann@example.com").Exec(e.ctx) },
		func() error {
			return e.client.Book.Create().SetTitle("book 0").SetPages(1).SetAuthor(authors[0]).Exec(e.ctx)
		},
		func() error {
			return e.client.Book.Create().SetTitle("of nobody").SetPages(1).SetAuthorID(987654).Exec(e.ctx)
		},
	} {
		code := "none"
		if err := broken(); err != nil {
			code, _ = failure(err)
		}
		said = append(said, code)
	}
	if err := e.client.Author.DeleteOne(authors[0]).Exec(e.ctx); err != nil {
		return nil, err
	}
	left, err := e.client.Book.Query().Count(e.ctx)
	return append(said, fmt.Sprint(left)), err
}

// in calls do with a new transaction, in the form that ent's manual shows. It rolls back if do returns an error.
func (e *entUse) in(do func(tx *ent.Tx) error) error {
	tx, err := e.client.Tx(e.ctx)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// nested runs a transaction that fails and one that succeeds, because ent has no nested transactions.
func (e *entUse) nested() (any, error) {
	err := e.in(func(tx *ent.Tx) error {
		if err := tx.Item.Create().SetName("lost").SetValue(1).Exec(e.ctx); err != nil {
			return err
		}
		if err := tx.Counter.Create().SetName("twice").Exec(e.ctx); err != nil {
			return err
		}
		return tx.Counter.Create().SetName("twice").Exec(e.ctx)
	})
	if !ent.IsConstraintError(err) {
		return nil, fmt.Errorf("no failure of a constraint: %w", err)
	}
	if err := e.in(func(tx *ent.Tx) error { return tx.Item.Create().SetName("outer").SetValue(2).Exec(e.ctx) }); err != nil {
		return nil, err
	}
	names, err := e.client.Item.Query().Order(item.ByValue()).Select(item.FieldName).Strings(e.ctx)
	if err != nil {
		return nil, err
	}
	counters, err := e.client.Counter.Query().Count(e.ctx)
	if err != nil {
		return nil, err
	}
	_, err = e.client.Item.Delete().Exec(e.ctx)
	return append(names, fmt.Sprint(counters)), err
}

// create inserts several items with one INSERT.
func (e *entUse) create(c *ent.ItemClient, name string, from, to int) error {
	var all []*ent.ItemCreate
	for i := from; i < to; i++ {
		all = append(all, c.Create().SetName(fmt.Sprint(name, " ", i)).SetValue(i))
	}
	return c.CreateBulk(all...).Exec(e.ctx)
}

func (e *entUse) bulk() (any, error) {
	if err := e.create(e.client.Item, "bulk", 0, e.call.bulk); err != nil {
		return nil, err
	}
	return e.client.Item.Query().Where(item.NameHasPrefix("bulk")).Aggregate(ent.Sum(item.FieldValue)).Int(e.ctx)
}

func (e *entUse) batches() (any, error) {
	for start := 0; start < e.rows; start += 1000 {
		if err := e.in(func(tx *ent.Tx) error { return e.create(tx.Item, "row", start, start+1000) }); err != nil {
			return nil, err
		}
	}
	return e.client.Item.Query().Where(item.NameHasPrefix("row")).Count(e.ctx)
}

// stream reads the rows page by page, because ent cannot stream a result.
func (e *entUse) stream() (any, error) {
	count, total, last := 0, 0, -1
	for {
		page, err := e.client.Item.Query().Where(item.NameHasPrefix("row"), item.ValueGT(last)).Order(item.ByValue()).Limit(1000).All(e.ctx)
		if err != nil || len(page) == 0 {
			return []int{count, total}, err
		}
		for _, one := range page {
			count, total, last = count+1, total+one.Value, one.Value
		}
	}
}

func (e *entUse) writers() (any, error) {
	var keys []int
	for i := range 4 {
		one, err := e.client.Counter.Create().SetName(fmt.Sprint("shared ", i)).Save(e.ctx)
		if err != nil {
			return nil, err
		}
		keys = append(keys, one.ID)
	}
	err := e.crowd(func(writer, i int) error {
		return e.in(func(tx *ent.Tx) error {
			key := keys[(writer+i)%4]
			if err := tx.Entry.Create().SetLabel(fmt.Sprint(writer, "/", i)).SetCounterID(key).Exec(e.ctx); err != nil {
				return err
			}
			return tx.Counter.Update().Where(counter.ID(key)).AddN(1).Exec(e.ctx)
		})
	})
	if err != nil {
		return nil, err
	}
	n, err := e.client.Counter.Query().Where(counter.NameHasPrefix("shared")).Aggregate(ent.Sum(counter.FieldN)).Int(e.ctx)
	if err != nil {
		return nil, err
	}
	entries, err := e.client.Entry.Query().Count(e.ctx)
	return []int{n, entries}, err
}
