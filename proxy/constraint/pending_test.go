package constraint

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What a client is sent of a transaction with a CREATE INDEX depends on what comes behind the statement. A program
// is what the session tells, and what goes to the client of it.
func TestPending(t *testing.T) {
	t.Parallel()
	named := &rewrite.IndexName{Name: "i", Table: "t"}
	for _, c := range []struct{ program, sends string }{
		{"alone:job ready:I", "waits:CREATE INDEX"},
		{"alone:job follows ready:I", "CREATE INDEX waits:"},              // a Flush, or another answer
		{"alone:job follows ran:Read ready:I", "CREATE INDEX waits:"},     // in a pipeline
		{"alone:job follows ran:Write ready:I", "CREATE INDEX unawaited"}, // an error would call the write undone
		{"alone:job follows ready:T ended:COMMIT ready:I", "CREATE INDEX waits:COMMIT"},
		{"alone:named ready:I", "waits:CREATE INDEX"},
		{"alone:named follows ready:I", "unlooked CREATE INDEX"},
		{"alone: ready:I", "CREATE INDEX"},
		{"alone:job failed ready:I", ""},
		{"in:job ready:T ended:COMMIT ready:I", "CREATE INDEX waits:COMMIT"},
		{"in:job ready:T ran:Read ready:T ended:COMMIT ready:I", "CREATE INDEX waits:COMMIT"},
		{"in:job ended:COMMIT follows ready:I", "CREATE INDEX unawaited COMMIT"},
		{"in:job chained:COMMIT ready:T", "CREATE INDEX unawaited"},
		{"in:job ended:ROLLBACK ready:I", "CREATE INDEX"},
		{"in:job failed ready:E ended:ROLLBACK ready:I", "CREATE INDEX"},
		{"in:job ran:Write ended:COMMIT ready:I", "CREATE INDEX unawaited"},
		{"ran:Write in:job ended:COMMIT ready:I", "CREATE INDEX unawaited"},
		{"ran:Write ended:COMMIT in:job ended:COMMIT ready:I", "CREATE INDEX waits:COMMIT"},
		{"in:job ran:Setting ended:COMMIT ready:I", "CREATE INDEX waits:COMMIT"},
		{"in:job in:job ended:COMMIT ready:I", "CREATE INDEX unawaited CREATE INDEX unawaited"},
		{"in:named ended:COMMIT ready:I", "unlooked CREATE INDEX"},
		{"in: ended:COMMIT ready:I", "CREATE INDEX"},
	} {
		var p PendingJob
		var sends []string
		say := func(b []byte) {
			for len(b) > 0 {
				n := 1 + int(b[1])<<24 + int(b[2])<<16 + int(b[3])<<8 + int(b[4])
				switch frame := string(b[:n]); {
				case strings.Contains(frame, "nobody waits for it"):
					sends = append(sends, "unawaited")
				case strings.Contains(frame, "was not looked at"):
					sends = append(sends, "unlooked")
				default:
					sends = append(sends, strings.Trim(frame[wire.HeaderLen:], "\x00"))
				}
				b = b[n:]
			}
		}
		for step := range strings.FieldsSeq(c.program) {
			what, which, _ := strings.Cut(step, ":")
			switch what {
			case "alone", "in":
				id, name := which, (*rewrite.IndexName)(nil)
				if which == "named" {
					id, name = "", named
				}
				say(p.RecordBegun(id, name, wire.AppendCommandComplete(nil, "CREATE INDEX"), what == "alone"))
			case "follows":
				say(p.ReleaseTag())
			case "failed":
				p.Clear()
			case "ran":
				p.RecordStatement(map[string]rewrite.StatementKind{"Read": rewrite.Read, "Setting": rewrite.Setting, "Write": rewrite.Write}[which])
			case "ended", "chained":
				p.RecordTxEnd(which == "COMMIT")
				tag := wire.AppendCommandComplete(nil, which)
				_, now := p.HoldTag(tag, what == "chained")
				say(now)
			case "ready":
				if say(p.RecordReady(which[0])); p.IsWaiting() {
					taken := p.TakeJob()
					sends = append(sends, "waits:"+strings.Trim(string(taken.HeldTag()[min(wire.HeaderLen, len(taken.HeldTag())):]), "\x00"))
				}
			}
		}
		if got := strings.Join(sends, " "); got != c.sends {
			t.Errorf("%s: the client gets %q, want %q", c.program, got, c.sends)
		}
		if p.IsWaiting() || p.HasHeldTag() {
			t.Errorf("%s: something waits in the end", c.program)
		}
	}
}

