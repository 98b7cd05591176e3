package parse

import (
	"bytes"
	"unicode/utf8"
)

// Reason is why the guard refuses to give a text to the parser.
type Reason uint8

// All reasons of the guard. Fits means that the text may be parsed, and Reasons is the number of reasons.
const (
	Fits Reason = iota
	TooLong
	TooDeep
	NotText // a NUL, invalid UTF-8, or a constant or comment without an end
	Reasons
)

// bytesPerToken is how many bytes of MaxBytes each token of a text counts for. The parser needs up to 500 bytes and 2
// µs for each token (measured). Usual texts have four bytes or more per token.
const bytesPerToken = 2

// queryDepth is how many levels a query in parentheses counts for, because its parse tree has more and larger levels
// than that of an expression.
const queryDepth = 3

// Guard returns Fits if a text of at most maxBytes may go to the parser, otherwise the reason. The parser is recursive
// C code without a check of its stack, so a deep text would end the process. Guard is iterative, and in doubt refuses a
// text.
func Guard(sql []byte, maxBytes, maxNesting int) Reason {
	if len(sql) > maxBytes {
		return TooLong
	}
	if bytes.IndexByte(sql, 0) >= 0 || !utf8.Valid(sql) {
		return NotText
	}
	_, why := depthOf(sql, maxNesting, maxBytes/bytesPerToken)
	return why
}

// level is an open level: the text itself, a parenthesis, a bracket or a CASE.
//
// The tree over a level is as deep as its links (joins, set operations) plus its deepest
// expression. An expression is as deep as its chain of operators plus the deepest level within.
// Members of lists are beside each other.
type level struct {
	kind  byte // '(', '[', 'c' for CASE, 0 for the text itself
	query bool
	links int
	// The fields describe the current expression: its number of operators, whether it has AND or OR (any number of which
	// makes one node), and the depth of the deepest closed level in it.
	chain, and, or, within int

	repeats

	deepest int // of earlier expressions
	before  int // of earlier statements
}

// depth returns the depth so far of the parse tree for a level.
func (l *level) depth() int {
	d := l.links + max(l.deepest, l.expression())
	if l.query {
		d += queryDepth
	}
	return max(d, l.before)
}

func (l *level) expression() int { return l.chain + l.and + l.or + l.within }

// separate ends an expression. The next expression is a sibling, and does not add to its depth.
func (l *level) separate() {
	l.deepest = max(l.deepest, l.expression())
	l.chain, l.and, l.or, l.within = 0, 0, 0, 0
}

// measure holds the open levels while the guard reads a text.
type measure struct {
	levels []level
	max    int
	copying
}

// depthOf returns an upper bound of the depth of a text's parse tree, in levels of nesting. It
// stops at max, and at a number of tokens.
//
// Lists of PostgreSQL's grammar do not count by their length: comma lists, AND, OR, successive
// subscripts, dots, rows of VALUES, statements, the arms of a CASE.
func depthOf(sql []byte, max, tokens int) (int, Reason) {
	l := Lexer{Text: sql, UTF8: true}
	m := measure{levels: make([]level, 1, 16), max: max}
	m.levels[0].repeats = repeats{copies: 1, around: 1}
	var dotted, as bool // the last token was a dot, or AS
	for ; ; tokens-- {
		deeper := true
		kind := l.Next()
		m.count(kind, l.Lexeme(), dotted)
		if tokens < 0 || m.copied > copiedTokens {
			return 0, TooLong
		}
		switch kind {
		case EndToken:
			m.leave(0)
			return m.levels[0].depth(), m.verdict()
		case BadToken:
			return 0, NotText
		case WordToken:
			deeper = !dotted && m.word(RoleOf(l.Lexeme()), as)
		case OperatorToken:
			m.top().chain += operators(l.Lexeme())
		case CastToken:
			m.top().chain++
		case PunctToken:
			deeper = m.punct(sql[l.Start])
		default:
			deeper = false
		}
		dotted = kind == PunctToken && sql[l.Start] == '.'
		m.follow(kind, l.Lexeme())
		as = kind == WordToken && IsWord(l.Lexeme(), "as")
		if deeper && m.verdict() != Fits {
			return 0, TooDeep
		}
	}
}

func (m *measure) top() *level { return &m.levels[len(m.levels)-1] }

func (m *measure) verdict() Reason {
	if len(m.levels) > m.max || m.top().depth() > m.max {
		return TooDeep
	}
	return Fits
}

// word counts a word and reports whether the tree got deeper. A word after AS may be the name of a column, which opens
// and closes no CASE.
func (m *measure) word(r Role, as bool) bool {
	switch top := m.top(); {
	case r&(linked|querying) != 0:
		// These words never occur directly in a CASE, so the apparent CASE was a name.
		m.leave(0)
		top = m.top()
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
		m.levels = append(m.levels, level{kind: 'c', repeats: top.inside(false)})
	case r&caseArm != 0 && top.kind == 'c':
		top.separate()
		return false
	case r&caseEnd != 0 && top.kind == 'c':
		m.close()
	default:
		return false
	}
	return true
}

// punct counts a byte of punctuation and reports whether the tree got deeper.
func (m *measure) punct(c byte) bool {
	switch c {
	case '(', '[':
		m.levels = append(m.levels, level{kind: c, repeats: m.top().repeats.inside(c == '(' && m.assigns)})
	case ')':
		m.leave('(')
	case ']':
		m.leave('[')
	case ',', ';':
		m.leave(0)
		top := m.top()
		top.separate()
		if c == ';' {
			*top = level{kind: top.kind, before: top.depth(), repeats: top.repeats}
		}
	default:
		return false
	}
	return true
}

// leave closes every CASE on top of the stack of levels, and then the top level if it is of the given kind. A bracket
// without a counterpart remains open, because the text is invalid SQL.
func (m *measure) leave(kind byte) {
	for m.top().kind == 'c' {
		m.close()
	}
	if kind != 0 && m.top().kind == kind {
		m.close()
	}
}

// close removes the top level from the stack and counts its depth in the level below.
func (m *measure) close() {
	depth := m.top().depth() + 1
	if m.top().kind != '(' {
		depth++ // an arm of a CASE and a subscript are separate nodes
	}
	m.closed = m.top().repeats
	m.levels = m.levels[:len(m.levels)-1]
	m.top().within = max(m.top().within, depth)
}
