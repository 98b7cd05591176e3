package parse

import (
	"bytes"
	"slices"
	"strings"
)

// LexedToken is one token of a text. Start and End are byte offsets in the text.
type LexedToken struct {
	Kind       TokenKind
	Start, End int32
}

// TokenList holds the tokens of a statement. Rewriting rules read them, and make edits from them.
type TokenList struct {
	Text   []byte // the client's whole text, which may have several statements
	Tokens []LexedToken
}

// LexTokens returns the tokens between the offsets start and end of a text. CheckLimits must have accepted the text.
func LexTokens(text []byte, start, end int) TokenList {
	p := TokenList{Text: text}
	for l := (Lexer{Text: text[:end], Pos: start, UTF8: true}); ; {
		kind := l.Next()
		if kind == EndToken || kind == BadToken {
			return p
		}
		p.Tokens = append(p.Tokens, LexedToken{kind, int32(l.Start), int32(l.Pos)})
	}
}

// TokenCache caches the tokens of the statement that the rewriting rules read at present. The zero TokenCache is empty.
type TokenCache struct {
	start, end int
	phrase     TokenList
}

// StatementTokens returns the tokens of the statement between two offsets of a text. It lexes again if the last call
// was for another statement. All calls must be for the same text.
func (t *TokenCache) StatementTokens(text []byte, start, end int) TokenList {
	if t.phrase.Text == nil || t.start != start || t.end != end {
		t.start, t.end, t.phrase = start, end, LexTokens(text, start, end)
	}
	return t.phrase
}

// Lexeme returns the text of token i, or nil if there is no token i.
func (p *TokenList) Lexeme(i int) []byte {
	if i < 0 || i >= len(p.Tokens) {
		return nil
	}
	return p.Text[p.Tokens[i].Start:p.Tokens[i].End]
}

// IsKeyword reports whether token i is the keyword lower, in any letter case.
func (p *TokenList) IsKeyword(i int, lower string) bool {
	return i >= 0 && i < len(p.Tokens) && p.Tokens[i].Kind == WordToken && IsWord(p.Lexeme(i), lower)
}

// AreKeywords reports whether the tokens from i on are the keywords lower, in this order and in any letter case.
func (p *TokenList) AreKeywords(i int, lower ...string) bool {
	for n, w := range lower {
		if !p.IsKeyword(i+n, w) {
			return false
		}
	}
	return true
}

// IsName reports whether token i may be a name: an unquoted word or a quoted name.
func (p *TokenList) IsName(i int) bool {
	return i >= 0 && i < len(p.Tokens) && (p.Tokens[i].Kind == WordToken || p.Tokens[i].Kind == QuotedToken)
}

// IsPunct reports whether token i is the byte of punctuation c.
func (p *TokenList) IsPunct(i int, c byte) bool {
	return i >= 0 && i < len(p.Tokens) && p.Tokens[i].Kind == PunctToken && p.Text[p.Tokens[i].Start] == c
}

// BracketPairs returns, for each parenthesis or bracket token, the index of its counterpart. The index is -1 for other
// tokens, and for a bracket without a counterpart.
func (p *TokenList) BracketPairs() []int32 {
	pairs := make([]int32, len(p.Tokens))
	var open []int32
	for i := range p.Tokens {
		pairs[i] = -1
		switch {
		case p.IsPunct(i, '('), p.IsPunct(i, '['):
			open = append(open, int32(i))
		case len(open) > 0 && (p.IsPunct(i, ')') || p.IsPunct(i, ']')):
			last := open[len(open)-1]
			open = open[:len(open)-1]
			pairs[i], pairs[last] = last, int32(i)
		}
	}
	return pairs
}

// TokenAt returns the index of the token that begins at a byte offset of the text, or -1 if none does.
func (p *TokenList) TokenAt(offset int) int {
	i, ok := slices.BinarySearchFunc(p.Tokens, offset, func(t LexedToken, o int) int { return int(t.Start) - o })
	if !ok {
		return -1
	}
	return i
}

// Replace returns the edit that replaces token i by text, which is in upper case. If token i is in lower case, text
// becomes lower case.
func (p *TokenList) Replace(i int, text string) Edit {
	return Edit{int(p.Tokens[i].Start), int(p.Tokens[i].End), p.MatchCase(i, text)}
}

// Remove returns the edit that removes token i and the blanks before the token. The edit leaves line ends, because a
// line end may end a comment.
func (p *TokenList) Remove(i int) Edit {
	start := int(p.Tokens[i].Start)
	for start > 0 && (p.Text[start-1] == ' ' || p.Text[start-1] == '\t') {
		start--
	}
	return Edit{start, int(p.Tokens[i].End), ""}
}

// InsertAfter returns the edit that inserts text after token i, in the letter case of token i.
func (p *TokenList) InsertAfter(i int, text string) Edit {
	end := int(p.Tokens[i].End)
	return Edit{end, end, p.MatchCase(i, text)}
}

// MatchCase returns text in the letter case of token i. text must be in upper case.
func (p *TokenList) MatchCase(i int, text string) string {
	for _, c := range p.Lexeme(i) {
		if 'A' <= c && c <= 'Z' {
			return text
		}
	}
	return strings.ToLower(text)
}

