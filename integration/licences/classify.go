package main

import (
	"fmt"
	"strings"
)

// accepted are the licences that Sluice may contain, each with a phrase that
// only texts of its family have. They ask for their text to be passed on and,
// MPL-2.0, for the source of changed files: nothing of Sluice's own source.
var accepted = []struct{ kind, phrase string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"Apache-2.0", "licensed under the apache license, version 2.0"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD", "redistribution and use in source and binary forms"},
	{"ISC", "distribute this software for any purpose with or without fee is hereby granted"},
	{"PostgreSQL", "without fee, and without a written agreement is hereby granted"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	// Parsers made by Bison: its skeleton is GPL, with leave to use it in these.
	{"GPL with Bison exception", "as a special exception, you may create a larger work that contains part or all of the bison parser skeleton"},
	// Parts of libgcc, which the compiler brings along: GPL, with leave to contain them.
	{"GPL with GCC Runtime Library Exception", "you have permission to propagate a work of target code formed by combining the runtime library with independent modules"},
}

// refusedPhrase is in every licence of the GPL family.
const refusedPhrase = "general public license"

// classify names the licences in a text.
func classify(text string) ([]string, error) {
	words := normalize(text)
	var kinds []string
	excepted := false
	for _, a := range accepted {
		if strings.Contains(words, a.phrase) && (len(kinds) == 0 || kinds[len(kinds)-1] != a.kind) {
			kinds = append(kinds, a.kind)
			excepted = excepted || strings.HasPrefix(a.kind, "GPL with ")
		}
	}
	switch {
	case strings.Contains(words, refusedPhrase) && !excepted:
		return nil, fmt.Errorf("a licence of the GPL family")
	case len(kinds) == 0:
		return nil, fmt.Errorf("none of the accepted licences")
	}
	return kinds, nil
}

// normalize leaves the words: lower case, single spaces, no comment marks.
func normalize(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r == '*' || r == '/' || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	}), " ")
}