// An index whose statement nobody awaits any more is dropped unless it is valid, as long as it is that index. Behind a
// client that has gone its job is awaited first.
func TestIndexJobWithdrawn(t *testing.T) {
	t.Parallel()
	index := func(unique, valid string) answer {
		return answer{words: "pg_get_indexdef", rows: [][]string{{"public", "i", "public", "t", unique, "f", "", "a", valid}}}
	}
	job := func(status, oid, valid string, times int) answer {
		return answer{words: "j.status", rows: [][]string{{status, "", oid, valid}}, times: times}
	}
	denied, over := &wire.Error{Code: "42501", Message: "permission denied"}, errors.New("over")
	for _, c := range []struct {
		name, how, want string
		script          []answer
	}{
		{"at work", "withdraw", "dropped", []answer{job("processing", "9", "f", 0), index("f", "f")}},
		{"valid", "withdraw", "valid", []answer{job("completed", "9", "t", 0), index("f", "t")}},
		{"valid when it is dropped", "withdraw", "valid", []answer{job("processing", "9", "f", 0), index("f", "t")}},
		{"others have dropped it", "withdraw", "", []answer{job("processing", "9", "f", 0)}},
		{"it has no index yet", "withdraw", "dropped", []answer{job("submitted", "", "", 2), job("submitted", "9", "f", 0), index("f", "f")}},
		{"its job has failed, and others have dropped it", "withdraw", "", []answer{job("failed", "", "", 0)}},
		{"sys.jobs is refused", "withdraw", "left", []answer{{words: "j.status", err: denied}}},
		{"it cannot be dropped", "withdraw", "dropped left", []answer{job("processing", "9", "f", 0), index("f", "f"), {words: "DROP INDEX", err: denied}}},
		{"others have another index of the name", "withdraw", "dropped", []answer{job("processing", "9", "f", 0),
			{words: "pg_get_indexdef", rows: index("f", "f").rows, times: 1}, {words: `DROP INDEX "public"."i"`, err: &wire.Error{Code: "22012"}},
			{words: "pg_get_indexdef", rows: [][]string{{"public", "renamed", "public", "t", "f", "f", "", "a", "f"}}}}},
		{"never seen, until the time is over", "withdraw", "left", []answer{{words: "j.status", times: 3}, {words: "j.status", err: over}}},
		{"a unique one", "unique", "dropped", []answer{job("processing", "9", "f", 0), index("t", "f")}},
		{"any other", "unique", "", []answer{job("processing", "9", "f", 0), index("f", "f")}},
		{"awaited, and valid", "outlast", "", []answer{job("processing", "9", "f", 3), job("completed", "9", "t", 0)}},
		{"awaited, and failed", "outlast", "dropped", []answer{job("processing", "9", "f", 3), job("failed", "9", "f", 0), index("t", "f"), {words: "HAVING", err: over}}},
		{"awaited, failed, and not to be dropped", "outlast", "dropped left", []answer{job("failed", "9", "f", 0), index("t", "f"), {words: "DROP INDEX", err: denied}}},
	} {
		server := &scripted{script: c.script}
		j := NewIndexJob(server, "job", nil)
		if c.how == "unique" {
			if _, err := j.readState(); err != nil {
				t.Fatal(err)
			}
		}
		var valid bool
		var err error
		switch c.how {
		case "withdraw":
			valid, err = j.Withdraw(server)
		case "unique":
			valid, err = j.WithdrawUnique(server)
		default:
			err = j.FinishWithoutClient(server)
		}
		var got []string
		for what, is := range map[string]bool{"dropped": server.has("DROP INDEX"), "valid": valid, "left": err != nil} {
			if is {
				got = append(got, what)
			}
		}
		if want := strings.Fields(c.want); slices.Compare(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) != 0 {
			t.Errorf("%s: %q, %v; asked %q", c.name, got, err, server.asked)
		}
		if strings.Contains(c.name, "another index") && !server.has(`DROP INDEX "public"."renamed"`) {
			t.Errorf("%s: asked %q", c.name, server.asked)
		}
	}
	for _, other := range []*IndexJob{NewIndexJob(&scripted{}, "", &rewrite.IndexName{Name: "i", Table: "t"}), NewIndexJob(&scripted{}, "", nil)} {
		server := &scripted{}
		if valid, err := other.Withdraw(server); valid || err != nil || server.asked != nil {
			t.Errorf("an index of another statement: %t, %v, asked %q", valid, err, server.asked)
		}
		if err := other.FinishWithoutClient(server); err != nil || server.asked != nil {
			t.Errorf("an index of another statement: %v, asked %q", err, server.asked)
		}
	}
}
