package proxy

import (
	"testing"
	"unsafe"
)

// A silent client costs a kilobyte of session: beyond, the allocator's next size is 1,152.
func TestSessionsAreSmall(t *testing.T) {
	if size := unsafe.Sizeof(session{}); size > 1024 {
		t.Errorf("a session has %d bytes, want 1024 at most", size)
	}
}

// What only work needs is given back when a session lingers, and kept where there is something in it.
func TestLayDown(t *testing.T) {
	s := &session{}
	for name, use := range map[string]func(){
		"opted out":        func() { s.tx.optedOut = true },
		"a portal":         func() { s.portals.unnamed.open = true },
		"a declared name":  func() { s.portals.named = map[string]portal{} },
		"the last field":   func() { s.probed = s.probed.AddDate(0, 0, 1) },
		"bound":            func() { s.tx.binds = 1 },
		"a byte of a flag": func() { s.tx.ran = true },
	} {
		s.activate()
		if !s.activeState.isZero() {
			t.Fatalf("%s: what was taken up is not zero", name)
		}
		use()
		used := s.activeState
		if s.deactivate(); s.activeState != used {
			t.Errorf("%s: it was given back", name)
		}
		if s.activate(); s.activeState != used {
			t.Errorf("%s: another was taken up", name)
		}
		*s.activeState = activeState{}
		if s.deactivate(); s.activeState != nil {
			t.Errorf("%s: it was kept, and is zero", name)
		}
	}
}
