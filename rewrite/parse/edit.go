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

// Apply returns text with the edits applied, and sorts the edits. ok is false, and Apply applies no edit, if two edits
// overlap or one is outside of the text.
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

// SortEdits sorts edits. SortEdits returns false if two edits overlap, or if one is not within the bytes from start to
// end.
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

// EditedText returns the text that Apply returns, or "" if Apply fails.
func EditedText(text string, edits []Edit) string {
	made, _ := Apply(text, edits)
	return made
}

// originalOffset converts an offset in the edited text to an offset in the original text. For a byte that an edit
// inserted, the result is the start of that edit.
func originalOffset(edits []Edit, offset int) int {
	shift := 0 // for offsets behind the edits so far: after = before + shift
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

// OriginalPosition converts a server's position in the edited text, in characters from 1, to a position in the original
// text. A position outside the text remains as it is.
func OriginalPosition(before, after string, edits []Edit, position int) int {
	offset, ok := ByteOffset(after, position)
	if !ok {
		return position
	}
	return utf8.RuneCountInString(before[:originalOffset(edits, offset)]) + 1
}

// ByteOffset returns the byte offset of a position, in characters from 1. The position after the last character is the
// end.
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
