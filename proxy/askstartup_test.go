package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// sorted are the lines of an answer in order: a server reports parameters in its own.
func sorted(lines string) string {
	all := strings.Split(lines, "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// starts begins a session, and returns what it was told up to ReadyForQuery or an error, parameters
// included.
func starts(t *testing.T, addr string, params map[string]string) (c *rawClient, told string) {
	t.Helper()
	c = startupGreeting(t, dialTCP(t, addr), params)
	c.reports = true
	return c, c.readThrough("Z")
}

// A startup with settings that a server refuses is refused with the server's words; one that it takes
// is let in, and told what the server makes of them.
func TestStartupsThatAreRefused(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE ROLE startup_role")
	s := startSluice(t, pg, maxOpen(2))
	refused := 0
	for _, params := range []map[string]string{
		{"nosuchguc": "1"}, {"no.such": "1"}, {"client_encoding": "KLINGON"}, {"client_encoding": "latin-1"}, {"TimeZone": "Nope"}, {"TimeZone": "Europe/Berlin"},
		{"DateStyle": "Nope"}, {"DateStyle": "Nope, DMY"}, {"DateStyle": "ISO, SQL"}, {"DateStyle": "SQL"}, {"IntervalStyle": "nope"}, {"extra_float_digits": "77"},
		{"extra_float_digits": "x"}, {"extra_float_digits": "2"}, {"search_path": "a b"}, {"search_path": "a,,b"}, {"search_path": `"a`}, {"search_path": "a, b"},
		{"temp_tablespaces": "a b"}, {"work_mem": "1"}, {"work_mem": "lots"}, {"work_mem": "8MB"}, {"bytea_output": "nope"}, {"enable_seqscan": "maybe"},
		{"default_transaction_isolation": "nope"}, {"lock_timeout": "-1"}, {"is_superuser": "on"}, {"port": "1"}, {"shared_buffers": "1GB"}, {"lc_time": "nope"},
		{"role": "nosuch"}, {"role": "startup_role"}, {"session_authorization": "startup_role"}, {"session_authorization": "nosuch"}, {"session_authorization": ""},
		{"session_authorization": "startup_role", "work_mem": "8MB"}, {"session_authorization": "startup_role", "role": "startup_role"}, {"options": "-c session_authorization=startup_role"}, {"in_hot_standby": "on"}, {"server_version": "9.0"}, {"statement_timeout": "5 parsecs"}, {"options": "-c nosuch=1"}, {"options": "-c work_mem=lots"}, {"options": "-c work_mem=9MB"},
		{"TimeZone": "Europe/Berlin", "client_encoding": "KLINGON"}, {"DateStyle": "default"}, {"transaction_deferrable": "on"}, {"transaction_isolation": "serializable"},
		{"transaction_read_only": "on"}, {"all": "1"}, {"NoSuch": "1"}, {"Is_Superuser": "on"}, {"Client_Encoding": "KLINGON"}, {"options": "-c Work-Mem=lots"}, {".": "1"},
		{"standard_conforming_strings": "maybe"}, {"standard_conforming_strings": "yes"},
	} {
		t.Run(fmt.Sprint(params), func(t *testing.T) {
			for range 2 { // known or not
				direct, want := starts(t, pg.addr, params)
				c, got := starts(t, s.addr, params)
				if strings.Contains(want, "E S=FATAL") {
					refused++
				}
				if sorted(got) != sorted(want) {
					t.Errorf("told %s\ndirectly %s", got, want)
				}
				if !strings.Contains(want, "E S=FATAL") {
					const q = "Q SELECT 1, session_user, current_user, current_setting('is_superuser')\n< Z\n"
					if got, want := c.play(t, q), direct.play(t, q); got != want {
						t.Errorf("then %s", firstDifference(got, want))
					}
				}
			}
		})
	}
	if refused < 40 {
		t.Errorf("%d startups were refused", refused)
	}
	// The backends that were asked are anybody's.
	for range 3 {
		if got := dialRaw(t, s.addr).say(t, "Q SELECT current_setting('TimeZone') = 'Europe/Berlin', current_user\n< Z\n"); !strings.Contains(got, "f") || !strings.Contains(got, "postgres") {
			t.Errorf("another client has %s", got)
		}
	}
}

// A client that comes before the first backend waits for it, and is told of that server; where none
// comes it is refused, and told nothing that is not so.
func TestClientsBeforeTheFirstBackend(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	// Until the gate is open, connections are taken and closed.
	var open atomic.Bool
	pass := passEach(pg.addr, func(up, down net.Conn) { io.Copy(up, down) }, func(down, up net.Conn) { io.Copy(down, up) })
	relay := startListener(t, func(down net.Conn) {
		if open.Load() {
			pass(down)
			return
		}
		down.Close()
	})
	s := startSluice(t, pg, relay.option, maxOpen(2), func(s *setup) { s.backends.CheckoutWait = 300 * time.Millisecond })
	if _, told := starts(t, s.addr, map[string]string{}); !strings.Contains(told, "E S=FATAL C=53300") || strings.Contains(told, "S server_version") {
		t.Errorf("without a server told %s", told)
	}
	open.Store(true)
	var told string
	waitFor(t, "a backend", func() bool {
		_, told = starts(t, s.addr, map[string]string{})
		return !strings.Contains(told, "C=53300")
	})
	if _, want := starts(t, pg.addr, map[string]string{}); sorted(told) != sorted(want) {
		t.Errorf("told %s\ndirectly %s", told, want)
	}
}

// A server that cannot carry out a SET now has not refused its value: the startup is tried again, and let in.
func TestStartupsBesideAFault(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for _, code := range []string{"53300", "57014", "40001", "XX000", "22023"} {
		var planted atomic.Int64
		toServer := func(up, down net.Conn) {
			buf := make([]byte, 64<<10)
			for {
				n, err := down.Read(buf)
				sent := buf[:n]
				if bytes.HasPrefix(sent, []byte("Q")) && bytes.Contains(sent, []byte("work_mem")) && planted.Add(1) == 1 {
					sent = wire.AppendStrings(nil, wire.Query, "DO 'BEGIN RAISE EXCEPTION ''planted'' USING ERRCODE = ''"+code+"''; END'")
				}
				if _, werr := up.Write(sent); err != nil || werr != nil {
					return
				}
			}
		}
		relay := startListener(t, passEach(pg.addr, toServer, func(down, up net.Conn) { io.Copy(down, up) }))
		s := startSluice(t, pg, relay.option, maxOpen(2))
		params := map[string]string{"work_mem": "8MB"}
		_, got := starts(t, s.addr, params)
		if _, want := starts(t, pg.addr, params); code != "22023" && sorted(got) != sorted(want) || code == "22023" && !strings.Contains(got, "M=planted") {
			t.Errorf("%s: told %s", code, got)
		}
		if planted.Load() == 0 {
			t.Errorf("%s: nothing was planted", code)
		}
	}
}
