// Command gorm runs writers that insert rows with a generated key, and increment shared counters.
package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

type Entry struct {
	ID    int64 `gorm:"primaryKey"`
	Label string
}

func (Entry) TableName() string { return "entry" }

type Counter struct {
	ID int64 `gorm:"primaryKey"`
	N  int
}

func (Counter) TableName() string { return "counter" }

type Tag struct {
	Name string `gorm:"primaryKey"`
}

func (Tag) TableName() string { return "tag" }

func isDuplicate(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "23505"
}

func transaction(db *gorm.DB, label, kind string, counter int64) string {
	before, entry := "-", Entry{Label: label}
	err := db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&entry).Error; err != nil {
			return err
		}
		if kind == "nested" {
			err := tx.Transaction(func(tx *gorm.DB) error { return tx.Create(&Tag{Name: "taken"}).Error })
			if err != nil && !isDuplicate(err) {
				return err
			}
		}
		if kind != "load" {
			return tx.Model(&Counter{ID: counter}).Update("n", gorm.Expr("n + 1")).Error
		}
		row := Counter{}
		if err := tx.First(&row, counter).Error; err != nil {
			return err
		}
		before = strconv.Itoa(row.N)
		row.N++
		return tx.Save(&row).Error
	})
	if err == nil {
		return fmt.Sprintf("committed %s %d %d %s", kind, entry.ID, counter, before)
	}
	code, detail := "-", err.Error()
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		code, detail = e.Code, e.Detail
	}
	return fmt.Sprintf("refused %s %s %d %s %s", kind, code, counter, before, detail)
}

func main() {
	var sizes [3]int
	for i := range sizes {
		sizes[i], _ = strconv.Atoi(os.Args[2+i])
	}
	writers, transactions, counters := sizes[0], sizes[1], sizes[2]
	db, err := gorm.Open(postgres.Open(os.Args[1]), &gorm.Config{Logger: logger.Default.LogMode(logger.Silent)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pool, err := db.DB()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pool.SetMaxOpenConns(writers)
	pool.SetMaxIdleConns(writers)
	var all sync.WaitGroup
	var out sync.Mutex
	for n := range writers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for i := n; i < transactions; i += writers {
				kind := [...]string{"add", "add", "add", "load", "nested"}[r.IntN(5)]
				line := transaction(db, fmt.Sprintf("e%d", i), kind, 1+r.Int64N(int64(counters)))
				out.Lock()
				fmt.Println(line)
				out.Unlock()
			}
		})
	}
	all.Wait()
}
