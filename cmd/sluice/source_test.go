package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/sluice-proxy/sluice"

// A sourceFile is one Go file of the module. Tests share it: nobody changes it.
type sourceFile struct {
	name    string // path from the module's root
	dir     string // of the package, with slashes
	test    bool
	text    []byte
	fset    *token.FileSet
	syntax  *ast.File // with comments
	imports []string
}

// sourceFiles returns every file of the module. A module of its own below it is
// not part of it.
func sourceFiles(t *testing.T) []sourceFile {
	t.Helper()
	files, err := readSourceFiles()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d files found: the walk is broken", len(files))
	}
	return files
}

var readSourceFiles = sync.OnceValues(func() (files []sourceFile, err error) {
	root := filepath.Join("..", "..")
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, otherModule := os.Stat(filepath.Join(name, "go.mod"))
			foreign := entry.Name() == "testdata" || entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".")
			if name != root && (foreign || otherModule == nil) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		file, err := parseSource(filepath.ToSlash(rel), text)
		files = append(files, file)
		return err
	})
	return files, err
})

// parseSource parses a file that has this path from the module's root.
func parseSource(name string, text []byte) (sourceFile, error) {
	file := sourceFile{name: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), text: text, fset: token.NewFileSet()}
	var err error
	if file.syntax, err = parser.ParseFile(file.fset, name, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return file, err
	}
	for _, spec := range file.syntax.Imports {
		imported, unquoted := strconv.Unquote(spec.Path.Value)
		file.imports, err = append(file.imports, imported), errors.Join(err, unquoted)
	}
	return file, err
}
