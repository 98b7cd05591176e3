package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/settings"
)

// smallAccounts bounds a client to 4 MiB.
func smallAccounts(c *proxy.Config) {
	c.PreparedBytesPerClient, c.StoredBytes, c.MemoryBytesPerClient, c.MemoryTotalBytes = 2<<20, 2<<20, 4<<20, 6<<20
}

// asks sends messages, and returns the answer up to a ReadyForQuery.
func (c *rawClient) sends(t *testing.T, messages ...pgproto3.FrontendMessage) string {
	t.Helper()
	c.queue(encode(t, messages...))
	return c.readThrough("Z")
}

// refusalError reports whether an answer is the refusal of a bound.
func refusalError(answer, key string) bool {
	return strings.Contains(answer, "C=53200") && strings.Contains(answer, key)
}

// Settings of a client are bounded, in force and staged; what it resets makes room, and the session goes on.
func TestSettingsOfAClient(t *testing.T) {
	t.Parallel()
	for kind, options := range map[string][]option{"postgres": {configure(smallAccounts)}, "dsql": {asDSQL, withReplay, configure(smallAccounts)}} {
		s := startSluice(t, sharedPostgres(t), options...)
		c := dialRaw(t, s.addr)
		set := func(i int) string {
			return c.sends(t, &pgproto3.Query{String: fmt.Sprintf("SET search_path = 's%d%s'", i, strings.Repeat("x", 250_000))})
		}
		for i := range 20 { // each takes the place of the one before
			if got := set(i); strings.Contains(got, "E S=") {
				t.Fatalf("%s: SET %d: %s", kind, i, got)
			}
		}
		c.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
		staged := 0
		for ; staged < 20; staged++ {
			if got := set(staged); strings.Contains(got, "E S=") {
				if !refusalError(got, account.ClientKey) {
					t.Errorf("%s: one SET too many: %s", kind, got)
				}
				break
			}
		}
		if staged == 0 || staged == 20 {
			t.Errorf("%s: a block has staged %d SETs of 250 kB, of 4 MiB", kind, staged)
		}
		if got := c.say(t, "Q ROLLBACK\n< Z\nQ RESET search_path\n< Z\nQ SELECT 1\n< Z\n"); strings.Contains(got, "E S=") {
			t.Errorf("%s: the session goes on: %s", kind, got)
		}
		if n := s.Stats().MemoryBytes; n > 10_000 {
			t.Errorf("%s: %d bytes are charged to a client that has nothing", kind, n)
		}
		// Short ones too: no frame of theirs is charged.
		names := 0
		for got := ""; names < settings.MaxSettings && !strings.Contains(got, "E S="); names++ {
			got = c.sends(t, &pgproto3.Query{String: fmt.Sprintf("SET app.name_%d = '%s'", names, strings.Repeat("x", 20_000))})
			if strings.Contains(got, "E S=") && !refusalError(got, account.ClientKey) {
				t.Errorf("%s: one SET too many: %s", kind, got)
			}
		}
		if names < 20 || names == settings.MaxSettings {
			t.Errorf("%s: %d settings of 20 kB, of 4 MiB", kind, names)
		}
	}
}

// A client has at most so many settings, in force and staged: each of them would be copied with every SET.
func TestNumberOfSettings(t *testing.T) {
	t.Parallel()
	for kind, options := range map[string][]option{"postgres": nil, "dsql": {asDSQL, withReplay}} {
		s := startSluice(t, sharedPostgres(t), options...)
		c := dialRaw(t, s.addr)
		refused := func(text string) bool {
			got := c.sends(t, &pgproto3.Query{String: text})
			if strings.Contains(got, "E S=") && !refusalError(got, "too many settings") {
				t.Errorf("%s: %.60s: %s", kind, text, got)
			}
			return strings.Contains(got, "E S=")
		}
		set := func(from, to int) string {
			var all []string
			for i := from; i < to; i++ {
				all = append(all, fmt.Sprintf("SET app.name_%d = 'x'", i))
			}
			return strings.Join(all, "; ")
		}
		for i := 0; i < settings.MaxSettings; i += 100 {
			if refused(set(i, i+100)) {
				t.Fatalf("%s: %d settings are too many", kind, i+100)
			}
		}
		for text, want := range map[string]bool{
			set(settings.MaxSettings, settings.MaxSettings+1): true, "SET app.name_7 = 'y'": false, set(0, 300): false, "SELECT 1": false,
		} {
			if got := refused(text); got != want {
				t.Errorf("%s: refused %v: %.60s", kind, got, text)
			}
		}
		if refused("RESET app.name_7") || refused("BEGIN") || refused("SET app.other = 'x'") || !refused("SET app.more = 'x'") {
			t.Errorf("%s: a RESET makes room for one, also in a block", kind)
		}
		if got := c.say(t, "Q ROLLBACK\n< Z\nQ SHOW app.name_9\n< Z\n"); !strings.Contains(got, `\x01x`) {
			t.Errorf("%s: the session goes on: %s", kind, got)
		}
	}
}

// A pipeline of SETs without a Sync is bounded too, but for the 128 that the server may still have to answer; so
// are portals that are all bound before the first is executed.
func TestPipelineOfSettings(t *testing.T) {
	t.Parallel()
	for kind, options := range map[string][]option{"postgres": nil, "dsql": {asDSQL, withReplay}} {
		for _, bindsFirst := range []bool{false, true} {
			s := startSluice(t, sharedPostgres(t), options...)
			c := dialRaw(t, s.addr)
			var frames, executes []pgproto3.FrontendMessage
			for i := range 2 * settings.MaxSettings {
				portal := fmt.Sprint("p", i)
				frames = append(frames, &pgproto3.Parse{Query: fmt.Sprintf("SET app.name_%d = 'x'", i)}, &pgproto3.Bind{DestinationPortal: portal})
				if execute := (&pgproto3.Execute{Portal: portal}); bindsFirst {
					executes = append(executes, execute)
				} else {
					frames = append(frames, execute)
				}
			}
			got := c.sends(t, append(append(frames, executes...), &pgproto3.Sync{})...)
			if n := strings.Count(got, "C SET"); !refusalError(got, "too many settings") || n < settings.MaxSettings || n > settings.MaxSettings+128 {
				t.Errorf("%s, binds first %v: %d SETs of one pipeline, then %s", kind, bindsFirst, n, got[max(0, len(got)-200):])
			}
		}
	}
}

