package parse

import (
	"bytes"
	"unicode/utf8"
)

// GuardReason is the reason why CheckLimits (the guard) does not let a text reach the parser.
type GuardReason uint8

// These are all results of CheckLimits. Fits means that the parser may get the text. Reasons is the number of results.
const (
	Fits GuardReason = iota
	TooLong
	TooDeep
	NotText // the text has a NUL, invalid UTF-8, or a constant or comment without an end
	Reasons
)

// DefaultMaxBytes is the default limit of a text's length in bytes, and DefaultMaxNesting that of its nesting depth.
const (
	DefaultMaxBytes   = 2 << 20
	DefaultMaxNesting = 2000
)

// bytesPerToken is how many bytes of the limit maxBytes each token of a text uses up. The parser needs up to 500 bytes
// of memory and 2 µs for each token (measured). Usual texts have four bytes or more per token.
const bytesPerToken = 2

// queryDepth is how many nesting levels a query in parentheses counts for. The parse tree of a query has more and
// larger levels than the tree of an expression.
const queryDepth = 3

// CheckLimits returns Fits if the parser may get a text, otherwise the reason against it. The parser is recursive C
// code that does not check its stack, so a text that nests too deep would end the process. CheckLimits is iterative. In
// doubt it refuses a text.
func CheckLimits(sql []byte, maxBytes, maxNesting int) GuardReason {
	if len(sql) > maxBytes {
		return TooLong
	}
	if bytes.IndexByte(sql, 0) >= 0 || !utf8.Valid(sql) {
		return NotText
	}
	_, why := treeDepthBound(sql, maxNesting, maxBytes/bytesPerToken)
	return why
}

// nestingLevel is an open level of nesting in a text: the text itself, a parenthesis, a bracket or a CASE.
//
// The depth of a level's tree is the number of its links (joins, set operations) plus the depth of its deepest
// expression. The depth of an expression is the length of its chain of operators plus the depth of the deepest level in
// it. Members of a list are siblings, so they do not add up.
type nestingLevel struct {
	kind  byte // '(', '[', 'c' for CASE, 0 for the text itself
	query bool
	links int
	// The next fields describe the current expression: its number of operators, whether it has AND, and whether it has
	// OR. The last one is the depth of its deepest closed level. Any number of ANDs makes one node of the tree.
	chain, and, or, within int

	copyState

	deepest int // the depth of the deepest earlier expression
	before  int // the depth of the deepest earlier statement
}

// depth returns the depth of the parse tree for the nesting level, as far as the text was read.
func (l *nestingLevel) depth() int {
	d := l.links + max(l.deepest, l.expressionDepth())
	if l.query {
		d += queryDepth
	}
	return max(d, l.before)
}

func (l *nestingLevel) expressionDepth() int { return l.chain + l.and + l.or + l.within }

// endExpression ends the current expression of the nesting level. The next expression is a sibling of it, so their
// depths do not add up.
func (l *nestingLevel) endExpression() {
	l.deepest = max(l.deepest, l.expressionDepth())
	l.chain, l.and, l.or, l.within = 0, 0, 0, 0
}

// nestingMeter measures the nesting of a text for CheckLimits. It holds the stack of open levels.
type nestingMeter struct {
	levels []nestingLevel
	max    int
	copyCounter
}

