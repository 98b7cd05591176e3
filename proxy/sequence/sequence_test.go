package sequence

import "testing"

const a, b = 1, 2 // ids of sessions

// Whose numbers a backend has decides what a client may ask there.
func TestWhoseNumbers(t *testing.T) {
	type step func(ca, cb *ClientRecord, x, y *BackendRecord)
	useA := func(ca, _ *ClientRecord, x, _ *BackendRecord) { ca.RecordUse(a, x) }
	useB := func(_, cb *ClientRecord, x, _ *BackendRecord) { cb.RecordUse(b, x) }
	elsewhere := func(ca, _ *ClientRecord, _, y *BackendRecord) { ca.RecordUse(a, y) }
	discard := func(at DiscardPlace) step {
		return func(ca, _ *ClientRecord, x, _ *BackendRecord) { ca.RecordDiscard(at, x) }
	}
	for name, test := range map[string]struct {
		steps                  []step
		owns, believes, others bool // of client a, on backend x
	}{
		"nobody has drawn":             {nil, false, true, false},
		"the client":                   {[]step{useA}, true, true, false},
		"the client, twice":            {[]step{useA, useA}, true, true, false},
		"another client":               {[]step{useB}, false, false, true},
		"the client, then another":     {[]step{useA, useB}, false, false, true},
		"another, then the client":     {[]step{useB, useA}, false, false, true},
		"the client, elsewhere":        {[]step{elsewhere}, false, false, false},
		"the client, then elsewhere":   {[]step{useA, elsewhere}, false, false, true},
		"the client, here last":        {[]step{elsewhere, useA}, true, true, false},
		"there and back":               {[]step{useA, elsewhere, useA}, false, false, true},
		"cleared behind another":       {[]step{useB, func(_, _ *ClientRecord, x, _ *BackendRecord) { x.RecordCleared() }}, false, true, false},
		"cleared behind the client":    {[]step{useA, func(_, _ *ClientRecord, x, _ *BackendRecord) { x.RecordCleared() }}, false, false, false},
		"out of date":                  {[]step{useA, func(_, _ *ClientRecord, x, _ *BackendRecord) { x.MarkOutdated() }}, false, false, true},
		"discarded at the server":      {[]step{useA, discard(AtServer)}, false, true, false},
		"discarded, and drawn":         {[]step{useA, discard(AtServer), useA}, true, true, false},
		"discarded behind another":     {[]step{useB, discard(AtServer)}, false, true, false},
		"discarded amid others":        {[]step{useA, discard(AmidOthers)}, false, false, true},
		"discarded amid others, drawn": {[]step{useA, discard(AmidOthers), useA}, false, false, true},
		"discarded here":               {[]step{useA, discard(Here)}, false, false, true},
		"a backend of its own":         {[]step{useA, func(ca, _ *ClientRecord, _, _ *BackendRecord) { ca.RecordOwnBackend() }}, false, false, true},
	} {
		var ca, cb ClientRecord
		x, y := NewBackendRecord(), NewBackendRecord()
		for _, s := range test.steps {
			s(&ca, &cb, &x, &y)
		}
		if owns, believes, others := ca.OwnsNumbers(a, &x), ca.CanTrust(a, &x), ca.HasForeignNumbers(a, &x); owns != test.owns || believes != test.believes || others != test.others {
			t.Errorf("%s: owns %v, believes %v, others %v; want %v, %v, %v", name, owns, believes, others, test.owns, test.believes, test.others)
		}
	}
}

// The server may still know numbers that the client has discarded, unless it has discarded them itself, last.
func TestNumbersThatRemain(t *testing.T) {
	for name, test := range map[string]struct {
		drawn bool
		at    DiscardPlace
		want  bool
	}{
		"numbers":                       {true, Here, true},
		"no numbers":                    {false, Here, false},
		"discarded by the server":       {true, AtServer, false},
		"discarded amid others":         {true, AmidOthers, true},
		"none, discarded amid others":   {false, AmidOthers, true},
		"none, discarded by the server": {false, AtServer, false},
	} {
		for _, attached := range []bool{true, false} {
			var c ClientRecord
			x := NewBackendRecord()
			if test.drawn {
				c.RecordUse(a, &x)
			}
			b := &x
			if !attached && test.at == Here {
				b = nil
			}
			if got := c.RecordDiscard(test.at, b); got != test.want {
				t.Errorf("%s: %v", name, got)
			}
			if c.RecordDiscard(Here, b) {
				t.Errorf("%s: a second DISCARD leaves numbers", name)
			}
		}
	}
}

// A client that has asked in vain wants a backend of its own from then on.
func TestWantsOwn(t *testing.T) {
	var c ClientRecord
	if c.WantsOwnBackend() {
		t.Error("wanted before it was asked for")
	}
	if c.RequestOwnBackend(); !c.WantsOwnBackend() {
		t.Error("not wanted")
	}
}
