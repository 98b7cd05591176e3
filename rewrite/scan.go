package rewrite

import "strings"

// Plans of texts that were never parsed. Shared and immutable.
var (
	emptyPlan   = &Plan{Kind: Empty}
	selectPlan  = doubted(told(Read, "select"))
	valuesPlan  = doubted(told(Read, "values"))
	sureSelect  = told(Read, "select")
	insertPlan  = told(Write, "insert")
	upsertPlan  = contending("insert") // ON CONFLICT DO UPDATE
	updatePlan  = contending("update")
	deletePlan  = contending("delete")
	guardedPlan = &Plan{Kind: Unknown, Pin: PinUnparsed}
	// foreignPlan is of a text that PostgreSQL's grammar does not take and that
	// holds no word for anything that would outlast it.
	foreignPlan = &Plan{Kind: Unknown}
)

// told is the plan of a text that its words alone told.
func told(kind Kind, operation string) *Plan {
	st := Statement{Kind: kind, Operation: operation, demand: Demand{Rows: kind == Write}}
	if kind == Write {
		st.writes = strings.ToUpper(operation)
	}
	return &Plan{Kind: kind, Operation: operation, Statements: []Statement{st}}
}

// contending is that of one that changes rows that exist.
func contending(operation string) *Plan {
	plan := told(Write, operation)
	plan.Contends, plan.Statements[0].Contends = true, true
	return plan
}

// doubted says of a plan that its text may write all the same.
func doubted(p *Plan) *Plan {
	p.unsure, p.Statements[0].unsure = true, true
	return p
}

// scan plans a text by its words alone, for clients that send a new text each
// time: a parse costs more than the relay. It returns nil for a text that must
// be parsed, and errs only towards that; it allocates nothing.
//
// What it clears is one SELECT, VALUES, INSERT, UPDATE or DELETE without any
// word that a pin, a classification or a rule needs; and texts without any
// statement. table is what the statement's first table is called, to name the
// operation by; nil when it is not plain to see.
func scan(sql []byte) (plan *Plan, table []byte) {
	s := scanner{lexer: lexer{text: sql}}
	kind := s.next()
	for kind == punctToken && sql[s.start] == ';' {
		kind = s.next()
	}
	switch kind {
	case endToken:
		return emptyPlan, nil
	case wordToken:
	default:
		return nil, nil
	}
	switch word := s.lexeme(); {
	case is(word, "select"):
		return s.rest(selectPlan, fromAhead)
	case is(word, "values"):
		return s.rest(valuesPlan, noTable)
	case is(word, "insert"):
		if s.next() != wordToken || !is(s.lexeme(), "into") {
			return nil, nil
		}
		return s.rest(insertPlan, nameAhead)
	case is(word, "update"):
		return s.rest(updatePlan, nameAhead)
	case is(word, "delete"):
		return s.rest(deletePlan, fromAhead)
	}
	return nil, nil
}

// search is how far the search for the first table's name has come.
type search uint8

const (
	noTable   search = iota // it is over
	fromAhead               // FROM comes first
	nameAhead               // the name is next, or its next part
	nameRead                // a dot would go on with it
)

// before says what stood before a token, as far as a call is concerned.
type before uint8

const (
	anything  before = iota
	operand          // ) or ] or $1: a dot here may call a function, (x).f
	aWord            // perhaps a function's name
	aQuoted          // a name in quotes
	qualified        // a dot behind a name
	builtin          // the dot of pg_catalog.
)

// scanner is the reading of a statement behind its first word.
type scanner struct {
	lexer
	plan *Plan  // the answer when nothing speaks against it
	sure tokens // whether the plan is that of a sure read

	prev before
	name []byte // the word that prev stands for
	led  before // what stood before that word

	look  search
	table []byte // as far as its name was read
	depth int    // of parentheses
}

// rest reads to the end; plan is that of the first word.
func (s *scanner) rest(plan *Plan, look search) (*Plan, []byte) {
	s.plan, s.look, s.sure.unsure = plan, look, plan != selectPlan
	for {
		switch kind := s.next(); {
		case kind == endToken:
			return s.sure.of(s.plan), s.table
		case kind == punctToken && s.text[s.start] == ';':
			return scanEnd(&s.lexer, s.sure.of(s.plan)), s.table
		case kind == badToken || !s.take(kind):
			return nil, nil
		}
	}
}

