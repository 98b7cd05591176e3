package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// recordSequenceCall records a call of currval or lastval.
func (a *analysis) recordSequenceCall(name string, call parse.Message) {
	if name == "currval" || name == "lastval" {
		a.questions = append(a.questions, question{name, call})
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
			a.sequence = `currval of sequence "` + relation(arg.Child("sval").Text("sval")) + `"`
		}
	}
}

// question is a call of currval or lastval in a statement.
type question struct {
	name string
	call parse.Message // absent for the notation (x).currval
}

// relation returns the name of a relation without its schema. text has the syntax of regclass, for example
// `public.s` or `"My Sequence"`.
func relation(text string) string {
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

// MayAdvance reports whether a text may advance a sequence, by a default, a trigger or a function. Every text
// that is not surely a read may.
func (p *Plan) MayAdvance() bool {
	return p.unsure || p.Kind >= Write
}
