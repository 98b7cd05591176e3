package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if len(os.Args) == 4 && os.Args[1] == "sbom" {
		return writeBOM(root, os.Args[2], os.Args[3])
	}
	files, err := generateFiles(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// moduleRoot returns the directory of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// generateFiles returns the contents of the files to write, by name.
func generateFiles(root string) (map[string][]byte, error) {
	names, err := linkedLibraries(root)
	if err != nil {
		return nil, err
	}
	found, err := gatherLicences(root, names)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"NOTICE":               formatNotice(found.notices),
		"THIRD_PARTY_LICENSES": formatLicences(found.licences),
	}, nil
}

const rule = "--------------------------------------------------------------------------------\n"

// formatNotice returns Sluice's notice, followed by the notices that must be passed on under Apache-2.0, section 4(d).
func formatNotice(texts []*licenceText) []byte {
	var b bytes.Buffer
	b.WriteString("Sluice\nCopyright 2026 The Sluice authors\n\n" +
		"Licensed under the Apache License, Version 2.0; see LICENSE. The binary contains\n" +
		"other software as well, among it the C library musl and parts of GCC's libgcc; see\n" +
		"THIRD_PARTY_LICENSES. Of that, these notices:\n")
	for _, t := range texts {
		fmt.Fprintf(&b, "\n%s%s\n%s\n%s\n", rule, strings.Join(t.covers, "\n"), rule, t.body)
	}
	return b.Bytes()
}

func formatLicences(texts []*licenceText) []byte {
	var b bytes.Buffer
	b.WriteString("The sluice binary contains the software below, under these licences.\n" +
		"Made by: go run ./integration/licences\n")
	for _, t := range texts {
		fmt.Fprintf(&b, "\n%s%s\n\n%s\n%s\n%s\n", rule, strings.Join(t.kinds, ", "), strings.Join(t.covers, "\n"), rule, t.body)
	}
	return b.Bytes()
}
