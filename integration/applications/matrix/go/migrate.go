package main

import (
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/postgres"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

//go:embed migrate/*.sql
var migrateScripts embed.FS

// migrateApplication returns the steps of the phase c.phase for golang-migrate. Each step does what one run of
// golang-migrate's program does.
func migrateApplication(c *call) ([]named, error) {
	url := strings.Replace(c.url, "postgresql://", "postgres://", 1) + "?sslmode=disable"
	db, err := sql.Open("postgres", url)
	if err != nil {
		return nil, err
	}
	// with returns a step that opens golang-migrate, calls do, and closes golang-migrate again.
	with := func(do func(m *migrate.Migrate) error) func() (any, error) {
		return func() (any, error) {
			scripts, err := iofs.New(migrateScripts, "migrate")
			if err != nil {
				return nil, err
			}
			m, err := migrate.NewWithSourceInstance("iofs", scripts, url)
			if err != nil {
				return nil, err
			}
			failure := do(m)
			if source, database := m.Close(); failure == nil {
				failure = errors.Join(source, database)
			}
			if failure != nil {
				return nil, failure
			}
			return columns(db)
		}
	}
	one := with(func(m *migrate.Migrate) error { return m.Steps(1) })
	again := with(func(m *migrate.Migrate) error {
		if err := m.Up(); !errors.Is(err, migrate.ErrNoChange) {
			return fmt.Errorf("something was left to do: %w", err)
		}
		return nil
	})
	if c.phase == "down" {
		return []named{{"down", with(func(m *migrate.Migrate) error { return m.Down() })}}, nil
	}
	return []named{{"tables", one}, {"alter", one}, {"default", one}, {"widen", one}, {"again", again}}, nil
}
