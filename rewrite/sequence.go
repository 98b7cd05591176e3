package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// recordSequenceCall records a call of currval or lastval in a statement. It ignores any other function.
func (a *analysis) recordSequenceCall(name string, call parse.TreeNode) {
	if name == "currval" || name == "lastval" {
		a.questions = append(a.questions, sequenceStateCall{name, call})
	}
	switch {
	case a.sequence != "":
	case name == "lastval":
		a.sequence = "lastval"
	case name == "currval":
		a.sequence = "currval of a sequence"
		if call.Shape == nil {
			return
		}
		arg := call.Child("args")
		if arg.Is("TypeCast") {
			arg = arg.Child("arg")
		}
		if arg.Is("A_Const") {
			a.sequence = `currval of sequence "` + baseRelationName(arg.Child("sval").Text("sval")) + `"`
		}
	}
}

// sequenceStateCall is a call of currval or lastval, which read the session's state of a sequence.
type sequenceStateCall struct {
	name string
	call parse.TreeNode // absent for the notation (x).currval
}

// baseRelationName returns the name of a relation without its schema. text is the name in the syntax of regclass, for
// example `public.s` or `"My Sequence"`.
func baseRelationName(text string) string {
	if i := strings.LastIndex(text, `."`); i >= 0 {
		text = text[i+1:]
	} else if !strings.HasSuffix(text, `"`) {
		text = text[strings.LastIndexByte(text, '.')+1:]
	}
	if len(text) >= 2 && text[0] == '"' {
		return strings.ReplaceAll(text[1:len(text)-1], `""`, `"`)
	}
	return strings.ToLower(text)
}

// MayAdvanceSequence reports whether a text may advance a sequence, by a default, a trigger or a function. It returns
// true for every text that is not certainly a read.
func (p *Plan) MayAdvanceSequence() bool {
	return p.unsure || p.Kind >= Write
}
