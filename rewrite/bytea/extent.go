package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// The functions in this file find the first and last token of an operand. The tree has only one position for each node,
// and no parentheses.

// root returns the token that the tree names as the position of an expression. infix reports that an operand
// precedes the token.
func (m *mapper) root(n parse.Message) (at int, infix bool) {
	at = -1
	switch n.Name() {
	case "ColumnRef", "ParamRef", "A_Const", "FuncCall", "CaseExpr", "CoalesceExpr", "MinMaxExpr",
		"A_ArrayExpr", "RowExpr", "SQLValueFunction", "SetToDefault":
		return m.token(n), false
	case "SubLink":
		return m.token(n), n.Child("testexpr").Shape != nil
	case "TypeCast":
		at = m.token(n)
		return at, at >= 0 && m.ph.Tokens[at].Kind == parse.CastToken
	case "A_Expr":
		return m.token(n), n.Child("lexpr").Shape != nil
	case "NullTest", "BooleanTest", "CollateClause":
		return m.token(n), true
	case "BoolExpr":
		return m.token(n), !m.ph.Word(m.token(n), "not")
	}
	return at, false
}

// end returns the last token of an expression that begins at token start, or -1 if it is unclear.
func (m *mapper) end(n parse.Message, start int) int {
	if n.Is("A_Indirection") {
		return m.indirectionEnd(n, start)
	}
	at, infix := m.root(n)
	if at < 0 || start < 0 {
		return m.literalEnd(n, start)
	}
	if m.ph.Punct(start, '(') {
		switch close := m.pair(start); {
		case !infix && at >= start && at <= close, infix && at < close:
			return close
		case !infix:
			return -1
		}
	} else if !infix && at != start {
		return -1
	}
	if infix {
		return m.infixEnd(n, at)
	}
	return m.prefixEnd(n, at)
}

// infixEnd returns the last token of an expression whose operator is token at.
func (m *mapper) infixEnd(n parse.Message, at int) int {
	switch {
	case n.Is("TypeCast"):
		return m.typeEnd(at + 1)
	case n.Is("A_Expr") && n.Integer("kind") == opExpr && m.ph.Tokens[at].Kind == parse.OperatorToken:
		return m.end(n.Child("rexpr"), at+1)
	}
	return -1
}

// prefixEnd returns the last token of an expression that begins at its position, token at.
func (m *mapper) prefixEnd(n parse.Message, at int) int {
	switch n.Name() {
	case "ColumnRef":
		return m.ph.Qualified(at) - 1
	case "ParamRef", "SetToDefault":
		return at
	case "A_Const":
		if m.ph.Tokens[at].Kind == parse.OperatorToken {
			at++
		}
		return m.stringEnd(at)
	case "FuncCall":
		return m.callEnd(m.ph.Qualified(at))
	case "SQLValueFunction", "CoalesceExpr", "MinMaxExpr":
		if m.ph.Punct(at+1, '(') {
			return m.pair(at + 1)
		}
		return at
	case "CaseExpr":
		return m.caseEnd(at)
	case "A_ArrayExpr", "RowExpr", "SubLink", "TypeCast":
		return m.pair(at + 1)
	case "A_Expr":
		return m.infixEnd(n, at)
	}
	return -1
}

// literalEnd returns the last token of a constant with a type before it, as in date '2026-01-01'.
func (m *mapper) literalEnd(n parse.Message, start int) int {
	if !n.Is("TypeCast") || start < 0 || !m.ph.Name(start) {
		return -1
	}
	at := m.token(n.Child("arg"))
	if at != m.ph.Qualified(start) {
		return -1
	}
	return m.stringEnd(at)
}

// stringEnd returns the last token of a constant, which may continue on the next line.
func (m *mapper) stringEnd(at int) int {
	if at >= len(m.ph.Tokens) {
		return -1
	}
	for m.ph.Tokens[at].Kind == parse.StringToken && at+1 < len(m.ph.Tokens) && m.ph.Tokens[at+1].Kind == parse.StringToken {
		at++
	}
	return at
}

