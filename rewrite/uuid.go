package rewrite

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Sluice rewrites uuid_generate_v4() of the extension uuid-ossp to gen_random_uuid(). The two functions return random
// UUIDs of version 4.

// generateV4 is the name of uuid-ossp's function. A result column of a call has this name by default.
const generateV4 = "uuid_generate_v4"

// uuidRewriter rewrites the calls of uuid_generate_v4() in one statement.
type uuidRewriter struct {
	r     *rewriter
	ph    parse.TokenList
	pairs []int32
	taken []parse.Edit // the edits of other rules, sorted by Start
	// unchanged holds the calls that Sluice does not rewrite. The address of a call's node identifies the call.
	unchanged map[*byte]bool
	done      bool
}

// rewriteUUIDCalls rewrites all calls of uuid_generate_v4() in a statement to gen_random_uuid().
func (r *rewriter) rewriteUUIDCalls(p *statementPart) {
	if !p.uuids || !r.rules.Extensions {
		return
	}
	first := 0 // the index in r.edits of the statement's first edit
	if len(r.ends) > 0 {
		first = r.ends[len(r.ends)-1]
	}
	u := uuidRewriter{r: r, ph: r.statementTokens(p), taken: slices.Clone(r.edits[first:]), unchanged: map[*byte]bool{}}
	slices.SortStableFunc(u.taken, func(a, b parse.Edit) int { return a.Start - b.Start })
	u.pairs = u.ph.BracketPairs()
	u.visit(p.node)
	if u.done {
		r.addFinding(finding.Handled(finding.GenerateUUID, finding.Rewritten, finding.Info, "rewritten to gen_random_uuid()", p.st.Start))
	}
}

// isUUIDCall reports whether a node is a call of uuid_generate_v4() without further clauses. The function's name has no
// schema, or the schema public.
func isUUIDCall(call parse.TreeNode) bool {
	if !call.Is("FuncCall") {
		return false
	}
	names := call.Names("funcname")
	if !slices.Equal(names, []string{generateV4}) && !slices.Equal(names, []string{"public", generateV4}) {
		return false
	}
	for _, part := range []string{"args", "agg_order", "agg_filter", "over"} {
		if call.Child(part).Shape != nil {
			return false
		}
	}
	for _, flag := range []string{"agg_within_group", "agg_star", "agg_distinct", "func_variadic"} {
		if call.Flag(flag) {
			return false
		}
	}
	return true
}

// visit rewrites the calls in a node. If a result column has its name from a call, visit preserves the name by AS. If
// it cannot add the AS, it does not rewrite the call.
func (u *uuidRewriter) visit(m parse.TreeNode) {
	named := ""
	switch m.TypeName() {
	case "FuncCall":
		if isUUIDCall(m) {
			u.rewriteCall(m)
			return
		}
	case "SelectStmt":
		named = "target_list"
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		named = "returning_list"
	case "RangeFunction":
		u.keepColumnNames(m)
	}
	if named != "" {
		for target := range m.List(named) {
			u.addTargetAlias(target)
		}
	}
	for child := range m.Children() {
		u.visit(child)
	}
}

// keepColumnNames preserves the column names of a FROM item. A single function names its column after the item's alias,
// so keepColumnNames adds an alias. For ROWS FROM with several functions, keepColumnNames prevents the rewriting of
// calls.
func (u *uuidRewriter) keepColumnNames(item parse.TreeNode) {
	var calls []parse.TreeNode
	functions := 0
	for pair := range item.List("functions") {
		functions++
		for call := range pair.List("items") {
			if isUUIDCall(call) {
				calls = append(calls, call)
			}
		}
	}
	if len(calls) == 0 || functions == 1 && (item.Child("alias").Shape != nil || u.addFunctionAlias(item, calls[0])) {
		return
	}
	for _, call := range calls {
		u.unchanged[&call.Wire[0]] = true
	}
}

