// Package notice makes the notices and warnings that Sluice itself sends to a client. The client's client_min_messages
// says which of them the client gets.
package notice

import (
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Code and warningCode are the SQLSTATEs that PostgreSQL gives notices and warnings without a specific code.
const (
	Code        = "00000"
	warningCode = "01000"
)

// minLevel returns the client's client_min_messages in lower case, or "" if Sluice does not know the value.
func minLevel(set *settings.Client) string {
	const name = "client_min_messages"
	if !set.AnswersShow(name) {
		return ""
	}
	return strings.ToLower(set.ShownValue(name))
}

// Wanted reports whether the client gets messages of level NOTICE. If only the server has the client's
// client_min_messages, Wanted assumes the default, with which the client gets them.
func Wanted(set *settings.Client) bool {
	level := minLevel(set)
	return level != "warning" && level != "error"
}

// WarningsWanted reports whether the client gets messages of level WARNING, as Wanted does for NOTICE.
func WarningsWanted(set *settings.Client) bool { return minLevel(set) != "error" }

// Frames returns one NoticeResponse for each notice of a statement, which precede the statement's command tag. It
// returns nil for a client that does not want notices.
func Frames(set *settings.Client, st *rewrite.Statement) (frames [][]byte) {
	if len(st.Notices) == 0 || !Wanted(set) {
		return nil
	}
	for _, n := range st.Notices {
		e := wire.Error{Code: Code, Message: n.Message, Detail: n.Detail}
		frames = append(frames, e.AppendNotice(nil, "NOTICE"))
	}
	return frames
}

// WarningFrames returns the warning that precedes the command tag of a statement for which the server got another one.
// It returns nil for no warning, and for a client that does not want warnings.
func WarningFrames(set *settings.Client, st *rewrite.Statement) [][]byte {
	if st.Warning == nil || !WarningsWanted(set) {
		return nil
	}
	e := wire.Error{Code: warningCode, Message: st.Warning.Message, Detail: st.Warning.Detail}
	return [][]byte{e.AppendNotice(nil, "WARNING")}
}