// treeDepthBound returns an upper bound of the depth of a text's parse tree, in levels of nesting. It stops with a
// reason at a depth of max, or after tokens tokens.
//
// The length of a list does not add to the depth: comma lists, AND, OR, successive subscripts, dots, rows of VALUES,
// statements, the arms of a CASE.
func treeDepthBound(sql []byte, max, tokens int) (int, GuardReason) {
	l := Lexer{Text: sql, UTF8: true}
	m := nestingMeter{levels: make([]nestingLevel, 1, 16), max: max}
	m.levels[0].copyState = copyState{copies: 1, around: 1}
	var dotted, as bool // dotted: the previous token was a dot; as: it was AS
	for ; ; tokens-- {
		deeper := true
		kind := l.Next()
		m.countCopies(kind, l.Lexeme(), dotted)
		if tokens < 0 || m.copied > copiedTokens {
			return 0, TooLong
		}
		switch kind {
		case EndToken:
			m.closeLevels(0)
			return m.levels[0].depth(), m.checkDepth()
		case BadToken:
			return 0, NotText
		case WordToken:
			deeper = !dotted && m.countWord(RoleOfWord(l.Lexeme()), as)
		case OperatorToken:
			m.topLevel().chain += countOperators(l.Lexeme())
		case CastToken:
			m.topLevel().chain++
		case PunctToken:
			deeper = m.countPunct(sql[l.Start])
		default:
			deeper = false
		}
		dotted = kind == PunctToken && sql[l.Start] == '.'
		m.recordContext(kind, l.Lexeme())
		as = kind == WordToken && IsWord(l.Lexeme(), "as")
		if deeper && m.checkDepth() != Fits {
			return 0, TooDeep
		}
	}
}

func (m *nestingMeter) topLevel() *nestingLevel { return &m.levels[len(m.levels)-1] }

func (m *nestingMeter) checkDepth() GuardReason {
	if len(m.levels) > m.max || m.topLevel().depth() > m.max {
		return TooDeep
	}
	return Fits
}

// countWord counts a word, and reports whether the text's parse tree became deeper. as means that the previous word is
// AS, so this word may be a column's name. CASE or END as a name opens or closes no CASE.
func (m *nestingMeter) countWord(r WordRole, as bool) bool {
	switch top := m.topLevel(); {
	case r&(linked|querying) != 0:
		// These words never occur directly in a CASE, so a CASE that is still open was a name. It is closed here.
		m.closeLevels(0)
		top = m.topLevel()
		if r&linked != 0 {
			top.links++
		}
		if r&querying != 0 {
			top.query = true
		}
	case r&chained != 0:
		top.chain++
	case r&conjunction != 0:
		top.and = 1
	case r&disjunction != 0:
		top.or = 1
	case as:
		return false
	case r&caseBegin != 0:
		m.levels = append(m.levels, nestingLevel{kind: 'c', copyState: top.nestedState(false)})
	case r&caseArm != 0 && top.kind == 'c':
		top.endExpression()
		return false
	case r&caseEnd != 0 && top.kind == 'c':
		m.popLevel()
	default:
		return false
	}
	return true
}

// countPunct counts a byte of punctuation, and reports whether the text's parse tree became deeper.
func (m *nestingMeter) countPunct(c byte) bool {
	switch c {
	case '(', '[':
		m.levels = append(m.levels, nestingLevel{kind: c, copyState: m.topLevel().copyState.nestedState(c == '(' && m.assigns)})
	case ')':
		m.closeLevels('(')
	case ']':
		m.closeLevels('[')
	case ',', ';':
		m.closeLevels(0)
		top := m.topLevel()
		top.endExpression()
		if c == ';' {
			*top = nestingLevel{kind: top.kind, before: top.depth(), copyState: top.copyState}
		}
	default:
		return false
	}
	return true
}

// closeLevels closes every CASE at the top of the stack of nesting levels. It then closes the top level if that has the
// given kind. A bracket without a counterpart remains open, because the text is invalid SQL anyway.
func (m *nestingMeter) closeLevels(kind byte) {
	for m.topLevel().kind == 'c' {
		m.popLevel()
	}
	if kind != 0 && m.topLevel().kind == kind {
		m.popLevel()
	}
}

// popLevel removes the top nesting level from the stack, and adds its depth to the level below.
func (m *nestingMeter) popLevel() {
	depth := m.topLevel().depth() + 1
	if m.topLevel().kind != '(' {
		depth++ // an arm of a CASE and a subscript are separate nodes
	}
	m.closed = m.topLevel().copyState
	m.levels = m.levels[:len(m.levels)-1]
	m.topLevel().within = max(m.topLevel().within, depth)
}
