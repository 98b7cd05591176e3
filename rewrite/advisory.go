package rewrite

import (
	"math"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DSQL has no advisory locks. Sluice stores advisory locks of sessions as rows of a table (Rules.Advisory). It carries
// out a SELECT of one lock function, which is what tools send. It refuses locks of a transaction, shared locks, and
// calls within expressions.

// AdvisoryKey is the configuration key that sets Rules.Advisory.
const AdvisoryKey = "rewrite.advisory_locks"

// AdvisoryAction says what an advisory lock function does with the lock.
type AdvisoryAction uint8

const (
	LockAdvisory AdvisoryAction = iota
	TryAdvisory
	UnlockAdvisory
	UnlockAllAdvisory
)

// AdvisoryCall is a SELECT of one advisory lock function. Sluice itself carries it out.
type AdvisoryCall struct {
	Verb AdvisoryAction
	// Column is the name of the SELECT's result column.
	Column string
	// Args holds the lock's key: one bigint argument, or two integer arguments. Args is empty for UnlockAllAdvisory.
	Args []AdvisoryArg
}

// AdvisoryArg is one argument of an advisory lock function. It is the lock's key, or one of the two parts of the key.
type AdvisoryArg struct {
	// Param is the number, from 1, of the parameter with the argument's value. If it is 0, the value is NULL or Value.
	Param int
	Value int64
	Null  bool
	// Type is the OID of the type to which the text casts the parameter, or 0 if the text has no cast.
	Type uint32
}

// MaxParam returns the greatest parameter number in the SELECT, or 0 if it has no parameter.
func (a *AdvisoryCall) MaxParam() (n int) {
	for _, arg := range a.Args {
		n = max(n, arg.Param)
	}
	return n
}

// These are the OIDs of the types that the parameters of an advisory lock's key may have.
const (
	Int8OID = 20
	Int2OID = 21
	Int4OID = 23
)

// ArgTypeOID returns the OID of the lock function's argument type: integer for two arguments, bigint for one.
func (a *AdvisoryCall) ArgTypeOID() uint32 {
	if len(a.Args) == 2 {
		return Int4OID
	}
	return Int8OID
}

// advisoryVerbs maps the names of the lock functions that Sluice carries out to what the functions do.
var advisoryVerbs = map[string]AdvisoryAction{"pg_advisory_lock": LockAdvisory, "pg_try_advisory_lock": TryAdvisory,
	"pg_advisory_unlock": UnlockAdvisory, "pg_advisory_unlock_all": UnlockAllAdvisory}

// inTable is the Finding.Action for an advisory lock that Sluice carries out.
const inTable = "carried out by a row of the table sluice.advisory_locks, with a lease"

// planAdvisoryLock plans a call of a lock function, which Sluice itself carries out. It refuses other uses of advisory
// locks. It returns true for these two, and no other rule then applies. For other statements it returns false.
func (r *rewriter) planAdvisoryLock(p *statementPart) bool {
	if !p.advisory || !r.rules.Advisory {
		return false
	}
	a := parseAdvisoryCall(p.node)
	p.advisory = false
	if a == nil || a.Verb != UnlockAllAdvisory && len(r.parts) > 1 {
		p.st.Refusal, p.st.Pin = refusedAdvisory, NoPin
		if a != nil {
			p.st.Refusal = refusedAdvisoryInString
		}
		f := finding.Handled(finding.AdvisoryLock, finding.Rejected, finding.Error, "refused: only session locks are kept in a table, each by a SELECT of its own", p.st.Start)
		f.Remedy = strings.ToLower(p.st.Refusal.Hint[:1]) + strings.TrimSuffix(p.st.Refusal.Hint[1:], ".")
		r.addFinding(f)
		return true
	}
	r.answerLocally(p, Locks, "SELECT 1")
	p.st.Advisory = a
	r.addFinding(finding.Handled(finding.AdvisoryLock, finding.Answered, finding.Info, inTable, p.st.Start))
	return true
}

var (
	refusedAdvisory = &Refusal{Code: "0A000", Message: "advisory locks of this kind are not supported", Unsent: true,
		Detail: "Sluice keeps exclusive advisory locks of sessions (" + AdvisoryKey + "), and DSQL has none.",
		Hint: "Send SELECT pg_advisory_lock(key), pg_try_advisory_lock(key) or pg_advisory_unlock(key), with a constant or a parameter and nothing else in the statement." +
			" There are no locks of a transaction (pg_advisory_xact_lock), and no shared ones."}
	refusedAdvisoryInString = &Refusal{Code: "0A000", Message: "advisory locks cannot be taken or released in a string of several statements", Unsent: true,
		Detail: "Sluice keeps advisory locks itself (" + AdvisoryKey + "), and DSQL has none.", Hint: "Send the statement by itself."}
)

// parseAdvisoryCall returns the lock call of a SELECT, or nil if Sluice cannot carry it out.
func parseAdvisoryCall(m parse.TreeNode) *AdvisoryCall {
	if !m.Is("SelectStmt") {
		return nil
	}
	call, column := soleCall(m)
	verb, ok := advisoryVerbs[parse.CalledFunction(call)]
	if !ok {
		return nil
	}
	a := &AdvisoryCall{Verb: verb, Column: column}
	n := len(call.ValuesIfPresent("args"))
	if (n == 0) != (verb == UnlockAllAdvisory) || n > 2 {
		return nil
	}
	for node := range call.List("args") {
		arg, ok := parseAdvisoryArg(node, n == 2)
		if !ok {
			return nil
		}
		a.Args = append(a.Args, arg)
	}
	// Parameters must be numbered from 1 without a gap, because Sluice cannot know the type of a missing parameter.
	if n == 2 && a.Args[0].Param == 0 && a.Args[1].Param > 1 || n > 0 && a.Args[0].Param > 2 || n == 1 && a.Args[0].Param > 1 ||
		n == 2 && a.Args[0].Param == 2 && a.Args[1].Param != 1 || n == 2 && a.Args[1].Param > 2 {
		return nil
	}
	return a
}

// parseAdvisoryArg reads one argument of a lock function: an integer if narrow is set, otherwise a bigint.
func parseAdvisoryArg(node parse.TreeNode, narrow bool) (arg AdvisoryArg, ok bool) {
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	if narrow {
		least, most = math.MinInt32, math.MaxInt32
	}
	if node.Is("TypeCast") {
		kind := node.Child("type_name")
		if kind.Child("array_bounds").Shape != nil || kind.Child("typmods").Shape != nil || kind.Flag("setof") {
			return arg, false
		}
		switch names := kind.Names("names"); {
		case isBuiltinTypeName(names, "int8") && !narrow:
			arg.Type = Int8OID
		case isBuiltinTypeName(names, "int4"):
			arg.Type, least, most = Int4OID, math.MinInt32, math.MaxInt32
		default:
			return arg, false
		}
		node = node.Child("arg")
	}
	switch {
	case node.Is("ParamRef"):
		arg.Param = node.Integer("number")
		return arg, arg.Param > 0
	case !node.Is("A_Const"):
		return arg, false
	case node.Flag("isnull"):
		arg.Null = true
		return arg, true
	}
	text := constantNumber(node)
	value, err := strconv.ParseInt(text, 10, 64)
	// A number too great for integer has the type bigint. pg_advisory_lock(integer, integer) does not accept it.
	if err != nil || value < least || value > most {
		return arg, false
	}
	arg.Value = value
	return arg, true
}

// constantNumber returns the text of a number constant, or of a string constant without outer blanks.
func constantNumber(node parse.TreeNode) string {
	switch {
	case node.Child("ival").Shape != nil:
		return strconv.Itoa(node.Child("ival").Integer("ival"))
	case node.Child("fval").Shape != nil:
		return node.Child("fval").Text("fval")
	}
	return strings.Trim(node.Child("sval").Text("sval"), " \t\n\r\f\v")
}

// isBuiltinTypeName reports whether names, the parts of a type's name, mean the builtin type want of pg_catalog.
func isBuiltinTypeName(names []string, want string) bool {
	switch len(names) {
	case 1:
		return names[0] == want
	case 2:
		return names[0] == "pg_catalog" && names[1] == want
	}
	return false
}
