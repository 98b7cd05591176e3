package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// The functions in this file find the first and last token of an operand. The tree has only one position for each node,
// and no parentheses.

// rootToken returns the token at the position that the tree gives for an expression. infix reports that an operand
// precedes the token.
func (m *queryMapper) rootToken(n parse.TreeNode) (at int, infix bool) {
	at = -1
	switch n.TypeName() {
	case "ColumnRef", "ParamRef", "A_Const", "FuncCall", "CaseExpr", "CoalesceExpr", "MinMaxExpr",
		"A_ArrayExpr", "RowExpr", "SQLValueFunction", "SetToDefault":
		return m.tokenOf(n), false
	case "SubLink":
		return m.tokenOf(n), n.Child("testexpr").Shape != nil
	case "TypeCast":
		at = m.tokenOf(n)
		return at, at >= 0 && m.ph.Tokens[at].Kind == parse.CastToken
	case "A_Expr":
		return m.tokenOf(n), n.Child("lexpr").Shape != nil
	case "NullTest", "BooleanTest", "CollateClause":
		return m.tokenOf(n), true
	case "BoolExpr":
		return m.tokenOf(n), !m.ph.IsKeyword(m.tokenOf(n), "not")
	}
	return at, false
}

// exprEnd returns the last token of an expression that begins at token start, or -1 if the end is unclear.
func (m *queryMapper) exprEnd(n parse.TreeNode, start int) int {
	if n.Is("A_Indirection") {
		return m.indirectionEnd(n, start)
	}
	at, infix := m.rootToken(n)
	if at < 0 || start < 0 {
		return m.literalEnd(n, start)
	}
	if m.ph.IsPunct(start, '(') {
		switch close := m.matchingParen(start); {
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
func (m *queryMapper) infixEnd(n parse.TreeNode, at int) int {
	switch {
	case n.Is("TypeCast"):
		return m.typeEnd(at + 1)
	case n.Is("A_Expr") && n.Integer("kind") == opExpr && m.ph.Tokens[at].Kind == parse.OperatorToken:
		return m.exprEnd(n.Child("rexpr"), at+1)
	}
	return -1
}

// prefixEnd returns the last token of an expression that begins at its position, token at.
func (m *queryMapper) prefixEnd(n parse.TreeNode, at int) int {
	switch n.TypeName() {
	case "ColumnRef":
		return m.ph.AfterQualifiedName(at) - 1
	case "ParamRef", "SetToDefault":
		return at
	case "A_Const":
		if m.ph.Tokens[at].Kind == parse.OperatorToken {
			at++
		}
		return m.stringEnd(at)
	case "FuncCall":
		return m.callEnd(m.ph.AfterQualifiedName(at))
	case "SQLValueFunction", "CoalesceExpr", "MinMaxExpr":
		if m.ph.IsPunct(at+1, '(') {
			return m.matchingParen(at + 1)
		}
		return at
	case "CaseExpr":
		return m.caseEnd(at)
	case "A_ArrayExpr", "RowExpr", "SubLink", "TypeCast":
		return m.matchingParen(at + 1)
	case "A_Expr":
		return m.infixEnd(n, at)
	}
	return -1
}

// literalEnd returns the last token of a constant with a type before it, as in date '2026-01-01'.
func (m *queryMapper) literalEnd(n parse.TreeNode, start int) int {
	if !n.Is("TypeCast") || start < 0 || !m.ph.IsName(start) {
		return -1
	}
	at := m.tokenOf(n.Child("arg"))
	if at != m.ph.AfterQualifiedName(start) {
		return -1
	}
	return m.stringEnd(at)
}

// stringEnd returns the last token of a constant, which may continue on the next line.
func (m *queryMapper) stringEnd(at int) int {
	if at >= len(m.ph.Tokens) {
		return -1
	}
	for m.ph.Tokens[at].Kind == parse.StringToken && at+1 < len(m.ph.Tokens) && m.ph.Tokens[at+1].Kind == parse.StringToken {
		at++
	}
	return at
}

// callEnd returns the last token of a function call whose arguments open at token i.
func (m *queryMapper) callEnd(i int) int {
	if !m.ph.IsPunct(i, '(') {
		return -1
	}
	end := m.matchingParen(i)
	if m.ph.AreKeywords(end+1, "within", "group") {
		end = m.matchingParen(end + 3)
	}
	if end > 0 && m.ph.IsKeyword(end+1, "filter") && m.ph.IsPunct(end+2, '(') {
		end = m.matchingParen(end + 2)
	}
	if end > 0 && m.ph.IsKeyword(end+1, "over") {
		if m.ph.IsPunct(end+2, '(') {
			return m.matchingParen(end + 2)
		}
		return end + 2
	}
	return end
}

// caseEnd returns the END token of the CASE at token i.
func (m *queryMapper) caseEnd(i int) int {
	for depth := 0; i >= 0 && i < len(m.ph.Tokens); i++ {
		switch {
		case m.ph.IsPunct(i, '('):
			if i = m.matchingParen(i); i < 0 {
				return -1
			}
		case m.ph.IsPunct(i-1, '.'):
		case m.ph.IsKeyword(i, "case"):
			depth++
		case m.ph.IsKeyword(i, "end"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// typeEnd returns the last token of a type name that begins at token i.
func (m *queryMapper) typeEnd(i int) int {
	ph := &m.ph
	if !ph.IsName(i) || ph.IsKeyword(i, "interval") || ph.IsKeyword(i, "setof") || ph.IsKeyword(i, "national") {
		return -1
	}
	first := i
	i = ph.AfterQualifiedName(i) - 1
	switch {
	case ph.IsKeyword(i, "double") && ph.IsKeyword(i+1, "precision"), ph.IsKeyword(i+1, "varying"):
		i++
	}
	if ph.IsPunct(i+1, '(') {
		i = m.matchingParen(i + 1)
	}
	if (ph.IsKeyword(first, "timestamp") || ph.IsKeyword(first, "time")) && ph.AreKeywords(i+2, "time", "zone") {
		i += 3
	}
	for i >= 0 && ph.IsPunct(i+1, '[') {
		i = m.matchingParen(i + 1)
	}
	return i
}

// indirectionEnd returns the last token of an expression with subscripts or fields, as in a[1] or (a).b.
func (m *queryMapper) indirectionEnd(n parse.TreeNode, start int) int {
	i := m.exprEnd(n.Child("arg"), start)
	for range n.WrappedNodes("indirection") {
		switch {
		case i < 0:
			return -1
		case m.ph.IsPunct(i+1, '['):
			i = m.matchingParen(i + 1)
		case m.ph.IsPunct(i+1, '.'):
			i += 2
		default:
			return -1
		}
	}
	return i
}

// exprBegin returns the first token of an expression that ends at token end, or -1 if the start is unclear.
func (m *queryMapper) exprBegin(n parse.TreeNode, end int) int {
	at, infix := m.rootToken(n)
	if at < 0 || end < 0 {
		return -1
	}
	if m.ph.IsPunct(end, ')') {
		if open := m.matchingParen(end); at > open {
			return open
		}
	}
	if !infix {
		return at
	}
	switch {
	case n.Is("A_Expr") && n.Integer("kind") == opExpr && m.ph.Tokens[at].Kind == parse.OperatorToken:
		return m.exprBegin(n.Child("lexpr"), at-1)
	case n.Is("TypeCast"), n.Is("CollateClause"):
		return m.exprBegin(n.Child("arg"), at-1)
	}
	return -1
}

// itemSpans returns the first and last tokens of the n items of a list whose parenthesis or bracket opens at token i.
// itemSpans returns nil if the list does not have n items.
func (m *queryMapper) itemSpans(i, n int) [][2]int {
	end := m.matchingParen(i)
	if end < 0 {
		return nil
	}
	var all [][2]int
	first := i + 1
	for i++; i <= end; i++ {
		if i == end || m.ph.IsPunct(i, ',') {
			all = append(all, [2]int{first, i - 1})
			first = i + 1
			continue
		}
		if m.ph.IsPunct(i, '(') || m.ph.IsPunct(i, '[') {
			if i = m.matchingParen(i); i < 0 {
				return nil
			}
		}
	}
	if len(all) != n {
		return nil
	}
	return all
}
