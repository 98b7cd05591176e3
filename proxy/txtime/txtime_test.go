package txtime

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

func text(s string) Value { return Value{Bytes: []byte(s)} }

// Values of one key that contradict each other are unknown. A text that another DateStyle reads otherwise is ignored.
func TestAdd(t *testing.T) {
	t.Parallel()
	const utc = "UTC\x00ISO, MDY\x00postgres\x00"
	binary := Value{Format: 1, Bytes: []byte{0, 2, 0x9f, 0x1d, 0, 0, 0, 1}}
	for name, test := range map[string]struct {
		values []Value
		want   string // what Writer writes for the kind; "": unknown
	}{
		"none":            {nil, ""},
		"one":             {[]Value{text("2026-11-30 12:00:00")}, "'2026-11-30 12:00:00'"},
		"the same twice":  {[]Value{text("2026-11-30 12:00:00"), text("2026-11-30 12:00:00")}, "'2026-11-30 12:00:00'"},
		"two":             {[]Value{text("2026-11-30 12:00:00"), text("2026-11-30 12:00:01")}, ""},
		"two, then one":   {[]Value{text("2026-11-30 12:00:00"), text("2026-11-30 12:00:01"), text("2026-11-30 12:00:00")}, ""},
		"text is better":  {[]Value{binary, text("2026-11-30 12:00:00")}, "'2026-11-30 12:00:00'"},
		"text goes first": {[]Value{text("2026-11-30 12:00:00"), binary}, "'2026-11-30 12:00:00'"},
		"other style":     {[]Value{text("30/11/2026 12:00:00")}, ""},
		"a null":          {[]Value{{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var of Time
			for _, v := range test.values {
				of.Add(Key{"timestamp now()", utc}, v)
				of.Add(Key{"", utc}, v)
				of.Add(Key{"timestamp now()", ""}, v)
			}
			ok := true
			if got := of.Writer(utc, &ok, Literal)("timestamp now()"); got != test.want || ok != (test.want != "") {
				t.Errorf("%q, %v; want %q", got, ok, test.want)
			}
			if ok && !of.Knows("timestamp now()") || of.Knows("date now()") {
				t.Error("the known kinds are wrong")
			}
			if got := of.Writer("other", &ok, Literal)("timestamp now()"); got != "" || ok {
				t.Errorf("%q under other settings", got)
			}
		})
	}
}

// The instant gives every other value, and now() in a text.
func TestInstant(t *testing.T) {
	t.Parallel()
	var of Time
	p, err := rewrite.New(rewrite.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	ok := true
	if got := of.ReplaceNow(p, "SELECT now()", &ok, Literal); got != "" || !ok {
		t.Errorf("%q without an instant", got)
	}
	of.AddInstant(Value{Format: 1, Bytes: []byte{0, 0, 0, 0, 0, 0, 0, 5}, IsInstant: true})
	const literal = "('2000-01-01 00:00:00+00'::timestamptz + '5 microseconds'::interval)"
	if got := of.Writer("any", &ok, Literal)(values.ExactTxTimeKind); got != values.DefaultAtInstant(values.ExactTxTimeKind, literal) || !ok {
		t.Errorf("%q", got)
	}
	if got := of.ReplaceNow(p, "SELECT now(), 1", &ok, Literal); !strings.Contains(got, literal) || strings.Contains(got, "now()") || !ok {
		t.Errorf("%q", got)
	}
	if got := of.ReplaceNow(p, "SELECT now()", &ok, func(Value) string { return "" }); ok {
		t.Errorf("%q of a value that cannot be written", got)
	}
}

func TestWriters(t *testing.T) {
	t.Parallel()
	if got := Literal(Value{Format: 1, Bytes: []byte{1, 2, 3, 4}}); got != "" {
		t.Errorf("a binary date is %q", got)
	}
	if got := Literal(text("12:00")); got != "'12:00'" {
		t.Error(got)
	}
	p, ok := wire.ParseBindParams([]byte("\x00\x00\x00\x01\x00\x00\x00\x017\x00\x00"))
	if !ok {
		t.Fatal("no parameters")
	}
	if got := ParamWriter(&p)(text("12:00")); got != "$2" {
		t.Error(got)
	}
	if SettingsKey(nil) != "" {
		t.Error("a key of unknown settings")
	}
}

// FixText writes the time into the statements of its transaction, and refuses another way to read the clock.
func TestFixText(t *testing.T) {
	t.Parallel()
	p, err := rewrite.New(rewrite.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	names := schema.New(nil).ResolverFor([]string{"public"})
	instant := Value{Format: 1, Bytes: []byte{0, 0, 0, 0, 0, 0, 0, 5}, IsInstant: true}
	const literal = "('2000-01-01 00:00:00+00'::timestamptz + '5 microseconds'::interval)"
	for _, c := range []struct {
		sql       string
		own       int
		committed bool
		fixed     int // how many calls of now() have the time
		ok        bool
	}{
		{"SELECT 1", 1, false, 0, true},
		{"SELECT now()", 1, false, 1, true},
		{"SELECT now(); SELECT now()", 2, false, 2, true},
		{"SELECT now(); SELECT now()", 1, false, 1, true},
		{"SELECT now()", 0, false, 0, true},
		{"SELECT 'now'::timestamptz", 1, false, 0, false},
		{"SELECT 1; SELECT 'now'::timestamptz", 1, false, 0, true},
		{"EXECUTE x", 1, true, 0, false},
	} {
		of := Time{Committed: c.committed}
		of.AddInstant(instant)
		got, ok := of.FixText(p, c.sql, c.own, names, "", Literal)
		if ok != c.ok || strings.Count(got, literal) != c.fixed || (got != "") != (c.fixed > 0) || c.fixed > 0 && strings.Count(got+c.sql, "now()") != 2*strings.Count(c.sql, "now()")-c.fixed {
			t.Errorf("%s: %q, %v", c.sql, got, ok)
		}
	}
	var unknown Time
	if got, ok := unknown.FixText(p, "SELECT now()", 1, names, "", Literal); ok || got != "" {
		t.Errorf("%q with an unknown time", got)
	}
}
