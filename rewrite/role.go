package rewrite

import "github.com/sluice-proxy/sluice/rewrite/finding"

// On the server every session has the same role, Rules.Role.

// RoleHint is the hint for a client that requests a role which its backend does not have.
var RoleHint = finding.Sentence(finding.Remedy(finding.SetRole))

// rewriteSetRole handles statements that set the session's role. A statement that names Rules.Role or none becomes a
// reset, which changes nothing unless another role is in force. Other roles are reported as findings.
func (r *rewriter) rewriteSetRole(p *statementPart) {
	if len(p.st.Changes) != 1 {
		return
	}
	c := &p.st.Changes[0]
	switch {
	case c.Name != "role" && c.Name != "session_authorization":
	case c.Name == "role" && c.Text == "none", c.Text != "" && c.Text == r.rules.Role, c.Default:
		p.st.Changes = []SettingChange{{Action: Reset, Name: c.Name, Default: true}}
		p.st.Pin, p.st.Hint = NoPin, RoleHint // hint for the server's error if another role is in force and the server must reset it
	case c.Action == Set:
		r.addFinding(finding.Refused(finding.SetRole, p.st.Start))
	default:
		p.st.Hint = RoleHint
	}
}
