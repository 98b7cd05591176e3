package main

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"testing/fstest"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"
	"github.com/uptrace/bun/migrate"
)

//go:embed bun/*.sql
var bunScripts embed.FS

type bunAuthor struct {
	bun.BaseModel `bun:"table:authors,alias:a"`
	ID            int64 `bun:",pk,autoincrement"`
	Name          string
	Email         string
	Books         []*bunBook `bun:"rel:has-many,join:id=author_id"`
}

type bunBook struct {
	bun.BaseModel `bun:"table:books,alias:b"`
	ID            int64 `bun:",pk,autoincrement"`
	AuthorID      int64
	Author        *bunAuthor `bun:"rel:belongs-to,join:author_id=id"`
	Title         string
	Pages         int64
	Details       map[string]any `bun:"type:jsonb"`
}

type bunItem struct {
	bun.BaseModel `bun:"table:items"`
	ID            int64 `bun:",pk,autoincrement"`
	Name          string
	Value         int64
}

type bunCounter struct {
	bun.BaseModel `bun:"table:counters"`
	ID            int64 `bun:",pk,autoincrement"`
	Name          string
	N             int64
}

type bunEntry struct {
	bun.BaseModel `bun:"table:entries"`
	ID            int64 `bun:",pk,autoincrement"`
	CounterID     int64
	Label         string
}

// bunApplication returns the steps of the phase c.phase for bun, with the driver that belongs to bun. The migrations
// have the form that bun's program creates (create_tx_sql).
func bunApplication(c *call) ([]named, error) {
	db := bun.NewDB(sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(c.url+"?sslmode=disable"))), pgdialect.New())
	db.SetMaxOpenConns(c.writers)
	db.SetMaxIdleConns(c.writers)
	b := &bunUse{c, db, context.Background()}
	switch c.phase {
	case "up":
		return []named{{"tables", b.migrate(1)}, {"alter", b.migrate(2)}, {"default", b.migrate(3)}, {"widen", b.migrate(4)}, {"again", b.migrate(4)}}, nil
	case "down":
		return []named{{"down", b.down}}, nil
	}
	return []named{{"crud", b.crud}, {"relations", b.relations}, {"nested", b.nested}, {"bulk", b.bulk},
		{"batches", b.batches}, {"stream", b.stream}, {"writers", b.writers}}, nil
}

type bunUse struct {
	*call
	db  *bun.DB
	ctx context.Context
}

// migrator returns bun's migrator for only the first number migrations, as in an earlier version of the program.
func (b *bunUse) migrator(number int) (*migrate.Migrator, error) {
	files, err := fs.Glob(bunScripts, "bun/*.sql")
	if err != nil {
		return nil, err
	}
	some := fstest.MapFS{}
	for _, file := range files[:2*number] { // up and down
		text, err := bunScripts.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some[file] = &fstest.MapFile{Data: text}
	}
	scripts := migrate.NewMigrations()
	if err := scripts.Discover(some); err != nil {
		return nil, err
	}
	m := migrate.NewMigrator(b.db, scripts)
	return m, m.Init(b.ctx)
}

func (b *bunUse) migrate(number int) func() (any, error) {
	return func() (any, error) {
		m, err := b.migrator(number)
		if err != nil {
			return nil, err
		}
		if err := m.Lock(b.ctx); err != nil {
			return nil, err
		}
		_, err = m.Migrate(b.ctx)
		if unlocked := m.Unlock(b.ctx); err == nil {
			err = unlocked
		}
		if err != nil {
			return nil, err
		}
		return columns(b.db.DB)
	}
}

func (b *bunUse) down() (any, error) {
	m, err := b.migrator(4)
	if err != nil {
		return nil, err
	}
	for range 4 {
		if _, err := m.Rollback(b.ctx); err != nil {
			return nil, err
		}
	}
	return columns(b.db.DB)
}

