package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFilesAreUpToDate(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: go run ./integration/licences", name)
		}
	}
}

func TestOwnLicence(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	if kinds, err := classify(string(body)); err != nil || !slices.Equal(kinds, []string{"Apache-2.0"}) {
		t.Errorf("LICENSE is %v, %v; want Apache-2.0", kinds, err)
	}
}

func TestWhatTheParserContainsIsFound(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	found, err := gather(root)
	if err != nil {
		t.Fatal(err)
	}
	for what, kind := range map[string]string{
		"pg_query_go/v6/parser":               "PostgreSQL", // a file between package and module
		"parser/xxhash.c":                     "BSD",
		"parser/src_backend_parser_gram.c":    "GPL with Bison exception",
		"parser/src_port_strlcpy.c":           "ISC",
		"The Go standard library and runtime": "BSD",
	} {
		ok := slices.ContainsFunc(found.licences, func(l *text) bool {
			return slices.Contains(l.kinds, kind) && slices.ContainsFunc(l.covers, func(c string) bool { return strings.HasSuffix(c, what) })
		})
		if !ok {
			t.Errorf("no %s licence of %s", kind, what)
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"                    Apache License\n   Version 2.0, January 2004":                                                     "Apache-2.0",
		"Permission is hereby granted, free of charge,\nto any person obtaining a copy":                                        "MIT",
		"/* Redistribution and use in source and binary\n * forms */":                                                          "BSD",
		"Permission to use, copy, modify, and distribute this software for any purpose\nwith or without fee is hereby granted": "ISC",
		"Mozilla Public License Version 2.0":                                                                                   "MPL-2.0",
		"GNU General Public License, version 3":                                                                                "",
		"GNU Affero General Public License":                                                                                    "",
		"GNU Lesser General Public License. Redistribution and use in source and binary forms":                                 "",
		"All rights reserved.": "",
		"":                     "",
	} {
		kinds, err := classify(text)
		if got := strings.Join(kinds, ", "); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
