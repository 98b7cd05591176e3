package schema

import (
	"bytes"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// IsSystem reports whether a schema belongs to the server, so that users cannot create objects in it.
func IsSystem(schema string) bool {
	return strings.HasPrefix(schema, "pg_") || schema == "information_schema" || schema == "sys"
}

// isKnownRelation reports whether a name denotes a relation of the snapshot or of the server. If the search path is
// unknown, a relation of that name in any schema suffices.
func (n *NameResolver) isKnownRelation(schema, name string) bool {
	if schema != "" {
		return n.schema.relations[relationName{schema, name}] != nil || IsSystem(schema)
	}
	if n.path == nil {
		return n.schema.known[name]
	}
	r, _ := n.FindRelation("", name)
	return r != nil
}

// LacksAnyTable reports whether the snapshot lacks at least one of a statement's tables. A name may contain a schema,
// as in the text.
func (n *NameResolver) LacksAnyTable(tables []string) bool {
	for _, table := range tables {
		if !n.isKnownRelation(splitTable(table)) {
			return true
		}
	}
	return false
}

// splitTable splits a table name at its dots. It returns the last two parts, and "" as schema for a name without a dot.
func splitTable(table string) (schema, name string) {
	parts := strings.Split(table, ".")
	if len(parts) > 1 {
		schema = parts[len(parts)-2]
	}
	return schema, parts[len(parts)-1]
}

// relationNameScanner finds the tokens of a text that may be names of relations.
type relationNameScanner struct {
	names *NameResolver
	// awaits reports that the next token may be a relation's name. called reports that a parenthesis after the name
	// would make it a function's name.
	awaits, called bool
	// behind reports that the scanner has passed the first token of the current statement.
	behind bool
	// lists has one bit for each depth of parentheses. The bit is set if a relation follows a comma at this depth.
	lists uint64
	depth uint
	// in is the relation's name that the scanner is reading, with its schema.
	in struct {
		schema, name         [parse.MaxName]byte
		schemaLen, nameLen   int
		reading, dot, called bool
	}
}

// NeedsParse reports whether Sluice must parse a text to plan it. It must if the text may concern mapped columns
// (MayConcernMapped), or may name a relation that the snapshot lacks. False positives are possible.
func (n *NameResolver) NeedsParse(sql []byte) bool {
	s := relationNameScanner{names: n}
	for l := (parse.Lexer{Text: sql}); ; {
		kind := l.Next()
		if kind == parse.BadToken || n.tokenMayBeMapped(kind, l.Lexeme()) || s.scanToken(kind, l.Lexeme()) {
			return true
		}
		if kind == parse.EndToken {
			return false
		}
	}
}

// scanToken processes a token of a text. It returns true if the text may name a relation that the snapshot lacks.
func (s *relationNameScanner) scanToken(kind parse.TokenKind, lexeme []byte) bool {
	if s.in.reading {
		switch {
		case s.in.dot && (kind == parse.WordToken || kind == parse.QuotedToken):
			s.in.schema, s.in.schemaLen = s.in.name, s.in.nameLen
			s.in.dot = false
			return !s.storeName(kind, lexeme)
		case kind == parse.PunctToken && lexeme[0] == '.' && !s.in.dot:
			s.in.dot = true
			return false
		}
		s.in.reading = false
		if s.in.dot || !s.isCall(kind, lexeme) && !s.isKnown() {
			return true
		}
	}
	first := !s.behind
	s.behind = kind != parse.PunctToken || lexeme[0] != ';'
	switch kind {
	case parse.WordToken:
		// A CREATE or ALTER may name the relation at any position, which only the parse tree shows.
		return first && (parse.IsWord(lexeme, "create") || parse.IsWord(lexeme, "alter")) || s.scanWord(lexeme)
	case parse.QuotedToken:
		if s.awaits {
			return s.beginName(kind, lexeme)
		}
	case parse.PunctToken:
		return s.scanPunct(lexeme[0])
	default:
		s.awaits = false
	}
	return false
}

// isCall reports whether the name before this token is a function's name, because the token is an opening parenthesis.
func (s *relationNameScanner) isCall(kind parse.TokenKind, lexeme []byte) bool {
	return kind == parse.PunctToken && lexeme[0] == '(' && !s.in.called
}

func (s *relationNameScanner) isKnown() bool {
	return s.names.isKnownRelation(string(s.in.schema[:s.in.schemaLen]), string(s.in.name[:s.in.nameLen]))
}

// beginName starts to read a relation's name. It returns true if Sluice cannot read the name, which may then be
// unknown.
func (s *relationNameScanner) beginName(kind parse.TokenKind, lexeme []byte) bool {
	s.in.reading, s.in.dot, s.in.called, s.in.schemaLen = true, false, s.called, 0
	s.awaits, s.called = false, false
	return !s.storeName(kind, lexeme)
}

// storeName stores a name as PostgreSQL reads it. It returns false for a name that contains quotes or is too long.
func (s *relationNameScanner) storeName(kind parse.TokenKind, lexeme []byte) bool {
	if kind == parse.QuotedToken {
		lexeme = lexeme[1 : len(lexeme)-1]
		for _, c := range lexeme {
			if c == '"' {
				return false
			}
		}
		if len(lexeme) > parse.MaxName {
			return false
		}
		s.in.nameLen = copy(s.in.name[:], lexeme)
		return true
	}
	if len(lexeme) > parse.MaxName {
		return false
	}
	s.in.nameLen = len(parse.FoldName(s.in.name[:0], lexeme))
	return true
}

// scanWord processes an unquoted word outside of a relation's name. It returns true if the text may name a relation
// that the snapshot lacks.
func (s *relationNameScanner) scanWord(lexeme []byte) bool {
	switch {
	case parse.IsWord(lexeme, "from"), parse.IsWord(lexeme, "using"):
		s.awaits, s.called = true, false
		s.lists |= 1 << s.depth
	case parse.IsWord(lexeme, "join"), parse.IsWord(lexeme, "copy"):
		s.awaits, s.called = true, parse.IsWord(lexeme, "copy")
	case parse.IsWord(lexeme, "into"), parse.IsWord(lexeme, "update"), parse.IsWord(lexeme, "table"):
		s.awaits, s.called = true, true
	case parse.IsWord(lexeme, "where"), parse.IsWord(lexeme, "group"), parse.IsWord(lexeme, "order"), parse.IsWord(lexeme, "having"), parse.IsWord(lexeme, "window"),
		parse.IsWord(lexeme, "limit"), parse.IsWord(lexeme, "returning"), parse.IsWord(lexeme, "union"), parse.IsWord(lexeme, "intersect"), parse.IsWord(lexeme, "except"):
		s.lists &^= 1 << s.depth
		s.awaits = false
	case s.awaits && (parse.IsWord(lexeme, "only") || parse.IsWord(lexeme, "lateral")):
	case parse.IsWord(lexeme, "select"), parse.IsWord(lexeme, "values"), parse.IsWord(lexeme, "with"), parse.IsWord(lexeme, "set"), parse.IsWord(lexeme, "skip"), parse.IsWord(lexeme, "nowait"), parse.IsWord(lexeme, "of"):
		s.awaits = false
	case s.awaits:
		return s.beginName(parse.WordToken, lexeme)
	}
	return false
}

// scanPunct processes a byte of punctuation outside of a relation's name. It returns true if parentheses nest too
// deeply for the field lists.
func (s *relationNameScanner) scanPunct(c byte) bool {
	switch c {
	case '(':
		if s.depth++; s.depth == 64 {
			return true
		}
		s.lists &^= 1 << s.depth
		if s.awaits {
			s.lists |= 1 << s.depth
		}
		return false
	case ')':
		if s.depth > 0 {
			s.depth--
		}
		s.awaits = false
	case ',':
		s.awaits, s.called = s.lists&(1<<s.depth) != 0, false
	case ';':
		s.awaits, s.lists = false, 0
	default:
		s.awaits = false
	}
	return false
}

// MayMentionMapped reports whether a text that Sluice cannot parse may name a relation with mapped columns (bytea
// stored as text). It searches for the names as substrings. A nil slice is a text that Sluice does not know, which may
// name any relation.
func (n *NameResolver) MayMentionMapped(sql []byte) bool {
	if n == nil || len(n.schema.mapped) == 0 {
		return false
	}
	small := bytes.ToLower(sql)
	if sql == nil || bytes.Contains(small, []byte(`u&"`)) {
		return true
	}
	for name := range n.schema.mapped {
		quoted := strings.ReplaceAll(strings.ToLower(name), `"`, `""`)
		if bytes.Contains(small, []byte(quoted)) {
			return true
		}
	}
	return false
}

// MayMapAny reports whether one of a statement's tables may have mapped columns (bytea stored as text).
func (n *NameResolver) MayMapAny(tables []string) bool {
	return slices.ContainsFunc(tables, func(table string) bool {
		r, known := n.FindRelation(splitTable(table))
		return !known || r != nil && r.HasMapped()
	})
}

// MayUseMappedTable reports whether one of a statement's tables has the same name as a relation with mapped columns
// (bytea stored as text), in any schema.
func (n *NameResolver) MayUseMappedTable(tables []string) bool {
	return slices.ContainsFunc(tables, func(table string) bool {
		_, name := splitTable(table)
		return n.schema.mapped[name]
	})
}

// MayBeChanged reports whether DDL over the tables in changed may have made a statement's tables differ from the
// snapshot. It may have if the snapshot lacks one of tables, if one may have mapped columns, or if tables and changed
// share a name.
func (n *NameResolver) MayBeChanged(tables, changed []string) bool {
	return n.LacksAnyTable(tables) || n.MayUseMappedTable(tables) || slices.ContainsFunc(tables, func(table string) bool {
		_, name := splitTable(table)
		return slices.ContainsFunc(changed, func(other string) bool {
			_, was := splitTable(other)
			return was == name
		})
	})
}

// HasMapped reports whether any relation of the snapshot has mapped columns (bytea stored as text).
func (n *NameResolver) HasMapped() bool { return len(n.schema.mapped) > 0 }
