package parse

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Edit replaces the bytes from start to end of a text.
type Edit struct {
	Start, End int
	Text       string
}

// Apply changes a text, and brings the edits into order. ok is false, and nothing is changed, where
// two of them overlap or one lies outside of the text.
func Apply(text string, edits []Edit) (made string, ok bool) {
	if !Ordered(edits, 0, len(text)) {
		return "", false
	}
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(text[at:e.Start])
		b.WriteString(e.Text)
		at = e.End
	}
	b.WriteString(text[at:])
	return b.String(), true
}

// Ordered brings edits into order. It reports false where two of them overlap, or one is not within the
// bytes from start to end.
func Ordered(edits []Edit, start, end int) bool {
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Start - b.Start })
	at := start
	for _, e := range edits {
		if e.Start < at || e.End < e.Start {
			return false
		}
		at = e.End
	}
	return at <= end
}

// Edited is the text that Apply makes, and "" where it makes none.
func Edited(text string, edits []Edit) string {
	made, _ := Apply(text, edits)
	return made
}

// offsetBefore maps an offset in the text that the edits made to one in the text
// before; what an edit put in is where that edit begins.
func offsetBefore(edits []Edit, offset int) int {
	shift := 0 // of what lies behind the edits so far: after = before + shift
	for _, e := range edits {
		begin := e.Start + shift
		if offset < begin {
			break
		}
		if offset < begin+len(e.Text) {
			return e.Start
		}
		shift += len(e.Text) - (e.End - e.Start)
	}
	return offset - shift
}

// PositionBefore maps a position as servers tell them, in characters from 1. One
// that lies outside the text stays.
func PositionBefore(before, after string, edits []Edit, position int) int {
	offset, ok := ByteOffset(after, position)
	if !ok {
		return position
	}
	return utf8.RuneCountInString(before[:offsetBefore(edits, offset)]) + 1
}

// ByteOffset finds the character at a position counted from 1; the one behind
// the last is the end.
func ByteOffset(text string, position int) (int, bool) {
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
