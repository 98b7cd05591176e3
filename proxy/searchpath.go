package proxy

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The values of search_path, and what a session's is. Nothing here asks a server.
//
// A path decides which relation a name without a schema stands for, and so whether its
// columns are mapped. Where the text of a value cannot be read for certain, the answer is
// that nobody knows: the planner then refuses names that are mapped in any schema.

// ownSchema stands in a search path for the schema of the user's name.
const ownSchema = "$user"

// rawPath reads a search path as a server shows it: `"$user", public`. ok is false for what is
// no list of names.
func rawPath(value string) (path []string, ok bool) {
	return constantPath(settings.StartupSQL("search_path", value))
}

// constantPath reads a search path as a SET has it: a list of constants. ok is false for what
// is none. Constants are what the planner writes of a SET, whatever the client wrote: names
// are folded already, and "a, b" in one constant is one schema of that odd name.
func constantPath(sql string) (path []string, ok bool) {
	path = []string{}
	for rest := sql; ; {
		rest = strings.TrimLeft(rest, " ")
		var name string
		if name, rest, ok = leadingConstant(rest); !ok {
			return nil, false
		}
		if name != "" { // the empty name is no schema's
			path = append(path, name)
		}
		rest = strings.TrimLeft(rest, " ")
		if rest == "" {
			return path, true
		}
		if rest[0] != ',' {
			return nil, false
		}
		rest = rest[1:]
	}
}

// leadingConstant reads the string constant with which a text begins, as settings.QuoteLiteral
// and the planner write them. rest is the text behind it. ok is false where the text begins
// otherwise, or holds an escape of another kind than a doubled backslash.
func leadingConstant(text string) (value, rest string, ok bool) {
	escapes := strings.HasPrefix(text, "E'")
	if escapes {
		text = text[1:]
	}
	if !strings.HasPrefix(text, "'") {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && escapes:
			if i++; i == len(text) || text[i] != '\\' {
				return "", "", false
			}
		case c == '\'':
			if i+1 == len(text) || text[i+1] != '\'' {
				return b.String(), text[i+1:], true
			}
			i++
		}
		b.WriteByte(text[i])
	}
	return "", "", false
}

// movesNames reports whether changes of settings may have names mean other relations. A
// change without a name is one of anything.
func movesNames(changes []rewrite.Change) bool {
	return slices.ContainsFunc(changes, func(c rewrite.Change) bool {
		switch c.Name {
		case "", "search_path", "role", "session_authorization", settings.Unseen.Name:
			return true
		}
		return c.Action == rewrite.ResetAll || c.Action == rewrite.DiscardAll
	})
}

// pathInForce is the search path that a client's settings say, or usual where they say none.
// user is the role of the backends, which $user stands for as long as the client has not
// taken another one. ok is false where they do not tell it. The last change that the
// transaction has staged counts before what is in force.
func pathInForce(c *settings.Client, user string, usual []string) (path []string, ok bool) {
	sql, ok := pathSetting(c)
	if !ok {
		return nil, false
	}
	if path = usual; sql != "" {
		if path, ok = constantPath(sql); !ok {
			return nil, false
		}
	}
	if !slices.Contains(path, ownSchema) {
		return path, true
	}
	if c.InForce.SQL["role"] != "" || c.Staged.MayHave("role") || c.Staged.MayHave("session_authorization") {
		return nil, false
	}
	path = slices.Clone(path)
	for i, name := range path {
		if name == ownSchema {
			path[i] = user
		}
	}
	return path, true
}

// pathSetting is the value of search_path as SQL; "" for the server's own. ok is false behind
// a change of settings whose name or value nobody has read. A reset inside a transaction
// returns to the client's startup value.
func pathSetting(c *settings.Client) (sql string, ok bool) {
	for _, change := range slices.Backward(c.Staged.Changes) {
		switch {
		case change.Name == "" && change.Action <= rewrite.SetLocal, change.Name == settings.Unseen.Name:
			return "", false
		case change.Action == rewrite.ResetAll, change.Action == rewrite.DiscardAll, change.Name == "search_path" && (change.Action == rewrite.Reset || change.Default):
			return c.Startup.SQL["search_path"], true
		case change.Name == "search_path":
			return change.SQL, change.SQL != ""
		}
	}
	return c.InForce.SQL["search_path"], true
}
