package parse

import (
	"bytes"
	"slices"
	"strings"
)

// Lexed is one token of a text.
type Lexed struct {
	Kind       Token
	Start, End int32
}

// Phrase holds the tokens of a statement, for rules to edit.
type Phrase struct {
	Text   []byte // the whole text
	Tokens []Lexed
}

// LexPhrase returns the tokens from start to end of a text that has passed the guard.
func LexPhrase(text []byte, start, end int) Phrase {
	p := Phrase{Text: text}
	for l := (Lexer{Text: text[:end], Pos: start, UTF8: true}); ; {
		kind := l.Next()
		if kind == EndToken || kind == BadToken {
			return p
		}
		p.Tokens = append(p.Tokens, Lexed{kind, int32(l.Start), int32(l.Pos)})
	}
}

// Tokens caches the tokens of the statement that rules currently read. The zero value is empty.
type Tokens struct {
	start, end int
	phrase     Phrase
}

// Of returns the tokens of the statement between two offsets of a text. It lexes again if the last call was for another
// statement. All calls must be for one text.
func (t *Tokens) Of(text []byte, start, end int) Phrase {
	if t.phrase.Text == nil || t.start != start || t.end != end {
		t.start, t.end, t.phrase = start, end, LexPhrase(text, start, end)
	}
	return t.phrase
}

// Lexeme returns the text of token i, nil beyond the end.
func (p *Phrase) Lexeme(i int) []byte {
	if i < 0 || i >= len(p.Tokens) {
		return nil
	}
	return p.Text[p.Tokens[i].Start:p.Tokens[i].End]
}

// Word reports whether token i is the keyword lower, in any case.
func (p *Phrase) Word(i int, lower string) bool {
	return i >= 0 && i < len(p.Tokens) && p.Tokens[i].Kind == WordToken && IsWord(p.Lexeme(i), lower)
}

// Words reports whether the keywords lower begin at token i.
func (p *Phrase) Words(i int, lower ...string) bool {
	for n, w := range lower {
		if !p.Word(i+n, w) {
			return false
		}
	}
	return true
}

// Name reports whether token i may be a name.
func (p *Phrase) Name(i int) bool {
	return i >= 0 && i < len(p.Tokens) && (p.Tokens[i].Kind == WordToken || p.Tokens[i].Kind == QuotedToken)
}

// Punct reports whether token i is the byte of punctuation c.
func (p *Phrase) Punct(i int, c byte) bool {
	return i >= 0 && i < len(p.Tokens) && p.Tokens[i].Kind == PunctToken && p.Text[p.Tokens[i].Start] == c
}

// Pairs returns, for each parenthesis and bracket token, its counterpart; -1 for other tokens and without a
// counterpart.
func (p *Phrase) Pairs() []int32 {
	pairs := make([]int32, len(p.Tokens))
	var open []int32
	for i := range p.Tokens {
		pairs[i] = -1
		switch {
		case p.Punct(i, '('), p.Punct(i, '['):
			open = append(open, int32(i))
		case len(open) > 0 && (p.Punct(i, ')') || p.Punct(i, ']')):
			last := open[len(open)-1]
			open = open[:len(open)-1]
			pairs[i], pairs[last] = last, int32(i)
		}
	}
	return pairs
}

// At returns the token that begins at an offset of the text, or -1.
func (p *Phrase) At(offset int) int {
	i, ok := slices.BinarySearchFunc(p.Tokens, offset, func(t Lexed, o int) int { return int(t.Start) - o })
	if !ok {
		return -1
	}
	return i
}

// Replace returns the edit that replaces token i by text. The text becomes lower case if the token is.
func (p *Phrase) Replace(i int, text string) Edit {
	return Edit{int(p.Tokens[i].Start), int(p.Tokens[i].End), p.Like(i, text)}
}

// Remove returns the edit that removes token i and the blanks before it. Line ends stay, because
// they may end a comment.
func (p *Phrase) Remove(i int) Edit {
	start := int(p.Tokens[i].Start)
	for start > 0 && (p.Text[start-1] == ' ' || p.Text[start-1] == '\t') {
		start--
	}
	return Edit{start, int(p.Tokens[i].End), ""}
}

// Insert returns the edit that inserts text after token i.
func (p *Phrase) Insert(i int, text string) Edit {
	end := int(p.Tokens[i].End)
	return Edit{end, end, p.Like(i, text)}
}

// Like returns upper-case text in the case of token i.
func (p *Phrase) Like(i int, text string) string {
	for _, c := range p.Lexeme(i) {
		if 'A' <= c && c <= 'Z' {
			return text
		}
	}
	return strings.ToLower(text)
}

