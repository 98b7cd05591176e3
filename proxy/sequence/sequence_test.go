package sequence

import "testing"

const a, b = 1, 2 // ids of sessions

// Whose numbers a backend has decides what a client may ask there.
func TestWhoseNumbers(t *testing.T) {
	type step func(ca, cb *Client, x, y *Backend)
	useA := func(ca, _ *Client, x, _ *Backend) { ca.Use(a, x) }
	useB := func(_, cb *Client, x, _ *Backend) { cb.Use(b, x) }
	elsewhere := func(ca, _ *Client, _, y *Backend) { ca.Use(a, y) }
	discard := func(at Place) step {
		return func(ca, _ *Client, x, _ *Backend) { ca.Discard(at, x) }
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
		"cleared behind another":       {[]step{useB, func(_, _ *Client, x, _ *Backend) { x.Cleared() }}, false, true, false},
		"cleared behind the client":    {[]step{useA, func(_, _ *Client, x, _ *Backend) { x.Cleared() }}, false, false, false},
		"out of date":                  {[]step{useA, func(_, _ *Client, x, _ *Backend) { x.Outdate() }}, false, false, true},
		"discarded at the server":      {[]step{useA, discard(AtServer)}, false, true, false},
		"discarded, and drawn":         {[]step{useA, discard(AtServer), useA}, true, true, false},
		"discarded behind another":     {[]step{useB, discard(AtServer)}, false, true, false},
		"discarded amid others":        {[]step{useA, discard(AmidOthers)}, false, false, true},
		"discarded amid others, drawn": {[]step{useA, discard(AmidOthers), useA}, false, false, true},
		"discarded here":               {[]step{useA, discard(Here)}, false, false, true},
		"a backend of its own":         {[]step{useA, func(ca, _ *Client, _, _ *Backend) { ca.GotOwn() }}, false, false, true},
	} {
		var ca, cb Client
		x, y := NewBackend(), NewBackend()
		for _, s := range test.steps {
			s(&ca, &cb, &x, &y)
		}
		if owns, believes, others := ca.Owns(a, &x), ca.Believes(a, &x), ca.Others(a, &x); owns != test.owns || believes != test.believes || others != test.others {
			t.Errorf("%s: owns %v, believes %v, others %v; want %v, %v, %v", name, owns, believes, others, test.owns, test.believes, test.others)
		}
	}
}

// A backend that is kept for numbers alone must go once the client has discarded what the server still knows.
func TestVoid(t *testing.T) {
	for name, test := range map[string]struct {
		own, drawn bool
		at         Place
		want       bool
	}{
		"its own, with numbers":            {true, true, Here, true},
		"its own, without numbers":         {true, false, Here, false},
		"its own, discarded by the server": {true, true, AtServer, false},
		"its own, discarded amid others":   {true, true, AmidOthers, false},
		"kept for more, or shared":         {false, true, Here, false},
		"neither drawn nor kept":           {false, false, AtServer, false},
	} {
		var c Client
		x := NewBackend()
		if test.own {
			c.GotOwn()
		}
		if test.drawn {
			c.Use(a, &x)
		}
		if c.Discard(test.at, &x); c.IsVoid() != test.want {
			t.Errorf("%s: void %v", name, c.IsVoid())
		}
	}
	c := Client{own: true, usedOn: 1}
	c.Discard(Here, nil)
	if !c.IsVoid() {
		t.Error("not void without a backend")
	}
	if c.ClearOwn(); c.IsVoid() {
		t.Error("void with a backend that is kept for more")
	}
	if c.Void(); !c.IsVoid() {
		t.Error("not void where it is given up for more")
	}
}

// A client that has asked in vain wants a backend of its own from then on.
func TestWantsOwn(t *testing.T) {
	var c Client
	if c.WantsOwn() {
		t.Error("wanted before it was asked for")
	}
	if c.WantOwn(); !c.WantsOwn() {
		t.Error("not wanted")
	}
}
