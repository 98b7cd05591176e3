package matrix

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// tool is an application, and a row of the table.
type tool struct {
	name    string
	command []string
	lacks   []string // steps that it has no notion of, phases included
	url     func(host string, port int, user, database string) string
}

// has says whether the tool goes through a step.
func (t *tool) has(f feature) bool {
	return !slices.Contains(t.lacks, f.name) && !slices.Contains(t.lacks, string(f.phase))
}

// Debian's interpreters: its packages are not for any other.
const (
	python = "/usr/bin/python3"
	ruby   = "/usr/bin/ruby"
)

// tools are the applications, in the order of the table.
var tools = []tool{
	{name: "Django", command: []string{python, "python/django/run.py", "shop"}, lacks: []string{"enum"}},
	{name: "Django's own applications", command: []string{python, "python/django/run.py", "own"},
		lacks: []string{"alter", "default", "widen", "nested", "bulk", "batches", "stream", "enum", "writers"}},
	{name: "SQLAlchemy and Alembic", command: []string{python, "python/sqlalchemy/run.py"}},
	{name: "psycopg", command: []string{python, "python/psycopg/run.py"}, lacks: []string{"again"}},
	{name: "ActiveRecord", command: []string{ruby, "ruby/run.rb"}},
	{name: "Knex", command: node("knex.js"), lacks: []string{"enum"}},
	{name: "Sequelize", command: node("sequelize.js")},
	{name: "TypeORM", command: node("typeorm.js")},
	{name: "Drizzle", command: node("drizzle.js"), lacks: []string{"down"}},
	{name: "Prisma", command: node("prisma.js"), lacks: []string{"nested", "enum", "down"}},
	{name: "GORM", command: []string{goProgram, "gorm"}, lacks: []string{"enum", "down"}},
	{name: "bun", command: []string{goProgram, "bun"}, lacks: []string{"enum"}},
	{name: "ent", command: []string{goProgram, "ent"}, lacks: []string{"enum", "down"}},
	{name: "database/sql with pgx", command: []string{goProgram, "pgx"}, lacks: []string{"again"}},
	{name: "database/sql with lib/pq", command: []string{goProgram, "pq"}, lacks: []string{"again"}},
	{name: "goose", command: []string{goProgram, "goose"}, lacks: []string{"use"}},
	{name: "golang-migrate", command: []string{goProgram, "migrate"}, lacks: []string{"use"}},
	{name: "JDBC", command: []string{"java", "-XX:TieredStopAtLevel=1", "-cp", "/usr/share/java/postgresql.jar", "jdbc/Run.java"}, lacks: []string{"again"},
		url: func(host string, port int, user, database string) string {
			return fmt.Sprintf("jdbc:postgresql://%s:%d/%s?user=%s", host, port, database, user)
		}},
}

func node(program string) []string { return []string{"node", "--no-deprecation", "node/" + program} }

// goProgram stands for the program of all Go tools, which is built once.
const goProgram = "go"

var buildGo = sync.OnceValues(func() (string, error) {
	program := filepath.Join(binaries, "applications")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = "go"
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out) + "(.ci/stages deps generates ent's code)", err
	}
	return program, nil
})

// program is the command line of a tool, built where it has to be.
func (t *tool) program(tb testing.TB) []string {
	tb.Helper()
	command := slices.Clone(t.command)
	if command[0] == goProgram {
		program, err := buildGo()
		if err != nil {
			tb.Fatalf("%v\n%s", err, program)
		}
		command[0] = program
	}
	return command
}
