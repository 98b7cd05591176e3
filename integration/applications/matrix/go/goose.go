package main

import (
	"database/sql"
	"embed"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of goose's own program
	"github.com/pressly/goose/v3"
)

//go:embed goose/*.sql
var gooseScripts embed.FS

// gooseApplication returns the steps of the phase c.phase, which migrate the tables as the program goose does.
func gooseApplication(c *call) ([]named, error) {
	goose.SetBaseFS(gooseScripts)
	goose.SetLogger(goose.NopLogger())
	if err := goose.SetDialect("postgres"); err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", c.url)
	if err != nil {
		return nil, err
	}
	to := func(version int64) func() (any, error) {
		return func() (any, error) {
			if err := goose.UpTo(db, "goose", version); err != nil {
				return nil, err
			}
			return columns(db)
		}
	}
	if c.phase == "down" {
		return []named{{"down", func() (any, error) {
			if err := goose.DownTo(db, "goose", 0); err != nil {
				return nil, err
			}
			return columns(db)
		}}}, nil
	}
	return []named{{"tables", to(1)}, {"alter", to(2)}, {"default", to(3)}, {"widen", to(4)}, {"again", to(4)}}, nil
}
