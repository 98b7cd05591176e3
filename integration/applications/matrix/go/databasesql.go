package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	_ "github.com/lib/pq"
)

// sqlApplication returns the application that uses database/sql with the named driver, and no migration tool. A
// migration is a list of statements that the program sends at its start, in one transaction.
func sqlApplication(driver string) application {
	return func(c *call) ([]named, error) {
		url := c.url
		if driver == "postgres" {
			url += "?sslmode=disable"
		}
		db, err := sql.Open(driver, url)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(c.writers)
		db.SetMaxIdleConns(c.writers)
		s := &sqlUse{c, db}
		switch c.phase {
		case "up":
			return []named{
				{"tables", s.script(
					"CREATE TABLE author (id bigserial PRIMARY KEY, name text NOT NULL, email varchar(254) UNIQUE)",
					"CREATE TABLE book (id bigserial PRIMARY KEY, author_id bigint NOT NULL REFERENCES author ON DELETE CASCADE, title varchar(100) NOT NULL, pages integer, details jsonb, UNIQUE (author_id, title))",
					"CREATE INDEX book_title ON book (title)",
					"CREATE TABLE item (id bigserial PRIMARY KEY, name varchar(50), value integer)",
					"CREATE TABLE counter (id bigserial PRIMARY KEY, name varchar(50) UNIQUE, n integer NOT NULL DEFAULT 0)",
					"CREATE TABLE entry (id bigserial PRIMARY KEY, counter_id bigint REFERENCES counter, label varchar(50))")},
				{"alter", s.script("ALTER TABLE author ADD COLUMN born date", "CREATE INDEX author_born ON author (born)")},
				{"default", s.script("ALTER TABLE book ADD COLUMN stock integer NOT NULL DEFAULT 0")},
				{"widen", s.script("ALTER TABLE book ALTER COLUMN title TYPE varchar(200)")},
			}, nil
		case "down":
			return []named{{"down", s.script("DROP TABLE entry", "DROP TABLE counter", "DROP TABLE item", "DROP TABLE book", "DROP TABLE author")}}, nil
		}
		return []named{{"crud", s.crud}, {"relations", s.relations}, {"nested", s.nested}, {"bulk", s.bulk},
			{"batches", s.batches}, {"stream", s.stream}, {"writers", s.writers}, {"enum", s.enum}}, nil
	}
}

type sqlUse struct {
	*call
	db *sql.DB
}

