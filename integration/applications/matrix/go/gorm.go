package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

// These are the models for GORM, in all their versions. The application calls AutoMigrate with each version.
type (
	GormAuthor struct {
		gorm.Model
		Name  string     `gorm:"size:100;not null"`
		Email string     `gorm:"size:254;uniqueIndex"`
		Books []GormBook `gorm:"foreignKey:AuthorID;constraint:OnDelete:CASCADE"`
	}
	GormBook struct {
		ID       uint
		AuthorID uint       `gorm:"uniqueIndex:book_once"`
		Author   GormAuthor `gorm:"foreignKey:AuthorID"`
		Title    string     `gorm:"size:100;index;uniqueIndex:book_once"`
		Pages    int
		Details  json.RawMessage `gorm:"type:jsonb"`
	}
	GormItem struct {
		ID    uint
		Name  string
		Value int
	}
	GormCounter struct {
		ID   uint
		Name string `gorm:"unique"`
		N    int    `gorm:"not null;default:0"`
	}
	GormEntry struct {
		ID        uint
		CounterID uint
		Counter   GormCounter `gorm:"foreignKey:CounterID"`
		Label     string
	}
)

// Later versions of the GORM models embed the earlier model and declare the new or changed fields.
type (
	GormAuthorAltered struct {
		GormAuthor
		Born *time.Time `gorm:"type:date;index"`
	}
	GormBookDefault struct {
		GormBook
		Stock int `gorm:"not null;default:0"`
	}
	GormBookWidened struct {
		ID    uint
		Title string `gorm:"size:200"`
		Stock int    `gorm:"not null;default:0"`
	}
)

func (GormAuthor) TableName() string        { return "authors" }
func (GormAuthorAltered) TableName() string { return "authors" }
func (GormBook) TableName() string          { return "books" }
func (GormBookDefault) TableName() string   { return "books" }
func (GormBookWidened) TableName() string   { return "books" }
func (GormItem) TableName() string          { return "items" }
func (GormCounter) TableName() string       { return "counters" }
func (GormEntry) TableName() string         { return "entries" }

// gormApplication returns the steps of the phase c.phase for GORM, with the defaults of GORM's driver.
func gormApplication(c *call) ([]named, error) {
	open := func() (*gorm.DB, error) {
		return gorm.Open(postgres.Open(c.url), &gorm.Config{Logger: logger.Discard})
	}
	db, err := open()
	if err != nil {
		return nil, err
	}
	// migrate returns a step that migrates the tables, as each version of an application does at its start.
	migrate := func(models ...any) func() (any, error) {
		return func() (any, error) {
			db, err := open()
			if err != nil {
				return nil, err
			}
			if err := db.AutoMigrate(models...); err != nil {
				return nil, err
			}
			pool, err := db.DB()
			if err != nil {
				return nil, err
			}
			defer pool.Close()
			return columns(pool)
		}
	}
	switch c.phase {
	case "up":
		return []named{
			{"tables", migrate(&GormAuthor{}, &GormBook{}, &GormItem{}, &GormCounter{}, &GormEntry{})},
			{"alter", migrate(&GormAuthorAltered{})},
			{"default", migrate(&GormBookDefault{})},
			{"widen", migrate(&GormBookWidened{})},
			{"again", migrate(&GormAuthorAltered{}, &GormBookWidened{}, &GormItem{}, &GormCounter{}, &GormEntry{})},
		}, nil
	case "down":
		return nil, nil
	}
	g := &gormUse{c, db}
	return []named{{"crud", g.crud}, {"relations", g.relations}, {"nested", g.nested}, {"bulk", g.bulk},
		{"batches", g.batches}, {"stream", g.stream}, {"writers", g.writers}}, nil
}

type gormUse struct {
	*call
	db *gorm.DB
}

