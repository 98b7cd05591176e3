package script

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Plan says what happens to each statement of a multi-statement query. It is built once per query, from the session's
// state at that time.
type Plan struct {
	Query *rewrite.Plan // of the client's text
	Steps []Step        // one for each statement
}

// AnswersAll reports whether Sluice answers all statements of the query, so that the server gets none.
func (p *Plan) AnswersAll() bool {
	return !slices.ContainsFunc(p.Steps, func(st Step) bool { return !st.IsUnsent() })
}

// Substitutes returns what the server gets instead of each statement.
func (p *Plan) Substitutes() []rewrite.Substitute {
	all := make([]rewrite.Substitute, len(p.Steps))
	for i := range p.Steps {
		all[i] = p.Steps[i].substitute()
	}
	return all
}

// ChangesText reports whether the server gets something other than the i-th statement, or a BEGIN with other modes.
func (p *Plan) ChangesText(i int) bool {
	st := &p.Steps[i]
	return st.IsUnsent() || st.SQL != "" && !st.begin
}

// Step says what happens to one statement of a multi-statement query. The zero value sends it to the server.
type Step struct {
	Local      bool                  // Sluice answers it
	Err        *wire.Error           // Sluice answers it, with this error
	SQL        string                // SQL that the server gets instead
	Tag        []byte                // tag for the client instead of the tag of SQL
	Set        rewrite.SettingChange // setting that SQL sets
	Warn       bool                  // warn of a weaker isolation level before the server's answer
	SetsConfig bool                  // the server gets a set_config as a SET, and Sluice makes the row
	// Answer has the frames of the answer to a set_config, once Sluice has made it. A replay sends them again.
	Answer []byte
	begin  bool              // a BEGIN that is sent with other modes
	tx     rewrite.TxControl // these modes
}

// IsUnsent reports whether the statement itself is not sent to the server, because Sluice answers it.
func (p *Step) IsUnsent() bool { return p.Local || p.Err != nil }

// isPlain reports whether the server gets the statement unchanged, and the client the server's answer.
func (p *Step) isPlain() bool { return !p.IsUnsent() && p.SQL == "" && !p.SetsConfig && !p.Warn }

// substitute returns what the server gets instead of a statement. For an error the substitute is a query that fails, so
// that the server skips the rest. For a statement that Sluice answers it is a query without effect. Otherwise it is
// another statement.
func (p *Step) substitute() rewrite.Substitute {
	switch {
	case p.Err != nil:
		return rewrite.FailingSubstitute
	case p.Local:
		return rewrite.AnsweredSubstitute
	}
	return rewrite.Substitute{SQL: p.SQL, Tx: p.tx}
}

// MatchesTag reports whether a command tag that begins with verb ("": no tag) fits the server's answer to the step.
func (p *Step) MatchesTag(verb string) bool {
	switch {
	case p.Err != nil: // the server should have failed
		return false
	case p.Local:
		return verb == "SHOW" // rewrite.AnsweredSubstitute
	case p.SetsConfig, p.Tag != nil:
		return verb == "SET"
	}
	return true
}