func (b *bunUse) crud() (any, error) {
	author := &bunAuthor{Name: "Frank", Email: "frank@example.com"}
	if _, err := b.db.NewInsert().Model(author).Exec(b.ctx); err != nil {
		return nil, err
	}
	book := &bunBook{AuthorID: author.ID, Title: "Dune", Pages: 412, Details: map[string]any{"tags": []string{"sand"}, "year": 1965}}
	if _, err := b.db.NewInsert().Model(book).Exec(b.ctx); err != nil {
		return nil, err
	}
	read := new(bunBook)
	if err := b.db.NewSelect().Model(read).Where("details->>'year' = ?", "1965").Scan(b.ctx); err != nil {
		return nil, err
	}
	said := []any{read.Title, read.Pages, read.Details}
	read.Pages += 88
	if _, err := b.db.NewUpdate().Model(read).WherePK().Exec(b.ctx); err != nil {
		return nil, err
	}
	if _, err := b.db.NewUpdate().Model((*bunBook)(nil)).Set("pages = pages + 1").Where("pages >= 500").Exec(b.ctx); err != nil {
		return nil, err
	}
	if err := b.db.NewSelect().Model(read).WherePK().Scan(b.ctx); err != nil {
		return nil, err
	}
	upsert := &bunAuthor{Name: "Herbert", Email: "frank@example.com"}
	if _, err := b.db.NewInsert().Model(upsert).On("CONFLICT (email) DO UPDATE").Set("name = EXCLUDED.name").Exec(b.ctx); err != nil {
		return nil, err
	}
	said = append(said, read.Pages, upsert.ID == author.ID)
	if _, err := b.db.NewDelete().Model(author).WherePK().Exec(b.ctx); err != nil {
		return nil, err
	}
	authors, err := b.db.NewSelect().Model((*bunAuthor)(nil)).Count(b.ctx)
	if err != nil {
		return nil, err
	}
	books, err := b.db.NewSelect().Model((*bunBook)(nil)).Count(b.ctx)
	return append(said, authors, books), err
}

func (b *bunUse) relations() (any, error) {
	authors := []*bunAuthor{{Name: "ann", Email: "ann@example.com"}, {Name: "bob", Email: "bob@example.com"}}
	if _, err := b.db.NewInsert().Model(&authors).Exec(b.ctx); err != nil {
		return nil, err
	}
	var books []*bunBook
	for i := range 4 {
		books = append(books, &bunBook{AuthorID: authors[i%2].ID, Title: fmt.Sprint("book ", i), Pages: int64(100 + i)})
	}
	if _, err := b.db.NewInsert().Model(&books).Exec(b.ctx); err != nil {
		return nil, err
	}
	var said []string
	var read []*bunBook
	if err := b.db.NewSelect().Model(&read).Relation("Author").Order("title").Scan(b.ctx); err != nil {
		return nil, err
	}
	for _, one := range read {
		said = append(said, one.Title+" by "+one.Author.Name)
	}
	var loaded []*bunAuthor
	if err := b.db.NewSelect().Model(&loaded).Relation("Books").Order("name").Scan(b.ctx); err != nil {
		return nil, err
	}
	for _, one := range loaded {
		said = append(said, fmt.Sprint(one.Name, len(one.Books)))
	}
	for _, broken := range []any{&bunAuthor{Name: "again", Email: "ann@example.com"},
		&bunBook{AuthorID: authors[0].ID, Title: "book 0"}, &bunBook{AuthorID: 987654, Title: "of nobody"}} {
		code := "none"
		if _, err := b.db.NewInsert().Model(broken).Exec(b.ctx); err != nil {
			code, _ = failure(err)
		}
		said = append(said, code)
	}
	if _, err := b.db.NewDelete().Model(authors[0]).WherePK().Exec(b.ctx); err != nil {
		return nil, err
	}
	left, err := b.db.NewSelect().Model((*bunBook)(nil)).Count(b.ctx)
	return append(said, fmt.Sprint(left)), err
}

