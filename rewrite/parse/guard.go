package parse

import (
	"bytes"
	"unicode/utf8"
)

// GuardReason is the reason why CheckLimits, the guard, refuses to give a text to the parser.
type GuardReason uint8

// These are all results of CheckLimits. Fits means that the text may be parsed, and Reasons is the number of reasons.
const (
	Fits GuardReason = iota
	TooLong
	TooDeep
	NotText // a NUL, invalid UTF-8, or a constant or comment without an end
	Reasons
)

// DefaultMaxBytes and DefaultMaxNesting are the default limits of CheckLimits.
const (
	DefaultMaxBytes   = 2 << 20
	DefaultMaxNesting = 2000
)

// bytesPerToken is the number of bytes of the limit maxBytes that each token of a text counts for. The parser needs up
// to 500 bytes and 2 µs for each token (measured). Usual texts have four bytes or more per token.
const bytesPerToken = 2

// queryDepth is the number of nesting levels that a query in parentheses counts for. The parse tree of a query has more
// and larger levels than that of an expression.
const queryDepth = 3

// CheckLimits returns Fits if a text of at most maxBytes may go to the parser, otherwise the reason. The parser is
// recursive C code without a check of its stack, so a deep text would end the process. CheckLimits is iterative, and in
// doubt refuses a text.
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
// The tree over a level is as deep as its links (joins, set operations) plus its deepest expression. An expression is
// as deep as its chain of operators plus the deepest level within. Members of lists are beside each other.
type nestingLevel struct {
	kind  byte // '(', '[', 'c' for CASE, 0 for the text itself
	query bool
	links int
	// The fields describe the current expression: its number of operators, whether it has AND or OR (any number of
	// which makes one node), and the depth of the deepest closed level in the expression.
	chain, and, or, within int

	copyState

	deepest int // of earlier expressions
	before  int // of earlier statements
}

// depth returns the depth that the parse tree for the nesting level has so far.
func (l *nestingLevel) depth() int {
	d := l.links + max(l.deepest, l.expressionDepth())
	if l.query {
		d += queryDepth
	}
	return max(d, l.before)
}

func (l *nestingLevel) expressionDepth() int { return l.chain + l.and + l.or + l.within }

// endExpression ends the current expression of the nesting level. The next expression is a sibling, and does not add to
// its depth.
func (l *nestingLevel) endExpression() {
	l.deepest = max(l.deepest, l.expressionDepth())
	l.chain, l.and, l.or, l.within = 0, 0, 0, 0
}

// nestingMeter measures the nesting of a text for CheckLimits, and holds the open levels.
type nestingMeter struct {
	levels []nestingLevel
	max    int
	copyCounter
}

// treeDepthBound returns an upper bound of the depth of a text's parse tree, in levels of nesting. treeDepthBound stops
// at max, and at a number of tokens.
//
// Lists of PostgreSQL's grammar do not count by their length: comma lists, AND, OR, successive
// subscripts, dots, rows of VALUES, statements, the arms of a CASE.
func treeDepthBound(sql []byte, max, tokens int) (int, GuardReason) {
	l := Lexer{Text: sql, UTF8: true}
	m := nestingMeter{levels: make([]nestingLevel, 1, 16), max: max}
	m.levels[0].copyState = copyState{copies: 1, around: 1}
	var dotted, as bool // the last token was a dot, or AS
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

// countWord counts a word and reports whether the text's parse tree got deeper. A word after AS may be the name of a
// column, which opens and closes no CASE.
func (m *nestingMeter) countWord(r WordRole, as bool) bool {
	switch top := m.topLevel(); {
	case r&(linked|querying) != 0:
		// These words never occur directly in a CASE, so an open CASE was a name and is closed.
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

// countPunct counts a byte of punctuation and reports whether the text's parse tree got deeper.
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

// closeLevels closes every CASE at the top of the stack of nesting levels, and then the top level if it is of the given
// kind. A bracket without a counterpart remains open, because the text is invalid SQL.
func (m *nestingMeter) closeLevels(kind byte) {
	for m.topLevel().kind == 'c' {
		m.popLevel()
	}
	if kind != 0 && m.topLevel().kind == kind {
		m.popLevel()
	}
}

// popLevel removes the top level from the stack of nesting levels, and counts its depth in the level below.
func (m *nestingMeter) popLevel() {
	depth := m.topLevel().depth() + 1
	if m.topLevel().kind != '(' {
		depth++ // an arm of a CASE and a subscript are separate nodes
	}
	m.closed = m.topLevel().copyState
	m.levels = m.levels[:len(m.levels)-1]
	m.topLevel().within = max(m.topLevel().within, depth)
}
