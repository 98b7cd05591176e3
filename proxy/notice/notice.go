// Package notice makes the notices, warnings and parameter reports that Sluice itself sends to a client. The client's
// client_min_messages says which notices and warnings the client gets.
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

// InsertReports inserts ParameterStatus frames before the ReadyForQuery at the end of data, for settings that
// Sluice stores. data is not changed; the result may be data itself.
func InsertReports(c *settings.Client, data []byte) []byte {
	n := len(data) - wire.HeaderLen - 1
	if !c.MayHaveReports() || n < 0 || data[n] != wire.ReadyForQuery {
		return data
	}
	return append(AppendReports(c, data[:n:n], data[n+wire.HeaderLen]), data[n:]...)
}

// AppendReports appends ParameterStatus frames for changed settings that Sluice stores. status is the status of
// the ReadyForQuery that follows.
func AppendReports(c *settings.Client, dst []byte, status byte) []byte {
	for _, p := range c.TakeReports(status) {
		dst = append(dst, wire.AppendStrings(nil, wire.ParameterStatus, p.Name, p.Value)...)
	}
	return dst
}