func (b *bunUse) nested() (any, error) {
	lost := errors.New("lost")
	err := b.db.RunInTx(b.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&bunItem{Name: "outer", Value: 1}).Exec(ctx); err != nil {
			return err
		}
		err := tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.NewInsert().Model(&bunItem{Name: "lost", Value: 2}).Exec(ctx); err != nil {
				return err
			}
			return lost
		})
		if !errors.Is(err, lost) {
			return err
		}
		_ = tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.NewInsert().Model(&bunCounter{Name: "twice"}).Exec(ctx); err != nil {
				return err
			}
			_, err := tx.NewInsert().Model(&bunCounter{Name: "twice"}).Exec(ctx)
			return err
		})
		return tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.NewInsert().Model(&bunItem{Name: "inner", Value: 3}).Exec(ctx)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	var names []string
	if err := b.db.NewSelect().Model((*bunItem)(nil)).Column("name").Order("value").Scan(b.ctx, &names); err != nil {
		return nil, err
	}
	counters, err := b.db.NewSelect().Model((*bunCounter)(nil)).Count(b.ctx)
	if err != nil {
		return nil, err
	}
	_, err = b.db.NewDelete().Model((*bunItem)(nil)).Where("TRUE").Exec(b.ctx)
	return append(names, fmt.Sprint(counters)), err
}

func bunItems(name string, from, to int) (items []*bunItem) {
	for i := from; i < to; i++ {
		items = append(items, &bunItem{Name: fmt.Sprint(name, " ", i), Value: int64(i)})
	}
	return items
}

func (b *bunUse) bulk() (any, error) {
	items := bunItems("bulk", 0, b.call.bulk)
	if _, err := b.db.NewInsert().Model(&items).Exec(b.ctx); err != nil {
		return nil, err
	}
	var many, total int64
	err := b.db.NewSelect().Model((*bunItem)(nil)).ColumnExpr("count(*), sum(value)").Where("name LIKE 'bulk%'").Scan(b.ctx, &many, &total)
	return []int64{many, total}, err
}

func (b *bunUse) batches() (any, error) {
	for start := 0; start < b.rows; start += 1000 {
		items := bunItems("row", start, start+1000)
		if _, err := b.db.NewInsert().Model(&items).Exec(b.ctx); err != nil {
			return nil, err
		}
	}
	return b.db.NewSelect().Model((*bunItem)(nil)).Where("name LIKE 'row%'").Count(b.ctx)
}

func (b *bunUse) stream() (any, error) {
	rows, err := b.db.NewSelect().Model((*bunItem)(nil)).Where("name LIKE 'row%'").Order("value").Rows(b.ctx)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var count, total int64
	for rows.Next() {
		item := new(bunItem)
		if err := b.db.ScanRow(b.ctx, rows, item); err != nil {
			return nil, err
		}
		count, total = count+1, total+item.Value
	}
	return []int64{count, total}, rows.Err()
}

func (b *bunUse) writers() (any, error) {
	var counters []*bunCounter
	for i := range 4 {
		counters = append(counters, &bunCounter{Name: fmt.Sprint("shared ", i)})
	}
	if _, err := b.db.NewInsert().Model(&counters).Exec(b.ctx); err != nil {
		return nil, err
	}
	err := b.crowd(func(writer, i int) error {
		return b.db.RunInTx(b.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			key := counters[(writer+i)%4].ID
			if _, err := tx.NewInsert().Model(&bunEntry{CounterID: key, Label: fmt.Sprint(writer, "/", i)}).Exec(ctx); err != nil {
				return err
			}
			_, err := tx.NewUpdate().Model((*bunCounter)(nil)).Set("n = n + 1").Where("id = ?", key).Exec(ctx)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	var n int64
	if err := b.db.NewSelect().Model((*bunCounter)(nil)).ColumnExpr("sum(n)").Where("name LIKE 'shared%'").Scan(b.ctx, &n); err != nil {
		return nil, err
	}
	entries, err := b.db.NewSelect().Model((*bunEntry)(nil)).Count(b.ctx)
	return []int64{n, int64(entries)}, err
}
