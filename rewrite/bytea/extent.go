package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// spanFinder finds the first and last token of the expressions and lists in one statement. The parse tree does not show
// them: it has only one position for each node, and no parentheses.
type spanFinder struct {
	parse.TokenList
	// pairs maps the index of each parenthesis and bracket token to the index of its counterpart.
	pairs []int32
}

func newSpanFinder(tokens parse.TokenList) spanFinder {
	return spanFinder{TokenList: tokens, pairs: tokens.BracketPairs()}
}

// tokenOf returns the index of the token at a node's position, or -1 if there is none.
func (f *spanFinder) tokenOf(node parse.TreeNode) int { return f.TokenAt(node.Integer("location")) }

// matchingParen returns the index of the counterpart of the parenthesis at token i, or -1 if there is none.
func (f *spanFinder) matchingParen(i int) int {
	if i < 0 || i >= len(f.pairs) {
		return -1
	}
	return int(f.pairs[i])
}

// qualifiedNameEnd returns the last token of the qualified name, such as a.b.c, that begins at token i.
func (f *spanFinder) qualifiedNameEnd(i int) int {
	if i < 0 {
		return -1
	}
	return f.AfterQualifiedName(i) - 1
}

// rootToken returns the token at the position that the tree gives for an expression. infix reports that the token is an
// operator between operands, so that the expression begins before it.
func (f *spanFinder) rootToken(n parse.TreeNode) (at int, infix bool) {
	at = -1
	switch n.TypeName() {
	case "ColumnRef", "ParamRef", "A_Const", "FuncCall", "CaseExpr", "CoalesceExpr", "MinMaxExpr",
		"A_ArrayExpr", "RowExpr", "SQLValueFunction", "SetToDefault":
		return f.tokenOf(n), false
	case "SubLink":
		return f.tokenOf(n), n.Child("testexpr").Shape != nil
	case "TypeCast":
		at = f.tokenOf(n)
		return at, at >= 0 && f.Tokens[at].Kind == parse.CastToken
	case "A_Expr":
		return f.tokenOf(n), n.Child("lexpr").Shape != nil
	case "NullTest", "BooleanTest", "CollateClause":
		return f.tokenOf(n), true
	case "BoolExpr":
		return f.tokenOf(n), !f.IsKeyword(f.tokenOf(n), "not")
	}
	return at, false
}

// exprEnd returns the last token of the expression n, which begins at token start. It returns -1 if the end is unclear.
func (f *spanFinder) exprEnd(n parse.TreeNode, start int) int {
	if n.Is("A_Indirection") {
		return f.indirectionEnd(n, start)
	}
	at, infix := f.rootToken(n)
	if at < 0 || start < 0 {
		return f.literalEnd(n, start)
	}
	if f.IsPunct(start, '(') {
		switch close := f.matchingParen(start); {
		case !infix && at >= start && at <= close, infix && at < close:
			return close
		case !infix:
			return -1
		}
	} else if !infix && at != start {
		return -1
	}
	if infix {
		return f.infixEnd(n, at)
	}
	return f.prefixEnd(n, at)
}

// infixEnd returns the last token of an expression whose operator, between operands, is at token at.
func (f *spanFinder) infixEnd(n parse.TreeNode, at int) int {
	switch {
	case n.Is("TypeCast"):
		return f.typeEnd(at + 1)
	case n.Is("A_Expr") && n.Integer("kind") == opExpr && f.Tokens[at].Kind == parse.OperatorToken:
		return f.exprEnd(n.Child("rexpr"), at+1)
	}
	return -1
}

// prefixEnd returns the last token of an expression whose first token is at.
func (f *spanFinder) prefixEnd(n parse.TreeNode, at int) int {
	switch n.TypeName() {
	case "ColumnRef":
		return f.AfterQualifiedName(at) - 1
	case "ParamRef", "SetToDefault":
		return at
	case "A_Const":
		if f.Tokens[at].Kind == parse.OperatorToken {
			at++
		}
		return f.stringEnd(at)
	case "FuncCall":
		return f.callEnd(f.AfterQualifiedName(at))
	case "SQLValueFunction", "CoalesceExpr", "MinMaxExpr":
		if f.IsPunct(at+1, '(') {
			return f.matchingParen(at + 1)
		}
		return at
	case "CaseExpr":
		return f.caseEnd(at)
	case "A_ArrayExpr", "RowExpr", "SubLink", "TypeCast":
		return f.matchingParen(at + 1)
	case "A_Expr":
		return f.infixEnd(n, at)
	}
	return -1
}

// literalEnd returns the last token of a constant that follows its type, as in date '2026-01-01'.
func (f *spanFinder) literalEnd(n parse.TreeNode, start int) int {
	if !n.Is("TypeCast") || start < 0 || !f.IsName(start) {
		return -1
	}
	at := f.tokenOf(n.Child("arg"))
	if at != f.AfterQualifiedName(start) {
		return -1
	}
	return f.stringEnd(at)
}

