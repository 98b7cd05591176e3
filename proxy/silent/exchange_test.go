package silent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// asked is a message of simple queries, or with "P " in front one by the extended protocol.
func asked(text string) []byte {
	sql, extended := strings.CutPrefix(text, "P ")
	switch {
	case text == "S":
		return wire.FrameSync
	case !extended:
		return wire.AppendStrings(nil, wire.Query, text)
	}
	b := wire.AppendParse(nil, "", sql, wire.NoOIDs)
	b = append(b, wire.Execute, 0, 0, 0, 9, 0, 0, 0, 0, 0)
	return append(b, wire.FrameSync...)
}

// answers plays an answer: "D" is a row, "E" an error, "Z" with a status the end, a frame's type with "!" in front any
// other frame, and all else a tag.
func answers(x ExchangeCheck, frames ...string) error {
	for _, f := range frames {
		switch {
		case f == "D":
			x.CheckFrame(wire.DataRow, nil)
		case f == "E":
			x.CheckFrame(wire.ErrorResponse, nil)
		case strings.HasPrefix(f, "Z "):
			return x.CheckEnd(f[2])
		case f[0] == '!':
			x.CheckFrame(f[1], nil)
		default:
			x.CheckFrame(wire.CommandComplete, []byte(f+"\x00"))
		}
	}
	return fmt.Errorf("no end")
}

// An exchange has succeeded or failed where the server has answered each of its statements so, and there only.
func TestExchange(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		message string
		status  byte
		right   []string // answers, frames between commas
		wrong   []string
	}{
		{"SET a TO 'b; c'; RESET d; ", 'I', []string{"SET,RESET,Z I", "SET,E,Z I", "E,Z I"},
			[]string{"Z I", "SET,Z I", "SET,SET,Z I", "RESET,SET,Z I", "SET,RESET,SET,Z I", "ROLLBACK,Z I", "SET,RESET,Z T", "E,SET,Z I", "E,Z T", "E,Z E", "SET,RESET,!G,Z I", "SETS,RESET,Z I"}},
		{"SET a TO b", 'T', []string{"SET,Z T", "E,Z E"}, []string{"SET,Z I", "SET,Z E", "Z T", "E,Z T"}},
		{"SELECT 1", 'I', []string{"!T,D,SELECT 1,Z I", "SELECT 0,Z I", "D,E,Z I"}, []string{"D,Z I", "SELECT 1,Z I", "D,SELECT 2,Z I", "D,SELECT 01,Z I", "D,SELECT,Z I", "D,UPDATE 1,Z I"}},
		{"BEGIN; SET LOCAL a TO 1; SELECT 1; COMMIT", 'I', []string{"BEGIN,SET,D,SELECT 1,COMMIT,Z I", "BEGIN,E,Z E"}, []string{"BEGIN,SET,D,SELECT 1,ROLLBACK,Z I", "BEGIN,SET,D,SELECT 1,COMMIT,Z T"}},
		{"ROLLBACK", 'E', []string{"ROLLBACK,Z I"}, []string{"COMMIT,Z I", "ROLLBACK,Z E", "Z I"}},
		{"ROLLBACK TO a", 'E', []string{"ROLLBACK,Z T"}, []string{"ROLLBACK,Z I"}},
		{"BEGIN", 'I', []string{"BEGIN,Z T"}, []string{"BEGIN,Z I", "Z T"}},
		{"CREATE INDEX ASYNC ON t (a)", 'I', []string{"D,CREATE INDEX,Z I", "D,SELECT 1,Z I"}, []string{"COMMIT,Z I", "D,Z I"}},
		{"WITH a AS (DELETE FROM t) SELECT 1", 'I', []string{"D,SELECT 1,Z I", "DELETE 3,Z I"}, []string{"D,SELECT 2,Z I", "DELETE,Z I"}},
		{"INSERT INTO t VALUES (1)", 'I', []string{"INSERT 0 1,Z I"}, []string{"INSERT 1,Z I", "UPDATE 1,Z I"}},
		{`SET a TO 'b\'; c'`, 'I', []string{"SET,Z I", "SET,RESET,Z I"}, []string{"Z I"}},
		{"P SELECT now()", 'I', []string{"!1,!2,D,SELECT 1,Z I"}, []string{"!1,!2,D,Z I", "!1,!2,SELECT 1,Z I"}},
		{"P SELECT 1", 'I', []string{"!1,!2,D,SELECT 1,Z T", "!1,E,Z E"}, []string{"!1,!2,E,Z T", "Z T"}},
		{"S", 'T', []string{"Z E", "Z T", "E,Z E"}, []string{"SELECT 1,Z I"}},
		{"", 'I', []string{"!I,Z I"}, []string{"SET,Z I"}},
	} {
		for _, right := range test.right {
			if err := answers(NewExchangeCheck(asked(test.message), test.status), strings.Split(right, ",")...); err != nil {
				t.Errorf("%q, answered by %s: %v", test.message, right, err)
			}
		}
		for _, wrong := range test.wrong {
			if answers(NewExchangeCheck(asked(test.message), test.status), strings.Split(wrong, ",")...) == nil {
				t.Errorf("%q is answered by %s", test.message, wrong)
			}
		}
	}
}