func (g *gormUse) crud() (any, error) {
	author := GormAuthor{Name: "Frank", Email: "frank@example.com",
		Books: []GormBook{{Title: "Dune", Pages: 412, Details: json.RawMessage(`{"tags": ["sand"], "year": 1965}`)}}}
	if err := g.db.Create(&author).Error; err != nil {
		return nil, err
	}
	var book GormBook
	if err := g.db.Where("details->>'year' = ?", "1965").First(&book).Error; err != nil {
		return nil, err
	}
	said := []any{book.Title, book.Pages, string(book.Details)}
	book.Pages += 88
	if err := g.db.Save(&book).Error; err != nil {
		return nil, err
	}
	changed := g.db.Model(&GormBook{}).Where("pages >= ?", 500).Update("pages", gorm.Expr("pages + 1"))
	if changed.Error != nil {
		return nil, changed.Error
	}
	if err := g.db.First(&book, book.ID).Error; err != nil {
		return nil, err
	}
	found := GormAuthor{}
	if err := g.db.Where(GormAuthor{Email: "frank@example.com"}).FirstOrCreate(&found).Error; err != nil {
		return nil, err
	}
	onConflict := clause.OnConflict{Columns: []clause.Column{{Name: "email"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}
	if err := g.db.Clauses(onConflict).Create(&GormAuthor{Name: "Herbert", Email: "frank@example.com"}).Error; err != nil {
		return nil, err
	}
	said = append(said, changed.RowsAffected, book.Pages, found.Name)
	if err := g.db.Unscoped().Delete(&GormAuthor{}, author.ID).Error; err != nil {
		return nil, err
	}
	var authors, books int64
	err := g.db.Model(&GormAuthor{}).Count(&authors).Error
	if err == nil {
		err = g.db.Model(&GormBook{}).Count(&books).Error
	}
	return append(said, authors, books), err
}

func (g *gormUse) relations() (any, error) {
	authors := []GormAuthor{{Name: "ann", Email: "ann@example.com"}, {Name: "bob", Email: "bob@example.com"}}
	if err := g.db.Create(&authors).Error; err != nil {
		return nil, err
	}
	for i := range 4 {
		if err := g.db.Create(&GormBook{AuthorID: authors[i%2].ID, Title: fmt.Sprint("book ", i), Pages: 100 + i, Details: json.RawMessage("{}")}).Error; err != nil {
			return nil, err
		}
	}
	var said []string
	var books []GormBook
	if err := g.db.Joins("Author").Order("title").Find(&books).Error; err != nil {
		return nil, err
	}
	for _, b := range books {
		said = append(said, b.Title+" by "+b.Author.Name)
	}
	var loaded []GormAuthor
	if err := g.db.Preload("Books").Order("name").Find(&loaded).Error; err != nil {
		return nil, err
	}
	for _, a := range loaded {
		said = append(said, fmt.Sprint(a.Name, len(a.Books)))
	}
	for _, broken := range []any{&GormAuthor{Name: "again", Email: "ann@example.com"},
		&GormBook{AuthorID: authors[0].ID, Title: "book 0"}, &GormBook{AuthorID: 987654, Title: "of nobody"}} {
		code := "none"
		if err := g.db.Create(broken).Error; err != nil {
			code, _ = failure(err)
		}
		said = append(said, code)
	}
	if err := g.db.Unscoped().Select(clause.Associations).Delete(&authors[0]).Error; err != nil {
		return nil, err
	}
	var left int64
	err := g.db.Model(&GormBook{}).Count(&left).Error
	return append(said, fmt.Sprint(left)), err
}

func (g *gormUse) nested() (any, error) {
	err := g.db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&GormItem{Name: "outer", Value: 1}).Error; err != nil {
			return err
		}
		lost := fmt.Errorf("lost")
		err := tx.Transaction(func(tx *gorm.DB) error {
			if err := tx.Create(&GormItem{Name: "lost", Value: 2}).Error; err != nil {
				return err
			}
			return lost
		})
		if err != lost {
			return err
		}
		_ = tx.Transaction(func(tx *gorm.DB) error {
			if err := tx.Create(&GormCounter{Name: "twice"}).Error; err != nil {
				return err
			}
			return tx.Create(&GormCounter{Name: "twice"}).Error
		})
		return tx.Transaction(func(tx *gorm.DB) error { return tx.Create(&GormItem{Name: "inner", Value: 3}).Error })
	})
	if err != nil {
		return nil, err
	}
	var names []string
	if err := g.db.Model(&GormItem{}).Order("value").Pluck("name", &names).Error; err != nil {
		return nil, err
	}
	var counters int64
	if err := g.db.Model(&GormCounter{}).Count(&counters).Error; err != nil {
		return nil, err
	}
	err = g.db.Where("true").Delete(&GormItem{}).Error
	return strings.Join(append(names, fmt.Sprint(counters)), " "), err
}

func gormItems(name string, from, to int) []GormItem {
	items := make([]GormItem, 0, to-from)
	for i := from; i < to; i++ {
		items = append(items, GormItem{Name: fmt.Sprint(name, " ", i), Value: i})
	}
	return items
}

func (g *gormUse) bulk() (any, error) {
	if err := g.db.CreateInBatches(gormItems("bulk", 0, g.call.bulk), 1000).Error; err != nil {
		return nil, err
	}
	var said struct{ Many, Total int64 }
	err := g.db.Model(&GormItem{}).Select("count(*) AS many, sum(value) AS total").Where("name LIKE 'bulk%'").Scan(&said).Error
	return said, err
}

func (g *gormUse) batches() (any, error) {
	for start := 0; start < g.rows; start += 1000 {
		if err := g.db.Create(gormItems("row", start, start+1000)).Error; err != nil {
			return nil, err
		}
	}
	var many int64
	err := g.db.Model(&GormItem{}).Where("name LIKE 'row%'").Count(&many).Error
	return many, err
}

func (g *gormUse) stream() (any, error) {
	rows, err := g.db.Model(&GormItem{}).Where("name LIKE 'row%'").Order("value").Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	count, total := 0, 0
	for rows.Next() {
		var item GormItem
		if err := g.db.ScanRows(rows, &item); err != nil {
			return nil, err
		}
		count, total = count+1, total+item.Value
	}
	return []int{count, total}, rows.Err()
}

func (g *gormUse) writers() (any, error) {
	counters := make([]GormCounter, 4)
	for i := range counters {
		counters[i].Name = fmt.Sprint("shared ", i)
	}
	if err := g.db.Create(&counters).Error; err != nil {
		return nil, err
	}
	err := g.crowd(func(writer, i int) error {
		return g.db.Transaction(func(tx *gorm.DB) error {
			key := counters[(writer+i)%4].ID
			if err := tx.Create(&GormEntry{CounterID: key, Label: fmt.Sprint(writer, "/", i)}).Error; err != nil {
				return err
			}
			return tx.Model(&GormCounter{}).Where("id = ?", key).Update("n", gorm.Expr("n + 1")).Error
		})
	})
	if err != nil {
		return nil, err
	}
	var n, entries int64
	if err := g.db.Model(&GormCounter{}).Where("name LIKE 'shared%'").Select("sum(n)").Scan(&n).Error; err != nil {
		return nil, err
	}
	err = g.db.Model(&GormEntry{}).Count(&entries).Error
	return []int64{n, entries}, err
}
