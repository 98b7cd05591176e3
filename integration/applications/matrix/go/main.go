// Command applications has the applications in Go. Each is a small program with one tool. The first argument names
// the application. All applications take the same further arguments.
package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"github.com/uptrace/bun/driver/pgdriver"
)

// call holds the arguments of the program.
type call struct {
	phase, url                        string
	bulk, rows, writers, transactions int
}

// named is a step of an application, with the step's name.
type named struct {
	name string
	do   func() (any, error)
}

// application is a function that returns the steps of one application for the phase c.phase (up, use or down).
type application func(c *call) ([]named, error)

var applications = map[string]application{
	"bun":     bunApplication,
	"ent":     entApplication,
	"goose":   gooseApplication,
	"gorm":    gormApplication,
	"migrate": migrateApplication,
	"pgx":     sqlApplication("pgx"),
	"pq":      sqlApplication("postgres"),
}

// modules maps each application to the Go module of its tool.
var modules = map[string]string{
	"bun":     "github.com/uptrace/bun",
	"ent":     "entgo.io/ent",
	"goose":   "github.com/pressly/goose/v3",
	"gorm":    "gorm.io/gorm",
	"migrate": "github.com/golang-migrate/migrate/v4",
	"pgx":     "github.com/jackc/pgx/v5",
	"pq":      "github.com/lib/pq",
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 7 || applications[args[0]] == nil {
		return fmt.Errorf("no call of an application: %q", args)
	}
	c := &call{phase: args[1], url: args[2]}
	for i, size := range []*int{&c.bulk, &c.rows, &c.writers, &c.transactions} {
		n, err := strconv.Atoi(args[3+i])
		if err != nil {
			return err
		}
		*size = n
	}
	fmt.Println("tool", version(modules[args[0]]))
	steps, err := applications[args[0]](c)
	if err != nil {
		return err
	}
	for _, s := range steps {
		// A migration needs the earlier ones, so a phase ends after a failed migration. Only the phase with the name
		// use continues after a failure.
		if !c.step(s) && c.phase != "use" {
			break
		}
	}
	return nil
}

// version returns the major and minor version of a Go module of this program.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			parts := strings.SplitN(strings.TrimPrefix(m.Version, "v"), ".", 3)
			return parts[0] + "." + parts[1]
		}
	}
	return "?"
}

func (c *call) step(s named) bool {
	values, err := s.do()
	if err == nil {
		fmt.Println("step", s.name+": ok", oneLine(fmt.Sprint(values)))
		return true
	}
	code, message := failure(err)
	fmt.Println("step", s.name+": error", code, oneLine(message))
	return false
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// failure returns SQLSTATE and message of an error, as the PostgreSQL driver below the tool reports them. For an
// error of any other origin code is "-".
func failure(err error) (code, message string) {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code, e.Message
	}
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return string(e.Code), e.Message
	}
	if e, ok := errors.AsType[pgdriver.Error](err); ok {
		return e.Field('C'), e.Field('M')
	}
	return "-", err.Error()
}

// columns returns the number of columns in schema public, all of which migrations have made.
func columns(db *sql.DB) (n int, err error) {
	err = db.QueryRow("SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public'").Scan(&n)
	return n, err
}

// crowd calls do once for each transaction of each writer. All writers run at once.
func (c *call) crowd(do func(writer, transaction int) error) error {
	var all sync.WaitGroup
	errs := make([]error, c.writers)
	for w := range c.writers {
		all.Go(func() {
			for i := range c.transactions {
				if errs[w] = do(w, i); errs[w] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