// take takes the next token and reports whether nothing speaks against the plan.
func (s *scanner) take(kind token) bool {
	columns := s.look == nameRead && s.plan == insertPlan // a parenthesis holds those of the table
	if !s.sure.unsure {
		s.sure.token(kind, s.lexeme())
	}
	if s.look != noTable && s.depth == 0 {
		s.seek(kind)
	}
	switch kind {
	case oddToken:
		return false
	case wordToken:
		return s.takeWord()
	case quotedToken:
		return s.takeQuoted()
	case punctToken:
		return s.takePunct(columns)
	case paramToken:
		s.prev = operand
	default:
		s.prev = anything
	}
	return true
}

// seek takes the search for the table on by one token outside parentheses.
func (s *scanner) seek(kind token) {
	switch s.look {
	case fromAhead:
		if kind == wordToken && is(s.lexeme(), "from") {
			s.look = nameAhead
		}
	case nameAhead:
		switch name := s.lexeme(); {
		case kind == quotedToken:
			s.look, s.table = nameRead, name[1:len(name)-1]
		case kind != wordToken:
			s.look = noTable
		case !is(name, "only"):
			s.look, s.table = nameRead, name
		}
	case nameRead:
		s.look = noTable
		if kind == punctToken && s.text[s.start] == '.' {
			s.look, s.table = nameAhead, nil
		}
	}
}

// takeWord is take for a word.
func (s *scanner) takeWord() bool {
	word := s.lexeme()
	if s.plan == insertPlan && s.prev == aWord && is(s.name, "do") && is(word, "update") {
		s.plan = upsertPlan
	}
	s.led, s.name, s.prev = s.prev, word, aWord
	return !isTelltale(word)
}

// takeQuoted is take for a name in quotes. One of U&"" may be spelt in any way.
func (s *scanner) takeQuoted() bool {
	name := s.lexeme()
	s.prev = aQuoted
	return name[0] == '"' && !isTelltale(name[1:len(name)-1])
}

// takePunct is take for a byte of punctuation.
func (s *scanner) takePunct(columns bool) bool {
	prev := s.prev
	s.prev = anything
	switch s.text[s.start] {
	case '(':
		s.depth++
		return columns || s.mayOpen(prev)
	case ')':
		s.depth--
		s.prev = operand
	case ']':
		s.prev = operand
	case '.':
		s.prev = qualified
		if prev == aWord && s.led != qualified && is(s.name, "pg_catalog") {
			s.prev = builtin
		}
		return prev != operand
	}
	return true
}

// mayOpen reports whether a parenthesis may stand behind prev.
func (s *scanner) mayOpen(prev before) bool {
	switch prev {
	case aQuoted:
		return false
	case aWord:
		return mayCall(s.led, s.name) || s.plan.Kind != Read && lists(s.led, s.name)
	}
	return true
}

// mayCall reports whether a word, led by that, may stand before a parenthesis
// in a query that only reads.
func mayCall(led before, word []byte) bool {
	switch led {
	case qualified:
		return false
	case builtin:
		return roleOf(word)&harmless != 0
	case operand:
		if is(word, "over") || is(word, "filter") {
			return true // of a window or an aggregate: f(x) OVER (…)
		}
	}
	return roleOf(word)&callable != 0
}

// lists reports whether a word of a statement that writes stands before a list of
// columns: ON CONFLICT (a), SET (a, b).
func lists(led before, word []byte) bool {
	return led != qualified && (is(word, "conflict") || is(word, "set"))
}

// isTelltale reports whether a word is a telltale. For nearly all words their
// first letter and length tell.
func isTelltale(word []byte) bool {
	return len(word) > 0 && telltaleLengths[word[0]]>>min(len(word), maxWord)&1 != 0 && roleOf(word)&telltale != 0
}

// scanEnd returns plan when nothing but semicolons follows.
func scanEnd(l *lexer, plan *Plan) *Plan {
	for {
		switch kind := l.next(); {
		case kind == endToken:
			return plan
		case kind != punctToken || l.text[l.start] != ';':
			return nil
		}
	}
}

// is compares a word with a lower-case one, in any case.
func is(word []byte, lower string) bool {
	if len(word) != len(lower) {
		return false
	}
	for i, c := range word {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
