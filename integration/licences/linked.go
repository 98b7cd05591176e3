package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// libraries are the C libraries that the binary may contain, with a pattern of the linker's names for their parts. The
// directory texts has the licence of each. glibc is not allowed: its LGPL-2.1 obliges a distributor of the binary to
// supply sources and means to relink.
var libraries = []struct {
	part *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`-linux-musl/(lib[a-z]+\.a|r?crt[1in]\.o)$`), "musl"},
	{regexp.MustCompile(`/gcc(-cross)?/[^/]+/[0-9.]+/libgcc(_eh)?\.a$`), "libgcc"},
}

var (
	archiveMember = regexp.MustCompile(`^(/\S+\.a)\(\S+\)(\s|$)`)
	loaded        = regexp.MustCompile(`^LOAD (/\S+\.o)$`)
	ofGo          = regexp.MustCompile(`/go-link-\d+/[^/]+\.o$`) // compiled from what go list tells
)

// linkedLibraries links the program as it is shipped, and returns the C libraries in it.
func linkedLibraries(root string) ([]string, error) {
	dir, err := os.MkdirTemp("", "licences-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command(filepath.Join(root, ".ci", "build"), dir, runtime.GOARCH)
	cmd.Env = append(os.Environ(), "PROGRAMS=sluice")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf(".ci/build: %w\n%s", err, out)
	}
	return librariesInMap(filepath.Join(dir, "sluice.map"))
}

// librariesInMap returns the C libraries of which the linker has used parts, from the linker's map in file. A part of
// a library that libraries does not list is an error.
func librariesInMap(file string) ([]string, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var names []string
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		part := ""
		if m := archiveMember.FindStringSubmatch(lines.Text()); m != nil {
			part = m[1]
		} else if m := loaded.FindStringSubmatch(lines.Text()); m != nil && !ofGo.MatchString(m[1]) {
			part = m[1]
		}
		if part == "" {
			continue
		}
		name := libraryOfPart(part)
		if name == "" {
			return nil, fmt.Errorf("the linker took parts of %s, which is none of the libraries whose licences are known", part)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if !slices.Contains(names, "musl") {
		return nil, fmt.Errorf("%s: no C library among %v: is it the map of a static program?", file, names)
	}
	return names, nil
}

func libraryOfPart(part string) string {
	for _, l := range libraries {
		if l.part.MatchString(filepath.ToSlash(part)) {
			return l.name
		}
	}
	return ""
}

// addLibraries adds the licences of C libraries.
func (f *licenceFindings) addLibraries(root string, names []string) error {
	for _, name := range names {
		body, err := os.ReadFile(filepath.Join(root, "integration", "licences", "texts", name+".txt"))
		if err != nil {
			return err
		}
		if err := f.addLicence(strings.TrimSpace(string(body)), name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
