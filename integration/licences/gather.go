package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenceText is a licence or a notice, with the parts of the binary that it covers.
type licenceText struct {
	body   string
	kinds  []string // empty for notices
	covers []string
}

// licenceFindings are the licences and notices of the binary's parts.
type licenceFindings struct {
	licences, notices []*licenceText
}

// goPackage is the description of a package by go list.
type goPackage struct {
	Dir, ImportPath string
	Standard        bool
	CgoFiles        []string
	Module          *struct {
		Path, Dir string
		Main      bool
	}
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright)([.-](txt|md|postgresql|mit|apache|bsd))?$`)
	noticeFile  = regexp.MustCompile(`(?i)^notice(\.(txt|md))?$`)
	comment     = regexp.MustCompile(`(?s)/\*.*?\*/`)
	licensing   = regexp.MustCompile(`(?i)redistribution and use|permission to use|permission is hereby granted|general public license|special exception`)
)

// gatherLicences reads the licences of all packages in the binary, and of the given C libraries.
func gatherLicences(root string, libraries []string) (*licenceFindings, error) {
	packages, err := listPackages(root)
	if err != nil {
		return nil, err
	}
	var f licenceFindings
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	dirs := map[string]string{ // directory → name
		strings.TrimSpace(string(goroot)): "The Go standard library and runtime",
	}
	var errs []error
	modules := map[string]bool{}
	for _, p := range packages {
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		if !modules[p.Module.Dir] {
			modules[p.Module.Dir] = true
			if names, err := matchingFiles(p.Module.Dir, licenceFile); err != nil || len(names) == 0 {
				errs = append(errs, fmt.Errorf("%s has no licence file (%v)", p.Module.Path, err))
			}
		}
		for dir := p.Dir; strings.HasPrefix(dir, p.Module.Dir); dir = filepath.Dir(dir) {
			dirs[dir] = path.Join(p.Module.Path, filepath.ToSlash(strings.TrimPrefix(dir, p.Module.Dir)))
		}
		if len(p.CgoFiles) > 0 {
			errs = append(errs, f.addComments(p))
		}
	}
	// The order of the directories is fixed, because the first of several texts that differ only in spacing is used.
	byName := func(a, b string) int { return strings.Compare(dirs[a]+a, dirs[b]+b) }
	for _, dir := range slices.SortedFunc(maps.Keys(dirs), byName) {
		name := dirs[dir]
		errs = append(errs, f.addDir(dir, name))
	}
	errs = append(errs, f.addLibraries(root, libraries))
	f.sortTexts()
	return &f, errors.Join(errs...)
}

// listPackages returns the packages that the binary contains, from go list.
func listPackages(root string) ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,ImportPath,Standard,CgoFiles,Module", "./cmd/sluice")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []goPackage
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		switch err := in.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// addDir adds the licence and notice files of one directory.
func (f *licenceFindings) addDir(dir, name string) error {
	licences, err := matchingFiles(dir, licenceFile)
	if err != nil {
		return err
	}
	for _, file := range licences {
		body, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		if err := f.addLicence(string(body), name); err != nil {
			return fmt.Errorf("%s/%s: %w", name, file, err)
		}
	}
	notices, err := matchingFiles(dir, noticeFile)
	if err != nil {
		return err
	}
	for _, file := range notices {
		body, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		f.notices = addText(f.notices, string(body), nil, name)
	}
	return nil
}

// addComments adds the licences in the comments of a package's C sources, including those in its include directories.
func (f *licenceFindings) addComments(p goPackage) error {
	return filepath.WalkDir(p.Dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".c", ".h"}, filepath.Ext(file)) {
			return err
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var blocks []string
		for _, block := range comment.FindAllString(string(source), -1) {
			if licensing.MatchString(block) {
				blocks = append(blocks, strings.TrimSpace(block))
			}
		}
		if len(blocks) == 0 {
			return nil
		}
		name := path.Join(p.ImportPath, filepath.ToSlash(strings.TrimPrefix(file, p.Dir)))
		if err := f.addLicence(strings.Join(blocks, "\n\n"), name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

func (f *licenceFindings) addLicence(body, name string) error {
	kinds, err := classifyLicence(body)
	if err != nil {
		return err
	}
	f.licences = addText(f.licences, body, kinds, name)
	return nil
}

// addText appends a text. If texts already has a text with the same words, only the name of the covered part is added
// to that text.
func addText(texts []*licenceText, body string, kinds []string, name string) []*licenceText {
	for _, t := range texts {
		if normalizeText(t.body) == normalizeText(body) {
			if !slices.Contains(t.covers, name) {
				t.covers = append(t.covers, name)
			}
			return texts
		}
	}
	body = strings.Trim(strings.ReplaceAll(body, "\r\n", "\n"), "\n")
	return append(texts, &licenceText{body: body, kinds: kinds, covers: []string{name}})
}

// sortTexts sorts all texts in an order that depends on names alone.
func (f *licenceFindings) sortTexts() {
	for _, texts := range [][]*licenceText{f.licences, f.notices} {
		for _, t := range texts {
			slices.Sort(t.covers)
		}
		slices.SortFunc(texts, func(a, b *licenceText) int {
			return strings.Compare(a.covers[0]+a.body, b.covers[0]+b.body)
		})
	}
}

// matchingFiles returns the regular files of a directory whose names match.
func matchingFiles(dir string, name *regexp.Regexp) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() && name.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}
