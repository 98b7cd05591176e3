package dialect

// Bounds of a text that is parsed. A chain of 30,000 operators (60 KB) crashes
// PostgreSQL's parser as embedded here, and from 5,000 on it reports errors.
const (
	maxTextBytes = 2 << 20
	maxDepth     = 4000
)

// clue is a set of words that were seen and that some rule cares about.
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
)

// outline is what one pass over the tokens tells, without a parse.
type outline struct {
	// deep: the parse tree may be deeper than maxDepth, or the text is too long.
	deep bool
	// tokens and statements that are not empty, counted until deep.
	tokens, statements int
	// first is the text's first word.
	first token
	clues clue
	// async holds the offset of every ASYNC that stands where only DSQL has it.
	async []int
}

// level is one open bracket. Its two counts bound how deep a tree its tokens can
// make: every level of a tree takes at least one token. A comma separates
// siblings, so that the chain begins anew; but a chain of set operations goes on.
type level struct{ chain, setOperations int }

func draw(sql string) outline {
	var o outline
	if len(sql) > maxTextBytes {
		o.deep = true
		return o
	}
	var few [16]level
	levels := append(few[:0], level{})
	depth, inStatement := 0, 0
	var last, lastButOne keyword
	var lastKind tokenKind
	opened := false // a parenthesis where FROM may have a table
	lex := lexer{sql: sql}
	for t := lex.next(); t.kind != endOfText; t = lex.next() {
		top := &levels[len(levels)-1]
		if t.kind == semicolon && len(levels) == 1 {
			*top, depth, inStatement, last, lastButOne = level{}, 0, 0, none, none
			continue
		}
		if o.tokens++; o.tokens == 1 {
			o.first = t
		}
		if inStatement++; inStatement == 1 {
			o.statements++
		}
		key := none
		switch t.kind {
		case comma:
			depth -= top.chain
			top.chain = 0
		case open:
			levels = append(levels, level{})
			depth++ // a level counts, whatever stands in it
		case shut:
			if len(levels) > 1 {
				depth -= 1 + top.chain + top.setOperations
				levels = levels[:len(levels)-1]
				levels[len(levels)-1].chain++
				depth++
			}
		case word, quoted:
			key = lookup(sql[t.start:t.end])
			o.clues |= clues[key]
			if key == setOperation {
				top.setOperations++
			} else {
				top.chain++
			}
			depth++
			if key == async && takesAsync(lastButOne, last) {
				o.async = append(o.async, t.start)
			}
		default:
			if t.kind == literal && isModernNumber(sql[t.start:t.end]) {
				o.clues |= sawNumber
			}
			top.chain++
			depth++
		}
		if opened && (key == selectWord || key == values || key == with) {
			o.clues |= sawModern
		}
		opened = t.kind == open && (last == from || last == joinWord || last == special || lastKind == comma || opened)
		lastButOne, last, lastKind = last, key, t.kind
		if depth > maxDepth {
			o.deep = true
			return o
		}
	}
	return o
}

// takesAsync tells whether ASYNC after these two words is DSQL's own syntax.
func takesAsync(lastButOne, last keyword) bool {
	switch last {
	case index:
		return lastButOne == create || lastButOne == unique
	case table:
		return lastButOne == alter
	}
	return false
}
