package lint

import (
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// This file reads files of SQL as migration tools do. It finds the parts of a file that do or undo a migration, and the
// transactions in which the tool runs the parts.

// SourceFile is an SQL file for LintFile or FixFile.
type SourceFile struct {
	Path string // the file's path, with slashes; "" if unknown
	Text string
	// ReadSibling returns the text of another file, by its path relative to this file's folder. It is nil if no other
	// files are available. Some migration tools have settings for a file in another file.
	ReadSibling func(name string) (text string, ok bool)
}

// readSibling returns the text of another file in the folder of s. ok is false if the file is missing.
func (s *SourceFile) readSibling(name string) (text string, ok bool) {
	if s.ReadSibling == nil {
		return "", false
	}
	return s.ReadSibling(name)
}

// migrationTool is a tool that runs migrations, for example goose or Flyway.
type migrationTool struct {
	name string
	// records reports that the tool, in the transaction of a file, also writes a row that the file was run.
	records bool
	// up and down are advice on how the tool runs each statement in its own transaction. up is for parts that do a
	// migration, down for parts that undo one.
	up, down string
	// split divides a file of the tool into its parts.
	split func(t *migrationTool, s *SourceFile) []filePart
}

func (t *migrationTool) remedy(down bool) string {
	if down && t.down != "" {
		return t.down
	}
	return t.up
}

// runMode says how a migration tool runs a part of a file.
type runMode struct {
	// tool is the migration tool that runs this part. If nil, the statements are sent one by one, as psql does.
	tool *migrationTool
	down bool // the part undoes a migration
	// wrapped reports that the migration tool begins a transaction before the part and commits it after the part.
	wrapped bool
	// whole reports that the migration tool sends the part as one multi-statement query. Outside of a block, all its
	// statements are one transaction.
	whole bool
}

// transaction describes the transaction in which the migration tool runs the part of a file.
func (r *runMode) transaction() rewrite.ScriptTransaction {
	if r.tool == nil {
		return rewrite.ScriptTransaction{}
	}
	return rewrite.ScriptTransaction{Wrapped: r.wrapped, Whole: r.whole, Records: r.tool.records, Remedy: r.tool.remedy(r.down)}
}

// filePart is a part of a file. No statement begins in a part and ends in another.
type filePart struct {
	from, to int  // the byte offsets in the file
	begins   bool // the migration tool opens a new session for the part
	how      runMode
}

const ofItsOwn = "run each statement in a transaction of its own: "

var (
	goose = &migrationTool{name: "goose", records: true, split: splitGooseFile,
		up: ofItsOwn + "put -- +goose NO TRANSACTION at the top of the file; goose notes its version in the same transaction otherwise"}
	dbmate = &migrationTool{name: "dbmate", records: true, split: splitDbmateFile,
		up:   ofItsOwn + "write -- migrate:up transaction:false, and leave one DDL statement in the file; dbmate notes its version in the same transaction otherwise",
		down: ofItsOwn + "write -- migrate:down transaction:false, and leave one DDL statement in the file; dbmate notes its version in the same transaction otherwise"}
	drizzle = &migrationTool{name: "Drizzle", records: true, split: splitDrizzleFile,
		up: ofItsOwn + "Drizzle's migrator has no switch for that, and runs all files that are due in one transaction with a row of its own; run the files by psql -f"}
	golangMigrate = &migrationTool{name: "golang-migrate", split: splitAsOneQuery,
		up: ofItsOwn + "add x-multi-statement=true to the URL of the database, which splits the file at each semicolon; or leave one statement in the file"}
	prisma = &migrationTool{name: "Prisma", split: splitAsOneQuery,
		up: ofItsOwn + "Prisma sends the file as one string and has no switch for that; leave one DDL statement in each migration.sql"}
	flyway = &migrationTool{name: "Flyway", split: splitFlywayFile,
		up: ofItsOwn + "put executeInTransaction=false into a file beside it, of its name with .conf behind"}
)

var (
	gooseMark    = regexp.MustCompile(`(?m)^--[ \t]*\+goose (Up|Down|NO TRANSACTION|StatementBegin|StatementEnd)[ \t\r]*$`)
	dbmateMark   = regexp.MustCompile(`(?m)^--[ \t]*migrate:(up|down)\b(.*)$`)
	flywayName   = regexp.MustCompile(`^(?:[VU][0-9]+(?:[._][0-9]+)*__.+|R__.+)\.sql$`)
	migrateName  = regexp.MustCompile(`^[0-9]+_.*\.(up|down)\.sql$`)
	prismaFolder = regexp.MustCompile(`^[0-9]{14}_`)
)

// breakpoint is the text at which the migration tool Drizzle splits a file.
const breakpoint = "--> statement-breakpoint"

// detectTool returns the migration tool of a file, by the file's comments, name or folder, or nil if it finds none.
func detectTool(s *SourceFile) *migrationTool {
	folder, name := path.Split(s.Path)
	switch {
	case s.hasMarks(gooseMark):
		return goose
	case s.hasMarks(dbmateMark):
		return dbmate
	case s.hasMarks(drizzleMark):
		return drizzle
	case migrateName.MatchString(name):
		return golangMigrate
	case flywayName.MatchString(name):
		return flyway
	}
	if name == "migration.sql" {
		if _, ok := s.readSibling("../migration_lock.toml"); ok || prismaFolder.MatchString(path.Base(folder)) {
			return prisma
		}
	}
	if _, ok := s.readSibling("meta/_journal.json"); ok {
		return drizzle
	}
	return nil
}

// hasMarks reports whether a file has matches of mark, a migration tool's comment, outside of strings and quoted names.
// If a match is inside a string, the result is false: the match is data, and FixFile must not add comments there.
func (s *SourceFile) hasMarks(mark *regexp.Regexp) bool {
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

// splitParts splits a file as its migration tool does. If detectTool finds no tool, the file is one part.
func (s *SourceFile) splitParts() []filePart {
	if t := detectTool(s); t != nil {
		return t.split(t, s)
	}
	return []filePart{{to: len(s.Text), begins: true}}
}

// splitAtMarks splits a text at each match of mark, and no part contains the match. For each match it calls turn with
// the part before the match and the match's submatches. turn returns the part after the match.
func splitAtMarks(text string, mark *regexp.Regexp, first filePart, turn func(last filePart, said []string) filePart) []filePart {
	all := []filePart{first}
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

// splitGooseFile splits a file of goose at -- +goose Up and Down. goose runs each half in a transaction, unless the
// file has NO TRANSACTION. The text between StatementBegin and StatementEnd is one multi-statement query.
func splitGooseFile(t *migrationTool, s *SourceFile) []filePart {
	wrapped := true
	for _, m := range gooseMark.FindAllStringSubmatch(s.Text, -1) {
		wrapped = wrapped && m[1] != "NO TRANSACTION"
	}
	half := runMode{tool: t, wrapped: wrapped}
	return splitAtMarks(s.Text, gooseMark, filePart{begins: true, how: half}, func(last filePart, said []string) filePart {
		next := filePart{how: half}
		next.how.down = last.how.down
		switch said[0] {
		case "Up", "Down":
			next.begins, next.how.down = true, said[0] == "Down"
		case "StatementBegin", "StatementEnd":
			// If goose uses no transaction, each part runs in its own session.
			next.begins, next.how.whole = !wrapped, !wrapped && said[0] == "StatementBegin"
		}
		return next
	})
}

// splitDbmateFile splits a file of dbmate at -- migrate:up and down. dbmate sends each half as one multi-statement
// query. It does so in a transaction, unless the mark has transaction:false.
func splitDbmateFile(t *migrationTool, s *SourceFile) []filePart {
	return splitAtMarks(s.Text, dbmateMark, filePart{begins: true, how: runMode{tool: t, wrapped: true}}, func(_ filePart, said []string) filePart {
		wrapped := !strings.Contains(said[1], "transaction:false")
		return filePart{begins: true, how: runMode{tool: t, down: said[0] == "down", wrapped: wrapped, whole: !wrapped}}
	})
}

var drizzleMark = regexp.MustCompile(regexp.QuoteMeta(breakpoint))

// splitDrizzleFile splits a file of Drizzle at its breakpoints. Drizzle runs all parts in one transaction.
func splitDrizzleFile(t *migrationTool, s *SourceFile) []filePart {
	how := runMode{tool: t, wrapped: true}
	return splitAtMarks(s.Text, drizzleMark, filePart{begins: true, how: how}, func(filePart, []string) filePart {
		return filePart{how: how}
	})
}

// splitAsOneQuery returns the file as one part, which the migration tool sends as one multi-statement query.
func splitAsOneQuery(t *migrationTool, s *SourceFile) []filePart {
	return []filePart{{to: len(s.Text), begins: true, how: runMode{tool: t, down: strings.HasSuffix(s.Path, ".down.sql"), whole: true}}}
}

var flywayAlone = regexp.MustCompile(`(?mi)^[ \t]*executeInTransaction[ \t]*=[ \t]*false[ \t\r]*$`)

// splitFlywayFile returns the file as one part, which Flyway runs in a transaction unless the .conf file forbids it.
func splitFlywayFile(t *migrationTool, s *SourceFile) []filePart {
	name := path.Base(s.Path)
	conf, _ := s.readSibling(name + ".conf")
	how := runMode{tool: t, down: strings.HasPrefix(name, "U"), wrapped: !flywayAlone.MatchString(conf)}
	return []filePart{{to: len(s.Text), begins: true, how: how}}
}
