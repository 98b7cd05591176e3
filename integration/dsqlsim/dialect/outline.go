package dialect

// Bounds of a text that is parsed. A chain of 30,000 operators (60 KB) crashes the embedded PostgreSQL parser, and from
// 5,000 on the parser reports errors.
const (
	maxTextBytes = 2 << 20
	maxDepth     = 4000
)

// clue is a set of kinds of words in a text, each of which concerns some rule.
type clue uint16

const (
	sawFor       clue = 1 << iota // a locking clause, perhaps
	sawInto                       // SELECT INTO, perhaps
	sawSetConfig                  // set_config()
	sawAnswered                   // version() and the like
	sawUsing                      // CREATE INDEX ... USING
	sawAsync                      // CREATE INDEX ASYNC, ALTER TABLE ASYNC
	sawSpecial                    // words that make a SELECT or DML special in another way
	sawNumber                     // 1_000 or 0xff
	sawModern                     // a subquery in FROM, or words that PostgreSQL 15 knows nothing of
	sawValues
	sawSelect
	sawEncode // encode() or decode()
)

// outline is what one pass over the tokens of a text shows, without a parse.
type outline struct {
	// deep reports that the parse tree may be deeper than maxDepth, or that the text is too long.
	deep bool
	// tokens and statements are the numbers of tokens and of non-empty statements, counted until deep.
	tokens, statements int
	// first is the text's first word.
	first token
	clues clue
	// async holds the offset of every ASYNC at a place where only DSQL's grammar has it.
	async []int
}

// level is one open bracket. The sum of its counts bounds the depth of its tokens' tree, because every level of a tree
// takes a token. A comma separates siblings and resets chain, but not setOperations.
type level struct{ chain, setOperations int }

// nesting tracks the open brackets of one statement.
type nesting struct {
	levels []level
	depth  int // no tree of the tokens so far is deeper
}

func newNesting() nesting { return nesting{levels: make([]level, 1, 16)} }

// outermost reports whether no bracket is open.
func (n *nesting) outermost() bool { return len(n.levels) == 1 }

// restart resets the nesting for the next statement. No bracket may be open.
func (n *nesting) restart() { n.levels[0], n.depth = level{}, 0 }

// add counts one token of the statement.
func (n *nesting) add(kind tokenKind, key keyword) {
	top := &n.levels[len(n.levels)-1]
	switch {
	case kind == comma:
		n.depth -= top.chain
		top.chain = 0
		return
	case kind == shut:
		if n.outermost() {
			return
		}
		n.depth -= 1 + top.chain + top.setOperations
		n.levels = n.levels[:len(n.levels)-1]
		n.levels[len(n.levels)-1].chain++
	case kind == open:
		n.levels = append(n.levels, level{}) // a level counts, whatever stands in it
	case key == setOperation:
		top.setOperations++
	default:
		top.chain++
	}
	n.depth++
}

// recent describes the tokens before the current token of a statement. The zero value describes a statement's
// beginning.
type recent struct {
	last, lastButOne keyword
	kind             tokenKind
	// opened reports an open parenthesis at a place where FROM may have a table.
	opened bool
}

// push makes a token the most recent one.
func (r *recent) push(kind tokenKind, key keyword) {
	mayBeTable := r.last == from || r.last == joinWord || r.last == special || r.kind == comma || r.opened
	*r = recent{last: key, lastButOne: r.last, kind: kind, opened: kind == open && mayBeTable}
}

func draw(sql string) outline {
	var o outline
	if len(sql) > maxTextBytes {
		o.deep = true
		return o
	}
	brackets := newNesting()
	before := recent{}
	begun := false // the statement has a token
	lex := lexer{sql: sql}
	for t := lex.next(); t.kind != endOfText; t = lex.next() {
		if t.kind == semicolon && brackets.outermost() {
			brackets.restart()
			before, begun = recent{}, false
			continue
		}
		if o.tokens++; o.tokens == 1 {
			o.first = t
		}
		if !begun {
			begun = true
			o.statements++
		}
		key := o.notice(t, sql, &before)
		before.push(t.kind, key)
		brackets.add(t.kind, key)
		if brackets.depth > maxDepth {
			o.deep = true
			return o
		}
	}
	return o
}

// notice adds the clues of one token to the outline, and returns the token's keyword.
func (o *outline) notice(t token, sql string, before *recent) keyword {
	key := none
	switch t.kind {
	case word, quoted:
		key = lookup(sql[t.start:t.end])
		o.clues |= clues[key]
		if key == async && takesAsync(before.lastButOne, before.last) {
			o.async = append(o.async, t.start)
		}
	case literal:
		if isModernNumber(sql[t.start:t.end]) {
			o.clues |= sawNumber
		}
	}
	if before.opened && (key == selectWord || key == values || key == with) {
		o.clues |= sawModern
	}
	return key
}

// takesAsync reports whether ASYNC after these two words is DSQL's syntax.
func takesAsync(lastButOne, last keyword) bool {
	switch last {
	case index:
		return lastButOne == create || lastButOne == unique
	case table:
		return lastButOne == alter
	}
	return false
}
