package parse

import (
	"slices"
	"strings"
)

// conditionCodes maps error conditions that a DO block may ignore to their SQLSTATEs. Each condition means that an
// object exists or is missing. OTHERS is not among them, because it would also hide a refusal by DSQL.
var conditionCodes = map[string]string{
	"duplicate_object": "42710", "duplicate_table": "42P07", "duplicate_column": "42701", "duplicate_schema": "42P06",
	"unique_violation": "23505", "undefined_object": "42704", "undefined_table": "42P01", "undefined_column": "42703",
	"invalid_schema_name": "3F000", "invalid_table_definition": "42P16",
}

// DoBlock is the content of a DO block that has one DDL statement.
type DoBlock struct {
	Condition    string // the SQL condition after IF; "" for none
	Statement    string
	IgnoredCodes []string // the SQLSTATEs that the block ignores in its EXCEPTION clause
}

// ReadDoBlock reads the body of a DO block. ok is false for a body of another form. ok is also false for a body with
// comments, because Sluice cuts the statement out of the text.
func ReadDoBlock(body string) (g DoBlock, ok bool) {
	ph := LexTokens([]byte(body), 0, len(body))
	i := 1
	if !ph.IsKeyword(0, "begin") || ph.HasComments() {
		return g, false
	}
	conditional := ph.IsKeyword(i, "if")
	if conditional {
		then := ph.NextKeyword(i, "then")
		if then < 0 || slices.ContainsFunc(ph.Tokens[i:then], func(t LexedToken) bool {
			return t.Kind == WordToken && IsWord(ph.Text[t.Start:t.End], "case")
		}) {
			return g, false
		}
		g.Condition, i = ph.TextBetween(i+1, then), then+1
	}
	end := i
	for end < len(ph.Tokens) && !ph.IsPunct(end, ';') {
		end++
	}
	if !slices.ContainsFunc([]string{"create", "alter", "drop", "comment"}, func(verb string) bool { return ph.IsKeyword(i, verb) }) {
		return g, false
	}
	g.Statement = ph.TextBetween(i, end)
	i = end + 1
	if conditional {
		if !ph.AreKeywords(i, "end", "if") || !ph.IsPunct(i+2, ';') {
			return g, false
		}
		i += 3
	}
	if ph.IsKeyword(i, "exception") && !conditional { // with IF, the handlers would cover the condition, too
		if i = g.readHandlers(&ph, i+1); len(g.IgnoredCodes) == 0 {
			return g, false
		}
	}
	if !ph.IsKeyword(i, "end") {
		return g, false
	}
	if i++; ph.IsPunct(i, ';') {
		i++
	}
	if i != len(ph.Tokens) {
		return g, false
	}
	return g, true
}

// readHandlers reads the clauses WHEN condition [OR condition] THEN NULL; that begin at token i. It returns the index
// of the token after them. For a handler of another form, it clears IgnoredCodes.
func (g *DoBlock) readHandlers(ph *TokenList, i int) int {
	for ph.IsKeyword(i, "when") {
		for more := true; more; more = ph.IsKeyword(i, "or") {
			code := conditionCodes[strings.ToLower(string(ph.Lexeme(i+1)))]
			if code == "" {
				g.IgnoredCodes = nil
				return i
			}
			g.IgnoredCodes = append(g.IgnoredCodes, code)
			i += 2
		}
		if !ph.AreKeywords(i, "then", "null") || !ph.IsPunct(i+2, ';') {
			g.IgnoredCodes = nil
			return i
		}
		i += 3
	}
	return i
}
