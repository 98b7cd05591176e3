package rewrite

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// edit replaces the bytes from start to end of a text.
type edit struct {
	start, end int
	text       string
}

// applyEdits changes a text, and brings the edits into order. ok is false, and nothing is changed, where
// two of them overlap or one lies outside of the text.
func applyEdits(text string, edits []edit) (made string, ok bool) {
	if !ordered(edits, 0, len(text)) {
		return "", false
	}
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(text[at:e.start])
		b.WriteString(e.text)
		at = e.end
	}
	b.WriteString(text[at:])
	return b.String(), true
}

// ordered brings edits into order. It reports false where two of them overlap, or one is not within the
// bytes from start to end.
func ordered(edits []edit, start, end int) bool {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	at := start
	for _, e := range edits {
		if e.start < at || e.end < e.start {
			return false
		}
		at = e.end
	}
	return at <= end
}

// edited is the text that applyEdits makes, and "" where it makes none.
func edited(text string, edits []edit) string {
	made, _ := applyEdits(text, edits)
	return made
}

// errOverlap refuses a statement at one place of which two rules, or one of them twice, make a change: what
// both mean cannot be said.
var errOverlap = &Refusal{Unsent: true, Code: "0A000", Message: "cannot rewrite the statement: two changes to it overlap",
	Detail: "Nothing of the statement was sent.", Hint: "Write it in a simpler way, or in several statements, and report it."}

// offsetBefore maps an offset in the text that the edits made to one in the text
// before; what an edit put in is where that edit begins.
func offsetBefore(edits []edit, offset int) int {
	shift := 0 // of what lies behind the edits so far: after = before + shift
	for _, e := range edits {
		begin := e.start + shift
		if offset < begin {
			break
		}
		if offset < begin+len(e.text) {
			return e.start
		}
		shift += len(e.text) - (e.end - e.start)
	}
	return offset - shift
}

// positionBefore maps a position as servers tell them, in characters from 1. One
// that lies outside the text stays.
func positionBefore(before, after string, edits []edit, position int) int {
	offset, ok := byteOffset(after, position)
	if !ok {
		return position
	}
	return utf8.RuneCountInString(before[:offsetBefore(edits, offset)]) + 1
}

// byteOffset finds the character at a position counted from 1; the one behind
// the last is the end.
func byteOffset(text string, position int) (int, bool) {
	if position < 1 {
		return 0, false
	}
	n := 1
	for offset := range text {
		if n == position {
			return offset, true
		}
		n++
	}
	return len(text), n == position
}

// lexed is one token of a text.
type lexed struct {
	kind       token
	start, end int32
}

// phrase is a statement's tokens, for rules to edit.
type phrase struct {
	text   []byte // the whole text
	tokens []lexed
}

// lexPhrase reads the tokens from start to end of a text that has passed the guard.
func lexPhrase(text []byte, start, end int) phrase {
	p := phrase{text: text}
	for l := (lexer{text: text[:end], pos: start, utf8: true}); ; {
		kind := l.next()
		if kind == endToken || kind == badToken {
			return p
		}
		p.tokens = append(p.tokens, lexed{kind, int32(l.start), int32(l.pos)})
	}
}

// lexeme is the text of token i; nil beyond the end.
func (p *phrase) lexeme(i int) []byte {
	if i < 0 || i >= len(p.tokens) {
		return nil
	}
	return p.text[p.tokens[i].start:p.tokens[i].end]
}

// word reports whether token i is that keyword.
func (p *phrase) word(i int, lower string) bool {
	return i >= 0 && i < len(p.tokens) && p.tokens[i].kind == wordToken && is(p.lexeme(i), lower)
}

// words reports whether keywords stand at i.
func (p *phrase) words(i int, lower ...string) bool {
	for n, w := range lower {
		if !p.word(i+n, w) {
			return false
		}
	}
	return true
}

// name reports whether token i may be a name.
func (p *phrase) name(i int) bool {
	return i >= 0 && i < len(p.tokens) && (p.tokens[i].kind == wordToken || p.tokens[i].kind == quotedToken)
}

// punct reports whether token i is that byte of punctuation.
func (p *phrase) punct(i int, c byte) bool {
	return i >= 0 && i < len(p.tokens) && p.tokens[i].kind == punctToken && p.text[p.tokens[i].start] == c
}

// pairs says for each parenthesis and bracket which token is the other one; -1 for any other
// token, and where there is no other.
func (p *phrase) pairs() []int32 {
	pairs := make([]int32, len(p.tokens))
	var open []int32
	for i := range p.tokens {
		pairs[i] = -1
		switch {
		case p.punct(i, '('), p.punct(i, '['):
			open = append(open, int32(i))
		case len(open) > 0 && (p.punct(i, ')') || p.punct(i, ']')):
			last := open[len(open)-1]
			open = open[:len(open)-1]
			pairs[i], pairs[last] = last, int32(i)
		}
	}
	return pairs
}

// at finds the token that begins at an offset of the text; -1 for none.
func (p *phrase) at(offset int) int {
	i, ok := slices.BinarySearchFunc(p.tokens, offset, func(t lexed, o int) int { return int(t.start) - o })
	if !ok {
		return -1
	}
	return i
}

// replace puts text in the place of token i, in small letters where it was so.
func (p *phrase) replace(i int, text string) edit {
	return edit{int(p.tokens[i].start), int(p.tokens[i].end), p.like(i, text)}
}

// remove takes token i out, and the blanks before it; line ends stay, for they
// may end a comment.
func (p *phrase) remove(i int) edit {
	start := int(p.tokens[i].start)
	for start > 0 && (p.text[start-1] == ' ' || p.text[start-1] == '\t') {
		start--
	}
	return edit{start, int(p.tokens[i].end), ""}
}

// insert puts text behind token i.
func (p *phrase) insert(i int, text string) edit {
	end := int(p.tokens[i].end)
	return edit{end, end, p.like(i, text)}
}

// like writes upper-case text as token i is written.
func (p *phrase) like(i int, text string) string {
	for _, c := range p.lexeme(i) {
		if 'A' <= c && c <= 'Z' {
			return text
		}
	}
	return strings.ToLower(text)
}
