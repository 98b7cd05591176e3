package proxy_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
)

// schemaQuestion is a part of the question for the relations of the database, and of no other.
const schemaQuestion = "a.attname, a.attnum"

// While the schema cannot be read, a text without a name is answered, at the start and behind a
// change, and one with a name waits, and is answered when the schema can be read.
func TestNoNamesNeedNoSchema(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE named (a int)")
	for name, opts := range map[string][]option{"postgres": {mapping}, "dsql": {asDSQL, fastReplay, mapping}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p ownPlanter
			s := startSluice(t, pg, append(opts, p.option, maxOpen(4))...)
			slow := func(on bool) {
				p.plants(func(message []byte) (d ownFault) {
					if on && strings.Contains(string(message), schemaQuestion) {
						d.slow = 2 * time.Second
					}
					return d
				})
			}
			c, named := dialRaw(t, s.addr), dialRaw(t, s.addr)
			for round := range 3 { // at the start, then behind a change
				if round > 0 {
					named.say(t, fmt.Sprintf("Q CREATE TABLE %s_made_%d (a int) /*c*/\n< Z\n", name, round))
				}
				slow(true)
				named.say(t, "Q SELECT a FROM named /*c*/\n")
				for i, script := range []string{"Q SELECT 1", "Q select 'x' as a, now();", "Q SELECT version()", "P @1 | SELECT 1\nB - | @1\nD P -\nE -\nS",
					"P @2 | SELECT 2\nD S @2\nS\n< Z\nB - | @2\nE -\nS", "B - | @2\nE -\nS", "P @3 | SELECT 3\nB - | @3\nE -\nH\nS",
					"P - | SELECT 1\nB - | -\nE -\nC P -\nS", "B - | s2_0\nE -\nS"} {
					began := time.Now()
					got := c.say(t, regexp.MustCompile(`@(\d)`).ReplaceAllString(script, fmt.Sprintf("s${1}_%d", round))+"\n< Z\n")
					if took := time.Since(began); took > time.Second || !strings.Contains(got, "C SELECT 1") {
						t.Errorf("round %d, %d: %s: took %v, got %s", round, i, script, took, got)
					}
				}
				slow(false)
				if got := named.say(t, "< Z\n"); !strings.Contains(got, "C SELECT 0") {
					t.Errorf("round %d: %s", round, got)
				}
			}
		})
	}
}

// A reading of the schema that failed, for want of a backend or by the server's fault, is nobody's
// answer: as soon as it can be made, the next text has it made.
func TestFailedReadingsAreNotRemembered(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"", "40001", "57014", "53200", "57P03"} {
		t.Run("state "+state, func(t *testing.T) {
			t.Parallel()
			pg := newPostgres(t)
			pg.SQL(t, "postgres", "CREATE TABLE named (a int)")
			var p ownPlanter
			s := startSluice(t, pg, asDSQL, fastReplay, mapping, p.option, maxOpen(2), configure(func(c *proxy.Config) { c.AnswerTimeout = ownLimit }),
				func(s *setup) { s.backends.CheckoutWait = 300 * time.Millisecond })
			holders := []*rawClient{dialRaw(t, s.addr), dialRaw(t, s.addr)}
			c := dialRaw(t, s.addr)
			holders[0].say(t, "Q SELECT a FROM named /*c*/\n< Z\n")
			for round := range 3 {
				holders[0].say(t, fmt.Sprintf("Q CREATE TABLE made_%d (a int) /*c*/\n< Z\n", round))
				if state == "" { // no backend is free
					for _, h := range holders {
						h.say(t, "Q BEGIN /*c*/\n< Z\nQ SELECT 1 /*c*/\n< Z\n")
					}
				} else {
					p.plants(func(message []byte) (d ownFault) {
						if strings.Contains(string(message), schemaQuestion) {
							d.refusal, d.message = state, "planted"
						}
						return d
					})
				}
				failed := c.say(t, "Q SELECT a FROM named /*c*/\n< Z\n")
				p.plants(nil)
				for _, h := range holders {
					h.say(t, "Q ROLLBACK /*c*/\n< Z\n")
				}
				began := time.Now()
				got := c.say(t, "Q SELECT a FROM named /*c*/\n< Z\n")
				if took := time.Since(began); !strings.Contains(failed, "E S=ERROR") || !strings.Contains(got, "C SELECT 0") || took > 2*time.Second {
					t.Errorf("round %d: first %s\nthen, in %v: %s", round, failed, took, got)
				}
			}
		})
	}
}

// One answer about the schema that does not come in its time is not the client's matter: the question is sent to
// another backend, and the client waits for that answer too.
func TestOneLateReadingIsAskedAgain(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE named (a int)")
	for name, opts := range map[string][]option{"postgres": {mapping}, "dsql": {asDSQL, fastReplay, mapping}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p ownPlanter
			s := startSluice(t, pg, append(opts, p.option, maxOpen(4))...)
			c := dialRaw(t, s.addr)
			c.say(t, "Q SELECT a FROM named /*c*/\n< Z\n")
			c.say(t, fmt.Sprintf("Q CREATE TABLE late_%s (a int) /*c*/\n< Z\n", name))
			var late atomic.Bool
			p.plants(func(message []byte) (d ownFault) {
				if strings.Contains(string(message), schemaQuestion) && late.CompareAndSwap(false, true) {
					d.slow = 5600 * time.Millisecond // longer than an answer may take
				}
				return d
			})
			if got := c.say(t, "Q SELECT a FROM named /*c*/\n< Z\n"); !late.Load() || !strings.Contains(got, "C SELECT 0") {
				t.Errorf("late %v: %s", late.Load(), got)
			}
		})
	}
}
