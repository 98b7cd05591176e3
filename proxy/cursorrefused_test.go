package proxy_test

import (
	"strings"
	"testing"
)

// What a portal cannot do is refused, with what to do instead; the session goes on, and keeps
// no backend for it.
func TestRefusedCursors(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, asDSQL, withCursors, withReplay, maxOpen(2))
	const opened = "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 5) g\n< Z\n"
	const one = "SELECT 1 AS one"
	for name, test := range map[string]struct{ script, want string }{
		"SCROLL":               {"Q BEGIN\n< Z\nQ DECLARE h SCROLL CURSOR FOR SELECT 1\n< Z\n", "M=SCROLL is not supported for cursors"},
		"BINARY":               {"Q BEGIN\n< Z\nQ DECLARE h BINARY CURSOR FOR SELECT 1\n< Z\n", "M=BINARY is not supported for cursors"},
		"in a string":          {"Q BEGIN; DECLARE h CURSOR FOR SELECT 1\n< Z\n", "M=statements about cursors must not share a string"},
		"in a string, behind":  {opened + "Q SELECT 1; FETCH c; SELECT 2\n< Z\n", "M=statements about cursors must not share a string"},
		"two in a string":      {opened + "Q FETCH c; CLOSE c\n< Z\n", "M=statements about cursors must not share a string"},
		"FETCH 0":              {opened + "Q FETCH 0 FROM c\n< Z\n", "M=cursors go forward only"},
		"FETCH FIRST":          {opened + "Q FETCH FIRST FROM c\n< Z\n", "M=cursors go forward only"},
		"FETCH LAST":           {opened + "Q FETCH LAST FROM c\n< Z\n", "M=cursors go forward only"},
		"FETCH ABSOLUTE":       {opened + ext("FETCH ABSOLUTE 2 FROM c") + "S\n< Z\n", "M=cursors go forward only"},
		"MOVE RELATIVE":        {opened + "Q MOVE RELATIVE 2 FROM c\n< Z\n", "M=cursors go forward only"},
		"PRIOR, unsaid":        {opened + "Q FETCH PRIOR FROM c\n< Z\n", "M=cursors go forward only"},
		"a limited FETCH":      {opened + "P - | FETCH 3 FROM c\nB - | -\nE - 2\nS\n< Z\n", "M=FETCH cannot be executed with a limit on rows"},
		"binary, too late":     {opened + "Q FETCH c\n< Z\nP f | FETCH c\n" + bindFormats("", "f", 1) + "E -\nS\n< Z\n", "M=this cursor can no longer be read in another format"},
		"text, too late":       {opened + "P f | FETCH c\n" + bindFormats("", "f", 1) + "E -\nS\n< Z\nQ FETCH c\n< Z\n", "M=this cursor can no longer be read in another format"},
		"binary, behind write": {opened + "Q CREATE TABLE written (a int)\n< Z\nP f | FETCH c\n" + bindFormats("", "f", 1) + "E -\nS\n< Z\n", "M=this cursor can no longer be read in another format"},
		"of the protocol":      {"Q BEGIN\n< Z\nP - | SELECT 1\nB p | -\nS\n< Z\nQ FETCH p\n< Z\n", "M=portal \"p\" is no cursor of DECLARE"},
		"closed, of both":      {opened + "P - | SELECT 1\nB p | -\nS\n< Z\nQ CLOSE ALL\n< Z\n", "M=CLOSE ALL cannot close the portals"},
		"numbers of sequences": {"Q BEGIN\n< Z\nQ DECLARE h CURSOR FOR SELECT lastval()\n< Z\n", "M=currval and lastval are not supported in the query of a cursor"},
	} {
		t.Run(name, func(t *testing.T) {
			got := perform(t, s.addr, test.script+"Q ROLLBACK\n< Z\nQ "+one+"\n< Z\n")
			refusal := got[max(0, strings.Index(got, test.want)):]
			refusal, _, _ = strings.Cut(refusal, "\n")
			if !strings.Contains(got, "C=0A000 "+test.want) || !strings.Contains(refusal, " H=") || !strings.HasSuffix(got, "C SELECT 1\\x00\nZ I\n") {
				t.Errorf("want %s, with a hint:\n%s", test.want, got)
			}
			waitFor(t, "backends to come back", func() bool { return s.backends.Stats().InUse == 0 })
		})
	}
	if n := s.sum(t, "dsql_pins_total"); n != 0 {
		t.Errorf("%v pins", n)
	}
}

// A client that leaves in the middle of a cursor leaves nothing behind: its backend serves the
// next, and its cursor's name is free.
func TestClientsThatLeaveCursors(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, asDSQL, withCursors, withReplay, maxOpen(1))
	for _, left := range []string{
		"Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT generate_series(1, 100000)\n< Z\nQ FETCH 2 FROM c\n< Z\n",
		"Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT generate_series(1, 1000000)\n< Z\nQ FETCH ALL FROM c\n< T D\n",
		"Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT generate_series(1, 1000000)\n< Z\nQ MOVE ALL FROM c\n",
		"Q BEGIN\n< Z\n" + ext("DECLARE c CURSOR FOR SELECT generate_series(1, 100000)") + ext("FETCH 2 FROM c") + "H\n< C\n",
	} {
		c := dialRaw(t, s.addr)
		c.play(t, left)
		c.flush()
		c.conn.Close()
		if got := perform(t, s.addr, "Q BEGIN\n< Z\nQ FETCH c\n< Z\nQ ROLLBACK\n< Z\n"+begun+"Q FETCH 1 FROM c\n< Z\nQ COMMIT\n< Z\n"); !strings.Contains(got, "C=34000") || !strings.Contains(got, "C FETCH 1") {
			t.Errorf("behind %s\n%s", left, got)
		}
	}
}
