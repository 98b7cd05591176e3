package parse

// copiedTokens bounds the tokens that the parser may repeat. It repeats the source of "SET (a, b) =
// source" for each target, and sources may be nested: 549 bytes made a tree of 517 MB (measured).
// PostgreSQL accepts up to 1,664 targets; a hundred of them with a source of 600 tokens pass.
const copiedTokens = 64 << 10

// repeats is a level's state of these assignments.
type repeats struct {
	// copies is how often the parser repeats the current tokens, and around how often the level.
	copies, around int
	// target: the level may be the targets; members counts them, without the first.
	target  bool
	members int
}

// inside returns the state of a new level.
func (r repeats) inside(target bool) repeats {
	return repeats{copies: r.copies, around: r.copies, target: target}
}

// copying counts repeated tokens while a text is read.
type copying struct {
	copied  int
	assigns bool    // the last token was SET or a comma, which targets may follow
	closed  repeats // of the level that was closed last
	ended   bool    // by the last token, a parenthesis
}

// count counts a token, and finds the start and end of copies: after "(a, b) =", up to a comma,
// WHERE, RETURNING, or the end of the level. In doubt it counts more.
func (m *measure) count(kind Token, lexeme []byte, dotted bool) {
	top := m.top()
	m.copied = min(m.copied+top.copies-1, copiedTokens+1)
	switch {
	case kind == OperatorToken && m.ended && m.closed.target && lexeme[0] == '=':
		top.copies = min(top.copies*(m.closed.members+1), copiedTokens+2)
	case kind == WordToken && !dotted && (IsWord(lexeme, "where") || IsWord(lexeme, "returning")),
		kind == PunctToken && lexeme[0] == ';':
		top.copies = top.around
	}
}

// follow records the context of the next token.
func (m *measure) follow(kind Token, lexeme []byte) {
	comma := kind == PunctToken && lexeme[0] == ','
	m.assigns = comma || kind == WordToken && IsWord(lexeme, "set")
	m.ended = kind == PunctToken && lexeme[0] == ')'
	if comma {
		top := m.top()
		top.copies = top.around
		top.members++
	}
}
