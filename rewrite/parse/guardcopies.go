package parse

// copiedTokens bounds the tokens that the parser may repeat. The parser repeats the source of "SET (a, b) = source" for
// each target, and sources may be nested: 549 bytes made a tree of 517 MB (measured). PostgreSQL accepts up to 1,664
// targets. A hundred targets with a source of 600 tokens pass.
const copiedTokens = 64 << 10

// copyState is the number of times that the parser repeats the tokens of one level of nesting.
type copyState struct {
	// copies is the number of times that the parser repeats the current tokens, and around that for the whole level.
	copies, around int
	// target reports that the level may be the list of targets in an assignment. members is the number of targets minus
	// one.
	target  bool
	members int
}

// nestedState returns the copyState of a new level within the level r.
func (r copyState) nestedState(target bool) copyState {
	return copyState{copies: r.copies, around: r.copies, target: target}
}

// copyCounter counts the tokens that the parser repeats, while CheckLimits reads a text.
type copyCounter struct {
	copied  int
	assigns bool      // the last token was SET or a comma, which targets may follow
	closed  copyState // of the level that was closed last
	ended   bool      // by the last token, a parenthesis
}

// countCopies counts a token, and finds the start and end of a source that the parser repeats: after "(a, b) =", up to
// a comma, WHERE, RETURNING, or the end of the level. In doubt countCopies counts more.
func (m *nestingMeter) countCopies(kind TokenKind, lexeme []byte, dotted bool) {
	top := m.topLevel()
	m.copied = min(m.copied+top.copies-1, copiedTokens+1)
	switch {
	case kind == OperatorToken && m.ended && m.closed.target && lexeme[0] == '=':
		top.copies = min(top.copies*(m.closed.members+1), copiedTokens+2)
	case kind == WordToken && !dotted && (IsWord(lexeme, "where") || IsWord(lexeme, "returning")),
		kind == PunctToken && lexeme[0] == ';':
		top.copies = top.around
	}
}

// recordContext records a token as the context of the next one.
func (m *nestingMeter) recordContext(kind TokenKind, lexeme []byte) {
	comma := kind == PunctToken && lexeme[0] == ','
	m.assigns = comma || kind == WordToken && IsWord(lexeme, "set")
	m.ended = kind == PunctToken && lexeme[0] == ')'
	if comma {
		top := m.topLevel()
		top.copies = top.around
		top.members++
	}
}