// Span returns the text from token i up to token end, exclusive.
func (p *Phrase) Span(i, end int) string {
	if i >= end || end > len(p.Tokens) {
		return ""
	}
	return string(p.Text[p.Tokens[i].Start:p.Tokens[end-1].End])
}

// Punctuated reports whether token i is the given operator.
func (p *Phrase) Punctuated(i int, operator string) bool { return string(p.Lexeme(i)) == operator }

// ColumnToken returns the token of the column's name in a command of ALTER TABLE that begins at
// token i: ALTER or DROP or ADD, COLUMN, IF [NOT] EXISTS, name.
func (p *Phrase) ColumnToken(i int) int {
	i++
	if p.Word(i, "column") {
		i++
	}
	switch {
	case p.Words(i, "if", "exists") && p.Name(i+2):
		return i + 2
	case p.Words(i, "if", "not", "exists"):
		return i + 3
	}
	return i
}

// Closing returns the ) of the ( at token i, or -1.
func (p *Phrase) Closing(i int) int {
	if !p.Punct(i, '(') {
		return -1
	}
	for depth := 0; i < len(p.Tokens); i++ {
		switch {
		case p.Punct(i, '('):
			depth++
		case p.Punct(i, ')'):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// Listed returns the tokens of the names in a parenthesized list that opens at token i; none if the
// list has other content.
func (p *Phrase) Listed(i int) []int {
	var names []int
	for end := p.Closing(i); i < end; i += 2 {
		if !p.Name(i+1) || i+2 != end && !p.Punct(i+2, ',') {
			return nil
		}
		names = append(names, i+1)
	}
	return names
}

// Ends returns the last token of the item that begins at token i and ends at a comma or a closing
// parenthesis of its own depth, or at the end.
func (p *Phrase) Ends(i int) int {
	for depth := 0; i < len(p.Tokens); i++ {
		switch {
		case p.Punct(i, '(') || p.Punct(i, '['):
			depth++
		case p.Punct(i, ')') || p.Punct(i, ']'):
			if depth--; depth < 0 {
				return i - 1
			}
		case depth == 0 && p.Punct(i, ','):
			return i - 1
		}
	}
	return i - 1
}

// Qualified returns the token after a name with any number of dots that begins at token i.
func (p *Phrase) Qualified(i int) int {
	for p.Punct(i+1, '.') {
		i += 2
	}
	return i + 1
}

// ItemEnd returns the last token of an item, which begins at token i, of a list without
// parentheses. pair returns the partner of a parenthesis or bracket, or -1.
func (p *Phrase) ItemEnd(i int, pair func(int) int) int {
	if i < 0 {
		return -1
	}
	for first := i; i < len(p.Tokens); i++ {
		switch {
		case p.Punct(i, '('), p.Punct(i, '['):
			if i = pair(i); i < 0 {
				return -1
			}
		case p.Punct(i, ','), p.Punct(i, ')'), p.Punct(i, ']'), p.Punct(i, ';'):
			return i - 1
		case i > first && p.Tokens[i].Kind == WordToken && afterItems[strings.ToLower(string(p.Lexeme(i)))] &&
			!p.Punct(i-1, '.') && !p.Word(i-1, "as") && !p.Word(i-1, "distinct") && !p.Word(i-1, "within"):
			return i - 1
		}
	}
	return i - 1
}

// afterItems are the words that end the last item of a list without parentheses.
var afterItems = map[string]bool{"from": true, "where": true, "group": true, "having": true, "window": true, "order": true,
	"limit": true, "offset": true, "fetch": true, "for": true, "union": true, "intersect": true, "except": true,
	"into": true, "returning": true}

// Commented reports whether there are comments among the tokens.
func (p *Phrase) Commented() bool {
	from := 0
	for _, t := range p.Tokens {
		if len(bytes.TrimSpace(p.Text[from:t.Start])) > 0 {
			return true
		}
		from = int(t.End)
	}
	return false
}

// Next returns the first token from i on that is the word lower, or -1.
func (p *Phrase) Next(i int, lower string) int {
	for ; i < len(p.Tokens); i++ {
		if p.Word(i, lower) {
			return i
		}
	}
	return -1
}

// Precise returns the edit that appends digits to the name of a type that begins at token i.
func (p *Phrase) Precise(i int, digits string) Edit {
	last := p.Tokens[p.Qualified(i)-1]
	return Edit{int(last.Start), int(last.End), string(p.Text[last.Start:last.End]) + digits}
}
