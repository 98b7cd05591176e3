package main

import (
	"fmt"
	"strings"
)

// acceptedLicences are the licences that Sluice may contain, each with a phrase that only texts of its family have. The
// licences require that their text is passed on, and MPL-2.0 requires the source of changed files. No accepted licence
// requires Sluice's own source.
var acceptedLicences = []struct{ kind, phrase string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"Apache-2.0", "licensed under the apache license, version 2.0"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD", "redistribution and use in source and binary forms"},
	{"ISC", "distribute this software for any purpose with or without fee is hereby granted"},
	{"PostgreSQL", "without fee, and without a written agreement is hereby granted"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	// A parser made by Bison contains Bison's skeleton, which is GPL with an exception for such parsers.
	{"GPL with Bison exception", "as a special exception, you may create a larger work that contains part or all of the bison parser skeleton"},
	// The compiler adds parts of libgcc, which is GPL with an exception for programs that contain these parts.
	{"GPL with GCC Runtime Library Exception", "you have permission to propagate a work of target code formed by combining the runtime library with independent modules"},
}

// refusedPhrase is a phrase in every licence of the GPL family.
const refusedPhrase = "general public license"

// classifyLicence returns the kinds of the licences in a text.
func classifyLicence(text string) ([]string, error) {
	words := normalizeText(text)
	var kinds []string
	excepted := false
	for _, a := range acceptedLicences {
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

// normalizeText returns the words of a text in lower case, with single spaces and without comment marks.
func normalizeText(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r == '*' || r == '/' || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	}), " ")
}
