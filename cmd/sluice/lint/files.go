package lint

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/rewrite"
	sqlfile "github.com/sluice-proxy/sluice/rewrite/lint"
)

// lintPath lints one argument: a file, a folder, or - for standard input.
func (r *lintReport) lintPath(planner *rewrite.Planner, name string, stdin io.Reader) error {
	info, err := os.Stat(name)
	if name == "-" || err != nil || !info.IsDir() {
		return r.lintFile(planner.NewLinter(), name, stdin)
	}
	files, others, err := findMigrations(name)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return cli.AsRuntimeError(fmt.Errorf("%s: no SQL file in it; %s not read", name, cli.FormatCount(len(others), "file")))
	}
	linter := planner.NewLinter()
	for _, file := range files {
		if err := r.lintFile(linter, file, nil); err != nil {
			return err
		}
	}
	r.NotRead = append(r.NotRead, others...)
	return nil
}

// lintFile lints one SQL file, which is an argument of the command or in a folder that is one.
func (r *lintReport) lintFile(linter *rewrite.Linter, name string, stdin io.Reader) error {
	text, err := cli.ReadInput(name, stdin)
	if err != nil {
		return err
	}
	if isStatementLog(text) {
		if r.fix {
			return fmt.Errorf("%s: a log of statements cannot be fixed: give --fix the files that the statements are from", name)
		}
		r.lintLog(linter, name, text)
		return nil
	}
	source := sqlfile.SourceFile{Text: text}
	if name != "-" {
		source.Path = filepath.ToSlash(name)
		source.ReadSibling = func(other string) (string, bool) {
			text, err := cli.ReadRegularFile(filepath.Join(filepath.Dir(name), filepath.FromSlash(other)))
			return text, err == nil
		}
	}
	if !r.fix {
		r.addFindings(name, sqlfile.LintFile(linter, source))
		return nil
	}
	linted, err := sqlfile.FixFile(linter, source)
	if err != nil {
		return cli.AsRuntimeError(fmt.Errorf("%s is left as it is: %w", name, err))
	}
	r.addFindings(name, linted)
	if name == "-" || linted.Text != text {
		r.fixed = append(r.fixed, fixedFile{name, linted.Text})
	}
	return nil
}

// lintLog lints the statements in a PostgreSQL log one by one, because the log mixes sessions.
func (r *lintReport) lintLog(linter *rewrite.Linter, name, text string) {
	var all sqlfile.FileResult
	for s := range statementsInLog(text) {
		all.Statements++
		for _, f := range linter.LintStatements(s.SQL) {
			line := s.Line + strings.Count(s.SQL[:min(f.At, len(s.SQL))], "\n")
			all.Findings = append(all.Findings, sqlfile.PlacedFinding{Finding: f, Line: line, Status: sqlfile.StatusOf(&f)})
		}
	}
	r.addFindings(name, all)
}

// findMigrations returns the SQL files in a folder and its subfolders, in the order in which migration tools run them,
// and the other files. findMigrations omits hidden files, node_modules, and files of tools that are not migrations.
func findMigrations(folder string) (files, others []string, err error) {
	root := filepath.Clean(folder) + string(filepath.Separator) // the separator follows a link to a folder
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case path != root && (strings.HasPrefix(name, ".") || name == "node_modules"):
			if entry.IsDir() {
				return filepath.SkipDir
			}
		case entry.IsDir() || isToolFile(path):
		case strings.EqualFold(filepath.Ext(name), ".sql") && !isSpecialFile(path):
			files = append(files, path)
		default:
			others = append(others, path)
		}
		return nil
	})
	byVersion := func(a, b string) int { return sqlfile.CompareMigrations(filepath.ToSlash(a), filepath.ToSlash(b)) }
	slices.SortFunc(files, byVersion)
	slices.SortFunc(others, byVersion)
	return files, others, err
}

// isSpecialFile reports whether a path is a pipe, a socket or a device.
func isSpecialFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// isToolFile reports whether a file belongs to a migration tool: Drizzle's journal and snapshots,
// Prisma's lock, Flyway's settings of a file.
func isToolFile(path string) bool {
	name := filepath.Base(path)
	return name == "migration_lock.toml" || strings.HasSuffix(name, ".sql.conf") ||
		filepath.Base(filepath.Dir(path)) == "meta" && (name == "_journal.json" || strings.HasSuffix(name, "_snapshot.json"))
}

// fixedFile is the name of an SQL file and the text that sluice lint --fix writes to it.
type fixedFile struct{ name, text string }

// write replaces the file's text, with the same mode, by a rename, so that readers see the old text or the new text.
// The text of standard input goes to stdout.
func (f fixedFile) write(stdout io.Writer) error {
	if f.name == "-" {
		_, err := io.WriteString(stdout, f.text)
		return err
	}
	path, err := filepath.EvalSymlinks(f.name) // a link stays a link
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: no regular file; give --fix - and standard input", f.name)
	}
	made, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if _, err = made.WriteString(f.text); err == nil {
		err = made.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = made.Sync()
	}
	if cerr := made.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(made.Name(), path)
	}
	if err != nil {
		os.Remove(made.Name())
	}
	return err
}
