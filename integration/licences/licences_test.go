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
	files, err := generateFiles(root)
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
	if kinds, err := classifyLicence(string(body)); err != nil || !slices.Equal(kinds, []string{"Apache-2.0"}) {
		t.Errorf("LICENSE is %v, %v; want Apache-2.0", kinds, err)
	}
}

func TestWhatTheParserContainsIsFound(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	found, err := gatherLicences(root, []string{"libgcc", "musl"})
	if err != nil {
		t.Fatal(err)
	}
	for what, kind := range map[string]string{
		"pg_query_go/v6/parser":               "PostgreSQL", // a file between package and module
		"parser/xxhash.c":                     "BSD",
		"parser/src_backend_parser_gram.c":    "GPL with Bison exception",
		"parser/src_port_strlcpy.c":           "ISC",
		"The Go standard library and runtime": "BSD",
		"musl":                                "MIT",
		"libgcc":                              "GPL with GCC Runtime Library Exception",
	} {
		ok := slices.ContainsFunc(found.licences, func(l *licenceText) bool {
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
		"GNU General Public License with the GCC Runtime Library Exception":                                                    "",
		"GNU Affero General Public License":                                                                                    "",
		"GNU Lesser General Public License. Redistribution and use in source and binary forms":                                 "",
		"All rights reserved.": "",
		"":                     "",
	} {
		kinds, err := classifyLicence(text)
		if got := strings.Join(kinds, ", "); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// What the linker took in is read in its map; glibc, or anything else, is an error.
func TestLinked(t *testing.T) {
	t.Parallel()
	const goObject, startup = "LOAD /tmp/go-link-1/000000.o\n", "LOAD /usr/lib/x86_64-linux-musl/rcrt1.o\n"
	const musl = "/usr/lib/x86_64-linux-musl/libc.a(free.lo)\n"
	for text, want := range map[string]string{
		goObject + startup + musl: "musl",
		goObject + "LOAD /home/x/musl-arm64/usr/lib/aarch64-linux-musl/crti.o\n" +
			"/usr/lib/gcc-cross/aarch64-linux-gnu/12/libgcc.a(lse-init.o)\n": "libgcc musl",
		musl + "/usr/lib/gcc/x86_64-linux-gnu/12/libgcc_eh.a(unwind-dw2.o)\n": "libgcc musl",
		startup + "/usr/lib/x86_64-linux-gnu/libc.a(malloc.o)\n":              "",
		startup + "/usr/lib/x86_64-linux-gnu/libstdc++.a(x.o)\n":              "",
		startup + "LOAD /usr/lib/x86_64-linux-gnu/crt1.o\n":                   "",
		startup + "LOAD /opt/lib/own.o\n":                                     "",
		goObject:                                                              "", // not linked statically
		"":                                                                    "",
	} {
		file := filepath.Join(t.TempDir(), "map")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names, err := librariesInMap(file)
		if got := strings.Join(names, " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
