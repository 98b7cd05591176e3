package lint

import (
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// This file reads migrations as their tools do: which parts of a file do and undo, the
// transactions, and the tool's switch for them.

// Source is a file of SQL.
type Source struct {
	Path string // with slashes; "" if unknown
	Text string
	// Beside reads another file by its path from this one's folder; nil if there is none. Some
	// tools have settings of a file, or marks of a folder, there.
	Beside func(name string) (text string, ok bool)
}

// beside reads another file of the folder.
func (s *Source) beside(name string) (text string, ok bool) {
	if s.Beside == nil {
		return "", false
	}
	return s.Beside(name)
}

// tool is a tool that runs migrations.
type tool struct {
	name string
	// records reports that the tool records a file's execution in the transaction of the file.
	records bool
	// up and down name the tool's switches that make each statement its own transaction.
	up, down string
	// passages splits a file of the tool.
	passages func(t *tool, s *Source) []passage
}

func (t *tool) remedy(down bool) string {
	if down && t.down != "" {
		return t.down
	}
	return t.up
}

// running is how a tool runs a passage.
type running struct {
	// tool is the tool that runs the passage; nil means that each statement is sent alone, as by psql.
	tool *tool
	down bool // it undoes a migration
	// wrapped reports that the tool begins a transaction before the script and commits it afterwards.
	wrapped bool
	// whole reports that the tool sends the script as one multi-statement query, so that statements outside of a block are
	// one transaction too.
	whole bool
}

// transaction describes the transaction in which the tool runs the passage.
func (r *running) transaction() rewrite.Running {
	if r.tool == nil {
		return rewrite.Running{}
	}
	return rewrite.Running{Wrapped: r.wrapped, Whole: r.whole, Records: r.tool.records, Remedy: r.tool.remedy(r.down)}
}

// passage is a part of a file; no statement crosses its borders.
type passage struct {
	from, to int  // in bytes
	begins   bool // it begins a session
	how      running
}

const ofItsOwn = "run each statement in a transaction of its own: "

var (
	goose = &tool{name: "goose", records: true, passages: goosePassages,
		up: ofItsOwn + "put -- +goose NO TRANSACTION at the top of the file; goose notes its version in the same transaction otherwise"}
	dbmate = &tool{name: "dbmate", records: true, passages: dbmatePassages,
		up:   ofItsOwn + "write -- migrate:up transaction:false, and leave one DDL statement in the file; dbmate notes its version in the same transaction otherwise",
		down: ofItsOwn + "write -- migrate:down transaction:false, and leave one DDL statement in the file; dbmate notes its version in the same transaction otherwise"}
	drizzle = &tool{name: "Drizzle", records: true, passages: drizzlePassages,
		up: ofItsOwn + "Drizzle's migrator has no switch for that, and runs all files that are due in one transaction with a row of its own; run the files by psql -f"}
	golangMigrate = &tool{name: "golang-migrate", passages: stringPassages,
		up: ofItsOwn + "add x-multi-statement=true to the URL of the database, which splits the file at each semicolon; or leave one statement in the file"}
	prisma = &tool{name: "Prisma", passages: stringPassages,
		up: ofItsOwn + "Prisma sends the file as one string and has no switch for that; leave one DDL statement in each migration.sql"}
	flyway = &tool{name: "Flyway", passages: flywayPassages,
		up: ofItsOwn + "put executeInTransaction=false into a file beside it, of its name with .conf behind"}
)

var (
	gooseMark    = regexp.MustCompile(`(?m)^--[ \t]*\+goose (Up|Down|NO TRANSACTION|StatementBegin|StatementEnd)[ \t\r]*$`)
	dbmateMark   = regexp.MustCompile(`(?m)^--[ \t]*migrate:(up|down)\b(.*)$`)
	flywayName   = regexp.MustCompile(`^(?:[VU][0-9]+(?:[._][0-9]+)*__.+|R__.+)\.sql$`)
	migrateName  = regexp.MustCompile(`^[0-9]+_.*\.(up|down)\.sql$`)
	prismaFolder = regexp.MustCompile(`^[0-9]{14}_`)
)

// breakpoint is the line at which Drizzle splits a file.
const breakpoint = "--> statement-breakpoint"

// toolOf returns the tool of a file, by its marks and its name; nil if unknown.
func toolOf(s *Source) *tool {
	folder, name := path.Split(s.Path)
	switch {
	case s.marked(gooseMark):
		return goose
	case s.marked(dbmateMark):
		return dbmate
	case s.marked(drizzleMark):
		return drizzle
	case migrateName.MatchString(name):
		return golangMigrate
	case flywayName.MatchString(name):
		return flyway
	}
	if name == "migration.sql" {
		if _, ok := s.beside("../migration_lock.toml"); ok || prismaFolder.MatchString(path.Base(folder)) {
			return prisma
		}
	}
	if _, ok := s.beside("meta/_journal.json"); ok {
		return drizzle
	}
	return nil
}

// marked reports whether a file has marks, none of them within a string or a name. Marks within a string are data,
// which must not get comments.
func (s *Source) marked(mark *regexp.Regexp) bool {
	at := mark.FindAllStringIndex(s.Text, -1)
	if at == nil {
		return false
	}
	for l := (parse.Lexer{Text: []byte(s.Text), UTF8: utf8.ValidString(s.Text)}); ; {
		kind := l.Next()
		for kind != parse.BadToken && len(at) > 0 && at[0][0] < l.Start {
			at = at[1:]
		}
		switch {
		case len(at) == 0:
			return true
		case kind == parse.BadToken || at[0][0] < l.Pos:
			return false
		}
	}
}

// passages splits a file as its tool does; a file without a tool is one session.
func (s *Source) passages() []passage {
	if t := toolOf(s); t != nil {
		return t.passages(t, s)
	}
	return []passage{{to: len(s.Text), begins: true}}
}

// marked splits a text at each match of mark, which belongs to no passage. turn gets the
// submatches, and returns the passage after the mark.
func marked(text string, mark *regexp.Regexp, first passage, turn func(last passage, said []string) passage) []passage {
	all := []passage{first}
	for _, at := range mark.FindAllStringSubmatchIndex(text, -1) {
		last := &all[len(all)-1]
		var said []string
		for i := 2; i+1 < len(at); i += 2 {
			said = append(said, text[at[i]:at[i+1]])
		}
		last.to = at[0]
		next := turn(*last, said)
		next.from = at[1]
		all = append(all, next)
	}
	all[len(all)-1].to = len(text)
	return all
}

// goosePassages splits at -- +goose Up and Down. Each half is a transaction unless the file has NO
// TRANSACTION. The text between StatementBegin and StatementEnd is one multi-statement query.
func goosePassages(t *tool, s *Source) []passage {
	wrapped := true
	for _, m := range gooseMark.FindAllStringSubmatch(s.Text, -1) {
		wrapped = wrapped && m[1] != "NO TRANSACTION"
	}
	half := running{tool: t, wrapped: wrapped}
	return marked(s.Text, gooseMark, passage{begins: true, how: half}, func(last passage, said []string) passage {
		next := passage{how: half}
		next.how.down = last.how.down
		switch said[0] {
		case "Up", "Down":
			next.begins, next.how.down = true, said[0] == "Down"
		case "StatementBegin", "StatementEnd":
			// Without a transaction the tool runs each passage in its own session.
			next.begins, next.how.whole = !wrapped, !wrapped && said[0] == "StatementBegin"
		}
		return next
	})
}

// dbmatePassages splits at -- migrate:up and down. Each half is one multi-statement query, in a
// transaction unless the mark has transaction:false.
func dbmatePassages(t *tool, s *Source) []passage {
	return marked(s.Text, dbmateMark, passage{begins: true, how: running{tool: t, wrapped: true}}, func(_ passage, said []string) passage {
		wrapped := !strings.Contains(said[1], "transaction:false")
		return passage{begins: true, how: running{tool: t, down: said[0] == "down", wrapped: wrapped, whole: !wrapped}}
	})
}

var drizzleMark = regexp.MustCompile(regexp.QuoteMeta(breakpoint))

// drizzlePassages splits at breakpoints; all parts are in one transaction.
func drizzlePassages(t *tool, s *Source) []passage {
	how := running{tool: t, wrapped: true}
	return marked(s.Text, drizzleMark, passage{begins: true, how: how}, func(passage, []string) passage {
		return passage{how: how}
	})
}

// stringPassages returns the file as one multi-statement query.
func stringPassages(t *tool, s *Source) []passage {
	return []passage{{to: len(s.Text), begins: true, how: running{tool: t, down: strings.HasSuffix(s.Path, ".down.sql"), whole: true}}}
}

var flywayAlone = regexp.MustCompile(`(?mi)^[ \t]*executeInTransaction[ \t]*=[ \t]*false[ \t\r]*$`)

// flywayPassages returns the file as one transaction, unless its configuration file disables that.
func flywayPassages(t *tool, s *Source) []passage {
	name := path.Base(s.Path)
	conf, _ := s.beside(name + ".conf")
	how := running{tool: t, down: strings.HasPrefix(name, "U"), wrapped: !flywayAlone.MatchString(conf)}
	return []passage{{to: len(s.Text), begins: true, how: how}}
}
