package parse

// copiedTokens is how many tokens of a text the parser may repeat. It repeats the source of "SET (a, b) = source"
// for each target, and such sources may lie within one another: 549 bytes made a tree of 517 MB (measured).
// PostgreSQL takes up to 1,664 targets; a hundred of them with a source of 600 tokens pass.
const copiedTokens = 64 << 10

// repeats is what a level knows of such assignments.
type repeats struct {
	// copies is how often the parser has what is being read, and around how often it has the level.
	copies, around int
	// target: the level may be the targets; members counts them, but for the first.
	target  bool
	members int
}

// inside is that of a level which is opened.
func (r repeats) inside(target bool) repeats {
	return repeats{copies: r.copies, around: r.copies, target: target}
}

// copying counts, while a text is read, the tokens that the parser repeats.
type copying struct {
	copied  int
	assigns bool    // the last token was SET or a comma, behind which targets may stand
	closed  repeats // of the level that was closed last
	ended   bool    // by the last token, a parenthesis
}

// count counts a token, and finds where copies begin and end: behind "(a, b) =", up to a comma, WHERE, RETURNING,
// or the end of the level. It errs towards more.
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

// follow notes, behind a token, what the next one follows.
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
