package rewrite

import "github.com/sluice-proxy/sluice/rewrite/finding"

// All sessions have the same role on the server: Rules.Role.

// RoleHint is the hint for a client that requests a role that its backend does not have.
var RoleHint = finding.Sentence(finding.Remedy(finding.SetRole))

// rewriteSetRole handles statements that set the session's role. A statement that names Rules.Role or NONE becomes a
// reset. The reset changes nothing, unless the session has another role. Any other role causes a finding.
func (r *rewriter) rewriteSetRole(p *statementPart) {
	if len(p.st.Changes) != 1 {
		return
	}
	c := &p.st.Changes[0]
	switch {
	case c.Name != "role" && c.Name != "session_authorization":
	case c.Name == "role" && c.Text == "none", c.Text != "" && c.Text == r.rules.Role, c.Default:
		p.st.Changes = []SettingChange{{Action: Reset, Name: c.Name, Default: true}}
		p.st.Pin, p.st.Hint = NoPin, RoleHint // the hint is for the server's error if it must reset another role
	case c.Action == Set:
		r.addFinding(finding.Refused(finding.SetRole, p.st.Start))
	default:
		p.st.Hint = RoleHint
	}
}
