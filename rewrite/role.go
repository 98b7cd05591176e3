package rewrite

// The role of a session, for a server that has one for each session: that of Rules.Role.

const roleRemedy = "connect through a Sluice of that role (backend.user): one process has one role, for all of its clients; or give the role its rights by GRANT; inside a block there is SET LOCAL ROLE, where the cluster takes it"

// RoleHint is told to who asks for another role.
var RoleHint = hint(roleRemedy)

// role finds statements that want another role for the session. One that names the role that the
// session has, or none, is taken for a reset: with its session's own role in force it changes nothing,
// and the relay knows whether that is so.
func (r *rewriter) role(p *part) {
	if len(p.st.Changes) != 1 {
		return
	}
	c := &p.st.Changes[0]
	switch {
	case c.Name != "role" && c.Name != "session_authorization":
	case c.Name == "role" && c.Text == "none", c.Text != "" && c.Text == r.rules.Role, c.Default:
		p.st.Changes = []Change{{Action: Reset, Name: c.Name, Default: true}}
		p.st.Pin, p.st.Hint = NoPin, RoleHint // told where another role is in force, and the server has to reset it
	case c.Action == Set:
		r.find(found(SetRole, p.st.Start))
	default:
		p.st.Hint = RoleHint
	}
}
