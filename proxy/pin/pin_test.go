package pin

import (
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// textOf returns the plan of a text with one statement for each reason.
func textOf(reasons ...rewrite.PinReason) *rewrite.Plan {
	plan := &rewrite.Plan{}
	for _, why := range reasons {
		plan.Statements = append(plan.Statements, rewrite.Statement{Pin: why})
		if plan.Pin == rewrite.NoPin {
			plan.Pin = why
		}
	}
	return plan
}

// unparsed is the plan of a text that Sluice could not parse.
var unparsed = &rewrite.Plan{Pin: rewrite.PinUnparsed}

// bench is a session that pins and its turn, among at most two pinned sessions.
type bench struct {
	pins *Counter
	State
	turn Turn
	tx   Tx
}

func newBench() *bench { return &bench{pins: NewCounter(2)} }

func (b *bench) pin(t *testing.T, plan *rewrite.Plan) {
	t.Helper()
	if _, ok := b.Pin(&b.turn, &Statement{Plan: plan}, b.pins); !ok {
		t.Fatal("no pin")
	}
}

func (b *bench) expect(t *testing.T, what string, pinned bool) {
	t.Helper()
	n := 0
	if pinned {
		n = 1
	}
	if b.IsPinned() != pinned || b.pins.Pinned() != n {
		t.Errorf("%s: pinned %v, counted %d; want %v", what, b.IsPinned(), b.pins.Pinned(), pinned)
	}
}

func TestLimit(t *testing.T) {
	pins := NewCounter(1)
	var first, second State
	var turn Turn
	text := &Statement{Plan: textOf(rewrite.PinTemp)}
	if added, ok := first.Pin(&turn, text, pins); !added || !ok {
		t.Error(added, ok)
	}
	if added, ok := first.Pin(&turn, text, pins); added || !ok {
		t.Error(added, ok)
	}
	if added, ok := second.Pin(&turn, text, pins); added || ok || second.IsPinned() {
		t.Error(added, ok)
	}
	first.EndSession(pins)
	if !first.IsPinned() || pins.Pinned() != 0 {
		t.Error("the end of a session counts otherwise")
	}
}

// A failed turn has no pin if its only statement leaves nothing.
func TestUnpinFailed(t *testing.T) {
	for _, test := range []struct {
		name string
		of   []Statement
		want bool
	}{
		{"temporary table", []Statement{{Plan: textOf(rewrite.PinTemp)}}, true},
		{"procedure", []Statement{{Plan: textOf(rewrite.PinProcedural)}}, false},
		{"advisory lock", []Statement{{Plan: textOf(rewrite.PinAdvisory)}}, false},
		{"advisory lock on DSQL", []Statement{{Plan: textOf(rewrite.PinAdvisory), IsDSQL: true}}, true},
		{"PREPARE before others", []Statement{{Plan: textOf(rewrite.PinPrepare)}}, false},
		{"PREPARE", []Statement{{Plan: textOf(rewrite.PinPrepare), EndsTurn: true}}, true},
		{"two statements", []Statement{{Plan: textOf(rewrite.PinTemp, rewrite.NoPin)}}, false},
		{"two texts", []Statement{{Plan: textOf(rewrite.PinTemp)}, {Plan: textOf(rewrite.PinListen)}}, true},
		{"a text that leaves state behind", []Statement{{Plan: textOf(rewrite.PinTemp)}, {Plan: textOf(rewrite.PinSeed)}}, false},
	} {
		b := newBench()
		for i := range test.of {
			b.Pin(&b.turn, &test.of[i], b.pins)
		}
		if b.UnpinFailed(&b.turn, b.pins) != test.want {
			t.Errorf("%s: want %v", test.name, test.want)
		}
		b.expect(t, test.name, !test.want)
	}
}

func TestUnparsed(t *testing.T) {
	for _, test := range []struct {
		sql, tag string
		want     bool
	}{{"INSERT INTO a VALUES (1)", "INSERT 0 1", true}, {"CREATE TEMP TABLE a (b int)", "CREATE TABLE", false}, {"LISTEN a", "LISTEN", false}} {
		b := newBench()
		b.pin(t, unparsed)
		if !b.turn.IsUnread() {
			t.Error("the text is read")
		}
		b.turn.Scan([]byte(test.sql))
		b.turn.RecordTag([]byte(test.tag))
		if b.UnpinUnparsed(&b.turn, b.pins) != test.want {
			t.Errorf("%s: want %v", test.sql, test.want)
		}
		b.expect(t, test.sql, !test.want)
	}
	b := newBench()
	b.pin(t, unparsed)
	b.pin(t, textOf(rewrite.PinTemp))
	if b.UnpinUnparsed(&b.turn, b.pins) {
		t.Error("the pin of another text is removed")
	}
}

// payload returns the payload of an error with the given fields, each a letter and its value.
func payload(fields ...string) (out []byte) {
	for _, f := range fields {
		out = append(append(out, f...), 0)
	}
	return append(out, 0)
}

// An error removes the pin if it shows that the statement left nothing.
func TestUnpinAfterError(t *testing.T) {
	name := payload("C42704", "P8")
	for _, test := range []struct {
		what   string
		plan   *rewrite.Plan
		n      int
		e      Failure
		scan   string
		pinned bool
	}{
		{what: "another error", plan: textOf(rewrite.PinProcedural), e: Failure{Payload: payload("C22012")}, pinned: true},
		{what: "a name", plan: textOf(rewrite.PinProcedural), e: Failure{Payload: name}},
		{what: "a name in a function", plan: textOf(rewrite.PinProcedural), e: Failure{Payload: payload("C42704", "P8", "Wfunction")}, pinned: true},
		{what: "a name without position", plan: textOf(rewrite.PinProcedural), e: Failure{Payload: payload("C42704")}, pinned: true},
		{what: "refused", plan: textOf(rewrite.PinProcedural), e: Failure{Payload: payload("C0A000")}, pinned: true},
		{what: "refused by DSQL", plan: textOf(rewrite.PinProcedural), e: Failure{Payload: payload("C0A000"), IsDSQL: true}},
		{what: "the statement before the pin", plan: textOf(rewrite.NoPin, rewrite.PinSeed), e: Failure{Payload: payload("C22012")}},
		{what: "the statement behind the pin", plan: textOf(rewrite.PinSeed, rewrite.NoPin), n: 1, e: Failure{Payload: name}, pinned: true},
		{what: "no statement", plan: textOf(rewrite.PinSeed), n: 1, e: Failure{Payload: name}, pinned: true},
		{what: "syntax", plan: unparsed, scan: "LISTEN a; x", e: Failure{Payload: payload("C42601", "Wx"), IsSyntaxError: true}},
		{what: "unparsed, without state", plan: unparsed, scan: "SELECT 1", e: Failure{Payload: payload("C22012")}},
		{what: "unparsed, in a function", plan: unparsed, scan: "SELECT 1", e: Failure{Payload: payload("C22012", "Wf")}, pinned: true},
		{what: "unparsed", plan: unparsed, scan: "SELECT setseed(1)", e: Failure{Payload: payload("C22012")}, pinned: true},
	} {
		b := newBench()
		b.pin(t, test.plan)
		b.turn.Scan([]byte(test.scan))
		test.e.Statement = FailedStatement(test.plan, test.n)
		b.UnpinAfterError(&b.turn, &test.e, b.pins)
		b.expect(t, test.what, test.pinned)
		if b.turn.IsUnread() {
			t.Errorf("%s: the text is still unread", test.what)
		}
	}
	b := newBench()
	b.pin(t, textOf(rewrite.PinSeed))
	b.turn = Turn{} // the next one
	if b.MayUnpin(&b.turn) {
		t.Error("the pin of an earlier turn may go")
	}
}

func TestLoss(t *testing.T) {
	b := newBench()
	if b.Lose(b.pins); b.IsLost() {
		t.Error("a session without a pin has lost one")
	}
	b.pin(t, textOf(rewrite.PinTemp))
	b.RecordFound(true)
	if !b.IsFound() {
		t.Error(b.State)
	}
	if b.Lose(b.pins); !b.IsLost() || b.IsFound() {
		t.Error(b.State)
	}
	b.expect(t, "lost", false)

	b = newBench()
	if b.Drop(b.pins); !b.pins.Reserve() {
		t.Fatal("no room")
	}
	b.PinReserved()
	b.RecordFound(true)
	b.expect(t, "reserved", true)
	b.Drop(b.pins)
	b.expect(t, "dropped", false)
	if b.IsFound() || b.IsLost() {
		t.Error(b.State)
	}
	if b.RecordLoss(); !b.IsLost() || b.IsPinned() {
		t.Error(b.State)
	}
	if !b.pins.Reserve() {
		t.Fatal("no room")
	}
	b.pins.Release()
	b.expect(t, "released", false)
}

// A pin that one feature has reserved ends with the feature's need. DISCARD ALL ends any pin with the transaction.
func TestGivingUp(t *testing.T) {
	b := newBench()
	reserve := func() {
		if !b.pins.Reserve() {
			t.Fatal("no room")
		}
		b.PinReserved()
	}
	if b.SetUseless(true); b.MustGiveUp() {
		t.Error("useless without a pin")
	}
	reserve()
	if b.SetUseless(true); !b.MustGiveUp() || b.IsGivenUp() {
		t.Error("a useless pin remains")
	}
	if b.SetUseless(false); b.MustGiveUp() {
		t.Error("a pin that is needed goes")
	}
	b.SetUseless(true)
	if b.Drop(b.pins); b.MustGiveUp() {
		t.Error("useless after the pin is dropped")
	}
	reserve()
	b.SetUseless(true)
	b.pin(t, textOf(rewrite.PinTemp))
	if b.MustGiveUp() {
		t.Error("a pin that a statement needs goes")
	}
	if b.SetUseless(true); b.MustGiveUp() {
		t.Error("the pin of a statement is useless")
	}
	if b.GiveUpAtEnd(); !b.MustGiveUp() || !b.IsGivenUp() {
		t.Error("not given up")
	}
	if b.Lose(b.pins); b.MustGiveUp() || b.IsGivenUp() {
		t.Error("given up after its loss")
	}
}

// What a replay may do with a pinned session depends on when it was pinned.
func TestReplays(t *testing.T) {
	temp := textOf(rewrite.PinTemp)
	b := newBench()
	if b.IsSole(&b.turn, &b.tx, temp) || b.tx.ReplaysOnlyForSchema() || b.tx.EndsReplay(temp) || b.tx.TagEndsReplay([]byte("FETCH 1")) {
		t.Error("a transaction without a pin")
	}
	b.pin(t, temp)
	if !b.IsSole(&b.turn, &b.tx, temp) || b.IsSole(&b.turn, &b.tx, textOf(rewrite.PinSeed)) {
		t.Error("the sole statement")
	}
	b.tx.RecordSole()
	if !b.tx.Pins() || !b.tx.ReplaysOnlyForSchema() || b.tx.IsHeld() {
		t.Error(b.tx)
	}
	b.UnpinForReplay(&b.turn, &b.tx, b.pins)
	b.expect(t, "before the replay", false)
	if b.tx.EndsReplay(textOf(rewrite.NoPin)) || !b.tx.EndsReplay(temp) || b.tx.EndsReplay(temp) {
		t.Error("the statement that ends replays")
	}

	b = newBench()
	b.pin(t, temp)
	b.turn = Turn{}
	b.tx.RecordPinned()
	if !b.tx.IsHeld() || !b.tx.ReplaysOnlyForSchema() || !b.IsSole(&b.turn, &b.tx, temp) {
		t.Error(b.tx)
	}
	b.tx.RecordSole()
	b.UnpinForReplay(&b.turn, &b.tx, b.pins)
	b.expect(t, "pinned before", true)
	for tag, want := range map[string]bool{"FETCH 1": true, "MOVE 1": true, "CLOSE CURSOR": true, "DEALLOCATE": true, "DISCARD ALL": true, "SELECT 1": false, "FETCHED": false} {
		if b.tx.TagEndsReplay([]byte(tag)) != want {
			t.Errorf("%s: want %v", tag, want)
		}
	}
}
