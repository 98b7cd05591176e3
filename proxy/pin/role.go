package pin

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
)

// OnlyResetsRole reports whether a statement does nothing but return to the session's own role, as RESET ROLE does.
func OnlyResetsRole(st *rewrite.Statement) bool {
	return len(st.Changes) == 1 && st.Changes[0].Action == rewrite.Reset && ChangesRole(&st.Changes[0])
}

// ChangesRole reports whether a change sets or resets the role or the session authorization. In PostgreSQL, RESET
// SESSION AUTHORIZATION resets the role too, so that either reset undoes a SET LOCAL ROLE.
func ChangesRole(c *rewrite.SettingChange) bool {
	return c.Name == "role" || c.Name == "session_authorization"
}

// SetsRole reports whether a statement sets another role, for its transaction or longer. While the statement's
// answer is pending, Sluice does not know the role, so that the server gets a RESET ROLE.
func SetsRole(st rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.SettingChange) bool { return c.Action <= rewrite.SetLocal && ChangesRole(&c) })
}
