package proxy_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
)

// cutsConflicts passes what a server says, frame by frame, and cuts the connection behind an error that reports a
// conflict: no ReadyForQuery follows it.
func cutsConflicts(to, from net.Conn) {
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		frame := append(head, make([]byte, binary.BigEndian.Uint32(head[1:])-4)...)
		if _, err := io.ReadFull(from, frame[5:]); err != nil {
			return
		}
		if _, err := to.Write(frame); err != nil || frame[0] == 'E' && bytes.Contains(frame, []byte("C40001\x00")) {
			return
		}
	}
}

// A server that is lost behind its error has ended the transaction where that answers a COMMIT, and else has
// failed it: so the client is told where the transaction cannot be run again.
func TestConflictThenLoss(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", keyedTables)
	relay := startListener(t, passEach(pg.addr, func(to, from net.Conn) { io.Copy(to, from) }, cutsConflicts))
	s := startSluice(t, pg, asDSQL, fastReplay, mapping, maxOpen(3), withSavepoints, relay.option)
	const told = "Q BEGIN\n< Z\nQ SELECT nextval('s'), n FROM shared\n< Z\n" // is told otherwise when it is run again
	for name, c := range map[string]struct{ script, after string }{
		"COMMIT":                      {"Q INSERT INTO late VALUES (1)\n< Z\nQ COMMIT\n< Z\n", "I"},
		"END, extended":               {"Q INSERT INTO late VALUES (1)\n< Z\n" + ext("END") + "S\n< Z\n", "I"},
		"COMMIT in a string":          {"Q INSERT INTO late VALUES (1); COMMIT\n< Z\n", "I"},
		"COMMIT in a pipeline":        {ext("INSERT INTO late VALUES (1)") + ext("COMMIT") + "S\n< Z\n", "I"},
		"a statement":                 {"Q INSERT INTO early VALUES (1)\n< Z\n", "E"},
		"a statement, extended":       {ext("INSERT INTO early VALUES (1)") + "S\n< Z\n", "E"},
		"in front of a COMMIT":        {"Q INSERT INTO early VALUES (1); COMMIT\n< Z\n", "E"},
		"in a pipeline with a COMMIT": {ext("INSERT INTO early VALUES (1)") + ext("COMMIT") + "S\n< Z\n", "E"},
	} {
		for behind, first := range map[string]string{"": "", ", behind a savepoint": "Q SAVEPOINT a\n< Z\n", ", behind a return": "Q SAVEPOINT a\n< Z\nQ ROLLBACK TO a\n< Z\n"} {
			t.Run(name+behind, func(t *testing.T) {
				stumbles(t, pg, true, "early")
				got := dialRaw(t, s.addr).say(t, told+first+c.script)
				if !strings.Contains(got, "C=40001") || !strings.HasSuffix(strings.TrimSpace(got), "Z "+c.after) {
					t.Errorf("want Z %s at the end of\n%s", c.after, got)
				}
			})
		}
	}
}