// addFunctionAlias adds the function's name as an alias to a FROM item of one call. It returns false if it cannot.
func (u *uuidRewriter) addFunctionAlias(item, call parse.TreeNode) bool {
	i := u.ph.TokenAt(call.Integer("location"))
	if i < 0 {
		return false
	}
	if i = u.ph.AfterQualifiedName(i); i >= len(u.pairs) || !u.ph.IsPunct(i, '(') || int(u.pairs[i]) <= i {
		return false
	}
	end := int(u.pairs[i])
	if item.Flag("is_rowsfrom") {
		if end++; !u.ph.IsPunct(end, ')') {
			return false
		}
	}
	if item.Flag("ordinality") {
		if end += 2; !u.ph.IsKeyword(end, "ordinality") {
			return false
		}
	}
	at := int(u.ph.Tokens[end].End)
	if u.isTaken(at, at) {
		return false
	}
	u.r.addEdits(parse.Edit{Start: at, End: at, Text: " AS " + generateV4})
	from := sampleNamed().Child("stmts").Child("stmt").Child("from_clause")
	u.r.meant.Set(item, "alias", from.Values("alias")...)
	return true
}

var sampleNamed = parse.LazyTree("SELECT FROM f() AS uuid_generate_v4")

// addTargetAlias adds the function's name as an alias to a result column that would have its name from a call.
func (u *uuidRewriter) addTargetAlias(target parse.TreeNode) {
	if !target.Is("ResTarget") || target.Text("name") != "" {
		return
	}
	_, namer, _ := parse.FigureNodeName(target.Child("val"))
	if !isUUIDCall(namer) {
		return
	}
	end := u.targetEnd(u.ph.TokenAt(target.Integer("location")))
	if end < 0 || u.isTaken(int(u.ph.Tokens[end].End), int(u.ph.Tokens[end].End)) {
		u.unchanged[&namer.Wire[0]] = true
		return
	}
	at := int(u.ph.Tokens[end].End)
	u.r.addEdits(parse.Edit{Start: at, End: at, Text: " AS " + generateV4})
	u.r.meant.Set(target, "name", parse.Value{Bytes: []byte(generateV4)})
}

// targetEnd returns the last token of the result column that begins at token start, or -1 if the end is unclear. In
// INSERT ... SELECT, ON CONFLICT may follow the column.
func (u *uuidRewriter) targetEnd(start int) int {
	end := u.ph.BareItemEnd(start, func(i int) int { return int(u.pairs[i]) })
	for i := max(start, 0); i <= end; i++ {
		if u.ph.IsKeyword(i, "on") && !u.ph.IsPunct(i-1, '.') {
			return i - 1
		}
		i = max(i, int(u.pairs[i]))
	}
	return end
}

// isTaken reports whether another rule edits the text between two byte offsets.
func (u *uuidRewriter) isTaken(start, end int) bool {
	i, _ := slices.BinarySearchFunc(u.taken, end, func(e parse.Edit, at int) int { return e.Start - at })
	return i > 0 && u.taken[i-1].End > start
}

// rewriteCall rewrites one call of uuid_generate_v4().
func (u *uuidRewriter) rewriteCall(call parse.TreeNode) {
	i := u.ph.TokenAt(call.Integer("location"))
	if i < 0 || u.unchanged[&call.Wire[0]] {
		return
	}
	start, end := int(u.ph.Tokens[i].Start), int(u.ph.Tokens[u.ph.AfterQualifiedName(i)-1].End)
	if u.isTaken(start, end) {
		return
	}
	u.done = true
	u.r.addEdits(parse.Edit{Start: start, End: end, Text: "gen_random_uuid"})
	u.r.meant.Set(call, "funcname", sampleGenerate().Child("stmts").Child("stmt").Child("target_list").Child("val").Values("funcname")...)
}

var sampleGenerate = parse.LazyTree("SELECT gen_random_uuid()")
