package parse

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Edit replaces the bytes between the offsets Start and End of a text by Text.
type Edit struct {
	Start, End int
	Text       string
}

// Apply returns text after all edits, and sorts the edits. If two edits overlap, or one is outside of the text, Apply
// applies none, and ok is false.
func Apply(text string, edits []Edit) (made string, ok bool) {
	if !SortEdits(edits, 0, len(text)) {
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

// SortEdits sorts edits by position. It returns false if two edits overlap, or if one is not between the byte offsets
// start and end.
func SortEdits(edits []Edit, start, end int) bool {
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

// EditedText returns the text after all edits, or "" if two edits overlap or one is outside of the text.
func EditedText(text string, edits []Edit) string {
	made, _ := Apply(text, edits)
	return made
}

// originalOffset converts a byte offset in the edited text to one in the original text. For a byte that an edit
// inserted, it returns the start of the edit.
func originalOffset(edits []Edit, offset int) int {
	shift := 0 // the difference of the offsets in edited and original text, after the edits so far
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

// OriginalPosition converts a server's position in the edited text to a position in the original text. A position is
// the number of a character, counted from 1. If it is outside of the text, OriginalPosition returns it unchanged.
func OriginalPosition(before, after string, edits []Edit, position int) int {
	offset, ok := ByteOffset(after, position)
	if !ok {
		return position
	}
	return utf8.RuneCountInString(before[:originalOffset(edits, offset)]) + 1
}

// ByteOffset returns the byte offset of a position, the number of a character counted from 1. The position after the
// last character gives the length of the text.
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
