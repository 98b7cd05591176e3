package dialect

// These constants bound the texts that package dialect parses. A chain of 30,000 operators (60 KB) crashes the
// embedded PostgreSQL parser, and from 5,000 on the parser reports errors.
const (
	maxTextBytes = 2 << 20
	maxDepth     = 4000
)

// clueSet is a set of kinds of words in a text. At least one rule of package dialect depends on each kind.
type clueSet uint16

const (
	sawFor       clueSet = 1 << iota // a locking clause, perhaps
	sawInto                          // SELECT INTO, perhaps
	sawSetConfig                     // set_config()
	sawAnswered                      // version() and the like
	sawUsing                         // CREATE INDEX ... USING
	sawAsync                         // CREATE INDEX ASYNC, ALTER TABLE ASYNC
	sawSpecial                       // words that make a SELECT or DML special in another way
	sawNumber                        // 1_000 or 0xff
	sawModern                        // a subquery in FROM, or words that PostgreSQL 15 knows nothing of
	sawValues
	sawSelect
	sawEncode // encode() or decode()
)

// textOutline is what one pass over the tokens of a text shows, without a parse.
type textOutline struct {
	// deep means that the parse tree may be deeper than maxDepth, or that the text is too long.
	deep bool
	// tokens and statements are the numbers of tokens and of non-empty statements, counted until deep is set.
	tokens, statements int
	// first is the text's first word.
	first token
	clues clueSet
	// async holds the offset of every ASYNC at a place where only DSQL's grammar has the word.
	async []int
}

// bracketLevel counts the tokens in one open bracket. The counts of all open brackets, added up, bound the parse
// tree's depth, because every level takes a token. A comma separates siblings and resets chain, but not
// setOperations.
type bracketLevel struct{ chain, setOperations int }

// bracketNesting tracks the open brackets of one statement.
type bracketNesting struct {
	levels []bracketLevel
	depth  int // no tree of the tokens so far is deeper
}

func newBracketNesting() bracketNesting { return bracketNesting{levels: make([]bracketLevel, 1, 16)} }

// isOutermost reports whether no bracket is open.
func (n *bracketNesting) isOutermost() bool { return len(n.levels) == 1 }

// startStatement resets the nesting for the next statement. No bracket may be open.
func (n *bracketNesting) startStatement() { n.levels[0], n.depth = bracketLevel{}, 0 }

// addToken counts one token of the statement.
func (n *bracketNesting) addToken(kind tokenKind, key keyword) {
	top := &n.levels[len(n.levels)-1]
	switch {
	case kind == comma:
		n.depth -= top.chain
		top.chain = 0
		return
	case kind == shut:
		if n.isOutermost() {
			return
		}
		n.depth -= 1 + top.chain + top.setOperations
		n.levels = n.levels[:len(n.levels)-1]
		n.levels[len(n.levels)-1].chain++
	case kind == open:
		n.levels = append(n.levels, bracketLevel{}) // a level counts, whatever stands in it
	case key == setOperation:
		top.setOperations++
	default:
		top.chain++
	}
	n.depth++
}

// recentTokens describes the tokens before the current token of a statement. The zero value describes a statement's
// beginning.
type recentTokens struct {
	last, lastButOne keyword
	kind             tokenKind
	// opened means that a parenthesis was opened at a place where FROM may have a table.
	opened bool
}

// pushToken makes a token the most recent one.
func (r *recentTokens) pushToken(kind tokenKind, key keyword) {
	mayBeTable := r.last == from || r.last == joinWord || r.last == special || r.kind == comma || r.opened
	*r = recentTokens{last: key, lastButOne: r.last, kind: kind, opened: kind == open && mayBeTable}
}

func newOutline(sql string) textOutline {
	var o textOutline
	if len(sql) > maxTextBytes {
		o.deep = true
		return o
	}
	brackets := newBracketNesting()
	before := recentTokens{}
	begun := false // the statement has a token
	lex := lexer{sql: sql}
	for t := lex.nextToken(); t.kind != endOfText; t = lex.nextToken() {
		if t.kind == semicolon && brackets.isOutermost() {
			brackets.startStatement()
			before, begun = recentTokens{}, false
			continue
		}
		if o.tokens++; o.tokens == 1 {
			o.first = t
		}
		if !begun {
			begun = true
			o.statements++
		}
		key := o.recordClues(t, sql, &before)
		before.pushToken(t.kind, key)
		brackets.addToken(t.kind, key)
		if brackets.depth > maxDepth {
			o.deep = true
			return o
		}
	}
	return o
}

// recordClues adds the clues that one token gives to the outline (kinds of words on which rules depend). It returns
// the token's keyword.
func (o *textOutline) recordClues(t token, sql string, before *recentTokens) keyword {
	key := none
	switch t.kind {
	case word, quoted:
		key = lookUpKeyword(sql[t.start:t.end])
		o.clues |= cluesByKeyword[key]
		if key == async && allowsAsync(before.lastButOne, before.last) {
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

// allowsAsync reports whether ASYNC after these two words is DSQL's syntax.
func allowsAsync(lastButOne, last keyword) bool {
	switch last {
	case index:
		return lastButOne == create || lastButOne == unique
	case table:
		return lastButOne == alter
	}
	return false
}