// TextBetween returns the text from token i to the token before end.
func (p *TokenList) TextBetween(i, end int) string {
	if i >= end || end > len(p.Tokens) {
		return ""
	}
	return string(p.Text[p.Tokens[i].Start:p.Tokens[end-1].End])
}

// IsOperator reports whether token i is the given operator, such as =.
func (p *TokenList) IsOperator(i int, operator string) bool { return string(p.Lexeme(i)) == operator }

// ColumnNameToken returns the index of the column's name in a command of ALTER TABLE. The command begins at token i:
// ALTER or DROP or ADD, COLUMN, IF [NOT] EXISTS, name.
func (p *TokenList) ColumnNameToken(i int) int {
	i++
	if p.IsKeyword(i, "column") {
		i++
	}
	switch {
	case p.AreKeywords(i, "if", "exists") && p.IsName(i+2):
		return i + 2
	case p.AreKeywords(i, "if", "not", "exists"):
		return i + 3
	}
	return i
}

// ClosingParen returns the index of the parenthesis that closes the one at token i, or -1 if none does.
func (p *TokenList) ClosingParen(i int) int {
	if !p.IsPunct(i, '(') {
		return -1
	}
	for depth := 0; i < len(p.Tokens); i++ {
		switch {
		case p.IsPunct(i, '('):
			depth++
		case p.IsPunct(i, ')'):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// ListedNames returns the token indexes of the names in a list. Token i is the list's opening parenthesis. ListedNames
// returns nil if the list has anything but names.
func (p *TokenList) ListedNames(i int) []int {
	var names []int
	for end := p.ClosingParen(i); i < end; i += 2 {
		if !p.IsName(i+1) || i+2 != end && !p.IsPunct(i+2, ',') {
			return nil
		}
		names = append(names, i+1)
	}
	return names
}

// ParenItemEnd returns the last token of the list item that begins at token i. The item ends before a comma or a
// closing parenthesis at its own depth, or at the last token.
func (p *TokenList) ParenItemEnd(i int) int {
	for depth := 0; i < len(p.Tokens); i++ {
		switch {
		case p.IsPunct(i, '(') || p.IsPunct(i, '['):
			depth++
		case p.IsPunct(i, ')') || p.IsPunct(i, ']'):
			if depth--; depth < 0 {
				return i - 1
			}
		case depth == 0 && p.IsPunct(i, ','):
			return i - 1
		}
	}
	return i - 1
}

// AfterQualifiedName returns the index of the token after the name that begins at token i. The name may have dots.
func (p *TokenList) AfterQualifiedName(i int) int {
	for p.IsPunct(i+1, '.') {
		i += 2
	}
	return i + 1
}

// BareItemEnd returns the last token of a list item that begins at token i, in a list without parentheses. pair returns
// the counterpart of a parenthesis or bracket, or -1.
func (p *TokenList) BareItemEnd(i int, pair func(int) int) int {
	if i < 0 {
		return -1
	}
	for first := i; i < len(p.Tokens); i++ {
		switch {
		case p.IsPunct(i, '('), p.IsPunct(i, '['):
			if i = pair(i); i < 0 {
				return -1
			}
		case p.IsPunct(i, ','), p.IsPunct(i, ')'), p.IsPunct(i, ']'), p.IsPunct(i, ';'):
			return i - 1
		case i > first && p.Tokens[i].Kind == WordToken && afterItems[strings.ToLower(string(p.Lexeme(i)))] &&
			!p.IsPunct(i-1, '.') && !p.IsKeyword(i-1, "as") && !p.IsKeyword(i-1, "distinct") && !p.IsKeyword(i-1, "within"):
			return i - 1
		}
	}
	return i - 1
}

// afterItems are the words that may follow the last item of a list without parentheses, and so end the item.
var afterItems = map[string]bool{"from": true, "where": true, "group": true, "having": true, "window": true, "order": true,
	"limit": true, "offset": true, "fetch": true, "for": true, "union": true, "intersect": true, "except": true,
	"into": true, "returning": true}

// HasComments reports whether a comment precedes one of the tokens.
func (p *TokenList) HasComments() bool {
	from := 0
	for _, t := range p.Tokens {
		if len(bytes.TrimSpace(p.Text[from:t.Start])) > 0 {
			return true
		}
		from = int(t.End)
	}
	return false
}

// NextKeyword returns the index of the first token at or after i that is the keyword lower, or -1 if there is none.
func (p *TokenList) NextKeyword(i int, lower string) int {
	for ; i < len(p.Tokens); i++ {
		if p.IsKeyword(i, lower) {
			return i
		}
	}
	return -1
}

// AppendToTypeName returns the edit that appends digits to the type name that begins at token i.
func (p *TokenList) AppendToTypeName(i int, digits string) Edit {
	last := p.Tokens[p.AfterQualifiedName(i)-1]
	return Edit{int(last.Start), int(last.End), string(p.Text[last.Start:last.End]) + digits}
}