// stringEnd returns the last token of the constant at token at. A string constant may continue on the next line.
func (f *spanFinder) stringEnd(at int) int {
	if at >= len(f.Tokens) {
		return -1
	}
	for f.Tokens[at].Kind == parse.StringToken && at+1 < len(f.Tokens) && f.Tokens[at+1].Kind == parse.StringToken {
		at++
	}
	return at
}

// callEnd returns the last token of a function call. Token i is the parenthesis that opens its arguments.
func (f *spanFinder) callEnd(i int) int {
	if !f.IsPunct(i, '(') {
		return -1
	}
	end := f.matchingParen(i)
	if f.AreKeywords(end+1, "within", "group") {
		end = f.matchingParen(end + 3)
	}
	if end > 0 && f.IsKeyword(end+1, "filter") && f.IsPunct(end+2, '(') {
		end = f.matchingParen(end + 2)
	}
	if end > 0 && f.IsKeyword(end+1, "over") {
		if f.IsPunct(end+2, '(') {
			return f.matchingParen(end + 2)
		}
		return end + 2
	}
	return end
}

// caseEnd returns the token END that closes the CASE at token i, or -1 if there is none.
func (f *spanFinder) caseEnd(i int) int {
	for depth := 0; i >= 0 && i < len(f.Tokens); i++ {
		switch {
		case f.IsPunct(i, '('):
			if i = f.matchingParen(i); i < 0 {
				return -1
			}
		case f.IsPunct(i-1, '.'):
		case f.IsKeyword(i, "case"):
			depth++
		case f.IsKeyword(i, "end"):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// typeEnd returns the last token of the type name that begins at token i, or -1 if the end is unclear.
func (f *spanFinder) typeEnd(i int) int {
	ph := &f.TokenList
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
		i = f.matchingParen(i + 1)
	}
	if (ph.IsKeyword(first, "timestamp") || ph.IsKeyword(first, "time")) && ph.AreKeywords(i+2, "time", "zone") {
		i += 3
	}
	for i >= 0 && ph.IsPunct(i+1, '[') {
		i = f.matchingParen(i + 1)
	}
	return i
}

// indirectionEnd returns the last token of an expression with subscripts or fields, as in a[1] or (a).b.
func (f *spanFinder) indirectionEnd(n parse.TreeNode, start int) int {
	i := f.exprEnd(n.Child("arg"), start)
	for range n.WrappedNodes("indirection") {
		switch {
		case i < 0:
			return -1
		case f.IsPunct(i+1, '['):
			i = f.matchingParen(i + 1)
		case f.IsPunct(i+1, '.'):
			i += 2
		default:
			return -1
		}
	}
	return i
}

// exprBegin returns the first token of the expression n, which ends at token end. It returns -1 if the start is
// unclear.
func (f *spanFinder) exprBegin(n parse.TreeNode, end int) int {
	at, infix := f.rootToken(n)
	if at < 0 || end < 0 {
		return -1
	}
	if f.IsPunct(end, ')') {
		if open := f.matchingParen(end); at > open {
			return open
		}
	}
	if !infix {
		return at
	}
	switch {
	case n.Is("A_Expr") && n.Integer("kind") == opExpr && f.Tokens[at].Kind == parse.OperatorToken:
		return f.exprBegin(n.Child("lexpr"), at-1)
	case n.Is("TypeCast"), n.Is("CollateClause"):
		return f.exprBegin(n.Child("arg"), at-1)
	}
	return -1
}

// itemSpans returns the first and last token of each of the n items of a list. Token i is the parenthesis or bracket
// that opens the list. itemSpans returns nil if the list does not have n items.
func (f *spanFinder) itemSpans(i, n int) [][2]int {
	end := f.matchingParen(i)
	if end < 0 {
		return nil
	}
	all := make([][2]int, 0, n)
	first := i + 1
	for i++; i <= end; i++ {
		if i == end || f.IsPunct(i, ',') {
			all = append(all, [2]int{first, i - 1})
			first = i + 1
			continue
		}
		if f.IsPunct(i, '(') || f.IsPunct(i, '[') {
			if i = f.matchingParen(i); i < 0 {
				return nil
			}
		}
	}
	if len(all) != n {
		return nil
	}
	return all
}

// itemEnd returns the last token of a list item that begins at token i. The list itself is not in parentheses.
func (f *spanFinder) itemEnd(i int) int { return f.BareItemEnd(i, f.matchingParen) }

// rowItemSpans returns the first and last token of each element of a row, such as ROW(a, b).
func (f *spanFinder) rowItemSpans(row parse.TreeNode) [][2]int {
	at := f.tokenOf(row)
	if !f.IsPunct(at, '(') {
		at++
	}
	return f.itemSpans(at, len(row.Values("args")))
}

// targetEnd returns the last token of a result column's expression, or -1 if the end is unclear.
func (f *spanFinder) targetEnd(target parse.TreeNode) int {
	start := f.tokenOf(target)
	if end := f.exprEnd(target.Child("val"), start); end >= 0 {
		return end
	}
	end := f.itemEnd(start)
	if end > start && target.Text("name") != "" {
		if end--; f.IsKeyword(end, "as") {
			end--
		}
	}
	return end
}