// callEnd returns the last token of a function call whose arguments open at token i.
func (m *mapper) callEnd(i int) int {
	if !m.ph.Punct(i, '(') {
		return -1
	}
	end := m.pair(i)
	if m.ph.Words(end+1, "within", "group") {
		end = m.pair(end + 3)
	}
	if end > 0 && m.ph.Word(end+1, "filter") && m.ph.Punct(end+2, '(') {
		end = m.pair(end + 2)
	}
	if end > 0 && m.ph.Word(end+1, "over") {
		if m.ph.Punct(end+2, '(') {
			return m.pair(end + 2)
		}
		return end + 2
	}
	return end
}

// caseEnd returns the END token of the CASE at token i.
func (m *mapper) caseEnd(i int) int {
	for depth := 0; i >= 0 && i < len(m.ph.Tokens); i++ {
		switch {
		case m.ph.Punct(i, '('):
			if i = m.pair(i); i < 0 {
				return -1
			}
		case m.ph.Punct(i-1, '.'):
		case m.ph.Word(i, "case"):
			depth++
		case m.ph.Word(i, "end"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// typeEnd returns the last token of a type name that begins at token i.
func (m *mapper) typeEnd(i int) int {
	ph := &m.ph
	if !ph.Name(i) || ph.Word(i, "interval") || ph.Word(i, "setof") || ph.Word(i, "national") {
		return -1
	}
	first := i
	i = ph.Qualified(i) - 1
	switch {
	case ph.Word(i, "double") && ph.Word(i+1, "precision"), ph.Word(i+1, "varying"):
		i++
	}
	if ph.Punct(i+1, '(') {
		i = m.pair(i + 1)
	}
	if (ph.Word(first, "timestamp") || ph.Word(first, "time")) && ph.Words(i+2, "time", "zone") {
		i += 3
	}
	for i >= 0 && ph.Punct(i+1, '[') {
		i = m.pair(i + 1)
	}
	return i
}

// indirectionEnd returns the last token of an expression with subscripts or fields.
func (m *mapper) indirectionEnd(n parse.Message, start int) int {
	i := m.end(n.Child("arg"), start)
	for range n.Wrapped("indirection") {
		switch {
		case i < 0:
			return -1
		case m.ph.Punct(i+1, '['):
			i = m.pair(i + 1)
		case m.ph.Punct(i+1, '.'):
			i += 2
		default:
			return -1
		}
	}
	return i
}

// begin returns the first token of an expression that ends at token end, or -1 if the start is unclear.
func (m *mapper) begin(n parse.Message, end int) int {
	at, infix := m.root(n)
	if at < 0 || end < 0 {
		return -1
	}
	if m.ph.Punct(end, ')') {
		if open := m.pair(end); at > open {
			return open
		}
	}
	if !infix {
		return at
	}
	switch {
	case n.Is("A_Expr") && n.Integer("kind") == opExpr && m.ph.Tokens[at].Kind == parse.OperatorToken:
		return m.begin(n.Child("lexpr"), at-1)
	case n.Is("TypeCast"), n.Is("CollateClause"):
		return m.begin(n.Child("arg"), at-1)
	}
	return -1
}

// items returns the first and last tokens of the n items of a list whose parenthesis or bracket opens at token
// i. It returns nil if the list does not have n items.
func (m *mapper) items(i, n int) [][2]int {
	end := m.pair(i)
	if end < 0 {
		return nil
	}
	var all [][2]int
	first := i + 1
	for i++; i <= end; i++ {
		if i == end || m.ph.Punct(i, ',') {
			all = append(all, [2]int{first, i - 1})
			first = i + 1
			continue
		}
		if m.ph.Punct(i, '(') || m.ph.Punct(i, '[') {
			if i = m.pair(i); i < 0 {
				return nil
			}
		}
	}
	if len(all) != n {
		return nil
	}
	return all
}
