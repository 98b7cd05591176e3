package retry

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func errorFrame(payload string) []byte { return reply{typ: 'E', payload: []byte(payload)}.frame() }

func TestAppendRefusal(t *testing.T) {
	t.Parallel()
	if got := AppendErrorWithHint(nil, errorFrame("Hx\x00Dy\x00\x00"), "", ""); !bytes.Equal(got, errorFrame("Hx\x00Dy\x00\x00")) {
		t.Errorf("nothing was to be added: %q", got)
	}
	for _, test := range []struct{ name, payload, want string }{
		{"plain", "SERROR\x00C40001\x00Mm\x00\x00", "SERROR\x00C40001\x00Mm\x00Dwhy\x00Hhow\x00\x00"},
		{"with a detail", "C40001\x00Dtheirs\x00Mm\x00\x00", "C40001\x00Dtheirs why\x00Mm\x00Hhow\x00\x00"},
		{"with both", "Hx\x00Dy\x00\x00", "Hx how\x00Dy why\x00\x00"},
		{"no fields", "\x00", "Dwhy\x00Hhow\x00\x00"},
		{"cut in a field", "C40001\x00Mm", "C40001\x00Mm"},
		{"no end", "C40001\x00", "C40001\x00"},
		{"more behind the end", "C40001\x00\x00x", "C40001\x00\x00x"},
		{"empty", "", ""},
	} {
		before := []byte("before")
		got := AppendErrorWithHint(before, errorFrame(test.payload), "why", "how")
		if want := append(before, errorFrame(test.want)...); !bytes.Equal(got, want) {
			t.Errorf("%s: %q, want %q", test.name, got, want)
		}
	}
}

// FuzzErrorFrame holds that any frame yields a whole one with the same SQLSTATE
// and message.
func FuzzErrorFrame(f *testing.F) {
	f.Add("SERROR\x00VERROR\x00C40001\x00Mm (OC000)\x00\x00")
	f.Add("Dd\x00Hh\x00\x00")
	f.Add("\x00\x00")
	f.Add("")
	f.Fuzz(func(t *testing.T, payload string) {
		frame := errorFrame(payload)
		got := AppendErrorWithHint(nil, frame, "why", "how")
		if n := binary.BigEndian.Uint32(got[1:]); int(n)+1 != len(got) || got[0] != 'E' {
			t.Fatalf("%q is no frame", got)
		}
		for _, code := range []byte("SVCM") {
			if want := ErrorField(frame[headerLen:], code); !bytes.Equal(ErrorField(got[headerLen:], code), want) {
				t.Fatalf("field %c of %q was changed in %q", code, frame, got)
			}
		}
		if !bytes.Equal(got, frame) && (ErrorField(got[headerLen:], 'D') == nil || ErrorField(got[headerLen:], 'H') == nil) {
			t.Fatalf("no DETAIL or HINT in %q", got)
		}
		Classify(ErrorField(frame[headerLen:], 'C'), ErrorField(frame[headerLen:], 'M'))
	})
}

// FuzzReplies holds that a log takes whatever a server sends, and that the same
// once more is no difference.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("T\x00\x00\x00\x06\x00\x00D\x00\x00\x00\x06\x00\x00C\x00\x00\x00\x05\x00Z\x00\x00\x00\x05T"), 3)
	f.Add([]byte("E\x00\x00\x00\x05\x00Z\x00\x00\x00\x04N\x00\x00\x00\x041\x00\x00\x00\x04"), 7)
	logs := newLogs(f)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		l := logs.Open()
		defer l.Close()
		play := func(again bool) {
			for rest := stream; len(rest) >= headerLen; {
				n := headerLen + int(binary.BigEndian.Uint32(rest[1:])%64)
				n = min(n, len(rest))
				drop, ok := l.RecordReply(rest[0], rest[:n])
				if !ok || drop < 0 || drop > n || !again && drop != 0 {
					t.Fatalf("frame %q: drop %d, ok %v, %+v", rest[:n], drop, ok, l.Difference())
				}
				rest = rest[n:]
				if cut--; cut == 0 && !again {
					l.RecordDelivered()
				}
			}
		}
		play(false)
		if !l.Replayable() {
			return
		}
		if !l.BeginReplay() {
			t.Fatal("not replayable")
		}
		play(true)
	})
}