// in calls do with a new transaction. It commits the transaction, or rolls it back if do returns an error.
func (s *sqlUse) in(do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (s *sqlUse) script(statements ...string) func() (any, error) {
	return func() (any, error) {
		err := s.in(func(tx *sql.Tx) error {
			for _, text := range statements {
				if _, err := tx.Exec(text); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		return columns(s.db)
	}
}

// all runs a query and returns its rows, each row as one text.
func (s *sqlUse) all(query string, args ...any) (said []string, err error) {
	rows, err := s.db.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		var row []string
		for _, v := range values {
			row = append(row, v.String)
		}
		said = append(said, strings.Join(row, "/"))
	}
	return said, rows.Err()
}

func (s *sqlUse) crud() (any, error) {
	var author, n int64
	var title string
	var details []byte
	err := s.in(func(tx *sql.Tx) error {
		if err := tx.QueryRow("INSERT INTO author (name, email) VALUES ($1, $2) RETURNING id", "Frank", "frank@example.com").Scan(&author); err != nil {
			return err
		}
		document, err := json.Marshal(map[string]any{"tags": []string{"sand"}, "year": 1965})
		if err != nil {
			return err
		}
		if _, err = tx.Exec("INSERT INTO book (author_id, title, pages, details) VALUES ($1, $2, $3, $4)", author, "Dune", 412, string(document)); err != nil {
			return err
		}
		return tx.QueryRow("SELECT title, details FROM book WHERE details->>'year' = $1", "1965").Scan(&title, &details)
	})
	if err != nil {
		return nil, err
	}
	changed, err := s.db.Exec("UPDATE book SET pages = pages + 89 WHERE author_id = $1", author)
	if err == nil {
		n, err = changed.RowsAffected()
	}
	if err != nil {
		return nil, err
	}
	said, err := s.all("INSERT INTO author (name, email) VALUES ($1, $2) ON CONFLICT (email) DO UPDATE SET name = EXCLUDED.name RETURNING name", "Herbert", "frank@example.com")
	if err != nil {
		return nil, err
	}
	pages, err := s.all("SELECT pages FROM book")
	if err != nil {
		return nil, err
	}
	if _, err := s.db.Exec("DELETE FROM author WHERE id = $1", author); err != nil {
		return nil, err
	}
	left, err := s.all("SELECT (SELECT count(*) FROM author), (SELECT count(*) FROM book)")
	return []any{title, string(details), n, said, pages, left}, err
}

func (s *sqlUse) relations() (any, error) {
	for i := range 2 {
		name := []string{"ann", "bob"}[i]
		err := s.in(func(tx *sql.Tx) error {
			var id int64
			if err := tx.QueryRow("INSERT INTO author (name, email) VALUES ($1, $2) RETURNING id", name, name+"@example.com").Scan(&id); err != nil {
				return err
			}
			insert, err := tx.Prepare("INSERT INTO book (author_id, title, pages) VALUES ($1, $2, $3)")
			if err != nil {
				return err
			}
			defer insert.Close()
			for b := i; b < 4; b += 2 {
				if _, err := insert.Exec(id, fmt.Sprint("book ", b), 100+b); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	said, err := s.all("SELECT a.name, count(*), sum(b.pages) FROM author a JOIN book b ON b.author_id = a.id GROUP BY a.name ORDER BY 1")
	if err != nil {
		return nil, err
	}
	for _, broken := range []string{"INSERT INTO author (name, email) VALUES ('again', 'ann@example.com')",
		"INSERT INTO book (author_id, title) SELECT id, 'book 0' FROM author WHERE name = 'ann'",
		"INSERT INTO book (author_id, title) VALUES (987654, 'of nobody')"} {
		code := "none"
		if _, err := s.db.Exec(broken); err != nil {
			code, _ = failure(err)
		}
		said = append(said, code)
	}
	if _, err := s.db.Exec("DELETE FROM author WHERE name = $1", "ann"); err != nil {
		return nil, err
	}
	left, err := s.all("SELECT count(*) FROM book")
	return append(said, left...), err
}

// nested tests savepoints, because database/sql has no nested transactions.
func (s *sqlUse) nested() (any, error) {
	err := s.in(func(tx *sql.Tx) error {
		for _, text := range []string{"INSERT INTO item (name, value) VALUES ('outer', 1)",
			"SAVEPOINT lost", "INSERT INTO item (name, value) VALUES ('lost', 2)", "ROLLBACK TO SAVEPOINT lost",
			"SAVEPOINT twice", "INSERT INTO counter (name) VALUES ('twice')"} {
			if _, err := tx.Exec(text); err != nil {
				return err
			}
		}
		if _, err := tx.Exec("INSERT INTO counter (name) VALUES ('twice')"); err == nil {
			return fmt.Errorf("twice was taken twice")
		}
		for _, text := range []string{"ROLLBACK TO SAVEPOINT twice",
			"SAVEPOINT inside", "INSERT INTO item (name, value) VALUES ('inside', 3)", "RELEASE SAVEPOINT inside"} {
			if _, err := tx.Exec(text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	said, err := s.all("SELECT name FROM item UNION ALL SELECT count(*)::text FROM counter ORDER BY 1")
	if err != nil {
		return nil, err
	}
	_, err = s.db.Exec("DELETE FROM item")
	return said, err
}

func (s *sqlUse) items(name string, from, to int) error {
	return s.in(func(tx *sql.Tx) error {
		insert, err := tx.Prepare("INSERT INTO item (name, value) VALUES ($1, $2)")
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := from; i < to; i++ {
			if _, err := insert.Exec(fmt.Sprint(name, " ", i), i); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sqlUse) bulk() (any, error) {
	if err := s.items("bulk", 0, s.call.bulk); err != nil {
		return nil, err
	}
	return s.all("SELECT count(*), sum(value) FROM item WHERE name LIKE 'bulk%'")
}

func (s *sqlUse) batches() (any, error) {
	for start := 0; start < s.rows; start += 1000 {
		if err := s.items("row", start, start+1000); err != nil {
			return nil, err
		}
	}
	return s.all("SELECT count(*) FROM item WHERE name LIKE 'row%'")
}

func (s *sqlUse) stream() (any, error) {
	rows, err := s.db.Query("SELECT value FROM item WHERE name LIKE 'row%' ORDER BY value")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	count, total := 0, 0
	for rows.Next() {
		var value int
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		count, total = count+1, total+value
	}
	return []int{count, total}, rows.Err()
}

func (s *sqlUse) writers() (any, error) {
	keys := make([]int64, 4)
	for i := range keys {
		if err := s.db.QueryRow("INSERT INTO counter (name) VALUES ($1) RETURNING id", fmt.Sprint("shared ", i)).Scan(&keys[i]); err != nil {
			return nil, err
		}
	}
	err := s.crowd(func(writer, i int) error {
		return s.in(func(tx *sql.Tx) error {
			key := keys[(writer+i)%4]
			if _, err := tx.Exec("INSERT INTO entry (counter_id, label) VALUES ($1, $2)", key, fmt.Sprint(writer, "/", i)); err != nil {
				return err
			}
			_, err := tx.Exec("UPDATE counter SET n = n + 1 WHERE id = $1", key)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return s.all("SELECT sum(n), (SELECT count(*) FROM entry) FROM counter WHERE name LIKE 'shared%'")
}

func (s *sqlUse) enum() (any, error) {
	for _, text := range []string{"CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')", "CREATE TABLE person (id int PRIMARY KEY, now mood NOT NULL)"} {
		if _, err := s.db.Exec(text); err != nil {
			return nil, err
		}
	}
	for id, mood := range []string{"happy", "sad"} {
		if _, err := s.db.Exec("INSERT INTO person (id, now) VALUES ($1, $2)", id, mood); err != nil {
			return nil, err
		}
	}
	said, err := s.all("SELECT id, now::text FROM person ORDER BY now")
	if err != nil {
		return nil, err
	}
	if _, err := s.db.Exec("INSERT INTO person (id, now) VALUES ($1, $2)", 3, "bored"); err != nil {
		code, _ := failure(err)
		said = append(said, code)
	}
	for _, text := range []string{"DROP TABLE person", "DROP TYPE mood"} {
		if _, err := s.db.Exec(text); err != nil {
			return nil, err
		}
	}
	return said, nil
}