// What portals keep is bounded, and free again behind the transaction.
func TestPortalsOfAClient(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), asDSQL, withReplay, configure(smallAccounts), withCursors)
	c := dialRaw(t, s.addr)
	for round := range 3 {
		c.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
		open, got := 0, ""
		for ; open < 20 && !strings.Contains(got, "E S="); open++ {
			got = c.sends(t, &pgproto3.Parse{Query: fmt.Sprintf("DECLARE c%d CURSOR FOR SELECT $1::text", open)},
				&pgproto3.Bind{DestinationPortal: fmt.Sprint("p", open), Parameters: [][]byte{[]byte(strings.Repeat("x", 500_000))}}, &pgproto3.Sync{})
		}
		if open < 3 || open == 20 || !refusalError(got, account.ClientKey) {
			t.Errorf("round %d: %d portals of 500 kB, of 4 MiB: %s", round, open, got)
		}
		if got := c.say(t, "Q ROLLBACK\n< Z\n"); strings.Contains(got, "E S=") {
			t.Errorf("ROLLBACK: %s", got)
		}
	}
	waitFor(t, "all to be given back", func() bool { return s.Stats().MemoryBytes < 10_000 })
}

// The values that portals of a DELETE keep, which may have to be run in batches, are bounded like those of a DECLARE.
func TestDeletesOfAClient(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE batched (a int, b text)")
	s := startSluice(t, pg, asDSQL, withReplay, configure(smallAccounts), func(s *setup) { s.rules.Chunked = []string{"batched"} })
	c := dialRaw(t, s.addr)
	frames := []pgproto3.FrontendMessage{&pgproto3.Parse{Query: "DELETE FROM batched WHERE b = $1"}}
	for n := range 100 {
		frames = append(frames, &pgproto3.Bind{DestinationPortal: fmt.Sprint("p", n), Parameters: [][]byte{[]byte(strings.Repeat("x", 60_000))}})
	}
	if got := c.sends(t, append(frames, &pgproto3.Sync{})...); !refusalError(got, account.ClientKey) {
		t.Errorf("100 portals of 60 kB, of 4 MiB: %s", got)
	}
	waitFor(t, "all to be given back", func() bool { return s.Stats().MemoryBytes < 10_000 })
}

// Names of statements are bounded, and what all clients have together is.
func TestNamesOfAllClients(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(smallAccounts))
	names := func(c *rawClient) (n int, answer string) {
		for ; n < 20; n++ {
			answer = c.sends(t, &pgproto3.Parse{Name: fmt.Sprint(n, strings.Repeat("x", 500_000)), Query: "SELECT 1"}, &pgproto3.Sync{})
			if strings.Contains(answer, "E S=") {
				break
			}
		}
		return n, answer
	}
	first, second := dialRaw(t, s.addr), dialRaw(t, s.addr)
	if n, answer := names(first); n != 7 || !refusalError(answer, account.ClientKey) {
		t.Errorf("the first client has %d names of 500 kB, of 4 MiB: %s", n, answer)
	}
	if n, answer := names(second); n < 3 || n > 5 || !refusalError(answer, account.TotalKey) {
		t.Errorf("the second has %d of the 2 MiB that are left: %s", n, answer)
	}
	first.conn.Close()
	waitFor(t, "the first to be gone", func() bool { return s.Stats().Clients == 1 })
	if got := second.sends(t, &pgproto3.Parse{Name: "again" + strings.Repeat("x", 500_000), Query: "SELECT 1"}, &pgproto3.Sync{}); strings.Contains(got, "E S=") {
		t.Errorf("behind the end of the first: %s", got)
	}
	second.say(t, "Q DEALLOCATE ALL\n< Z\n")
	if n := s.Stats().MemoryBytes; n > 10_000 {
		t.Errorf("%d bytes are charged to a client that has nothing", n)
	}
}

// Where memory is short a COPY inserts smaller batches, and loses no row.
func TestCopyWithinAnAccount(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE copied (a int, b text)")
	s := startSluice(t, pg, withCopies, configure(smallAccounts))
	c := dialRaw(t, s.addr)
	c.queue(encode(t, &pgproto3.Query{String: "COPY copied FROM STDIN"}))
	c.readThrough("G")
	for i := range 100 {
		c.queue(encode(t, &pgproto3.CopyData{Data: fmt.Appendf(nil, "%d\t%s\n", i, strings.Repeat("x", 100_000))}))
	}
	c.queue(encode(t, &pgproto3.CopyDone{}))
	if got := c.readThrough("Z"); !strings.Contains(got, "C COPY 100") || strings.Contains(got, "E S=") {
		t.Errorf("the client got: %s", got)
	}
	if got := c.say(t, "Q SELECT count(*), sum(length(b)) FROM copied\n< Z\n"); !strings.Contains(got, "100\\x00\\x00\\x00\\b10000000") {
		t.Errorf("in the table: %s", got)
	}
	if n := s.count(t, "dsql_copy_batches_total", ""); n < 3 {
		t.Errorf("%v batches of 10 MB, of 4 MiB", n)
	}
}
