package settings

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Equal settings are one, unequal ones are not, however a key may be pieced together of them; and
// who finds them makes no garbage.
func TestShare(t *testing.T) {
	m := func(pairs ...string) map[string]string {
		vals := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			vals[pairs[i]] = pairs[i+1]
		}
		return vals
	}
	all := func() []*Values {
		return []*Values{
			{SQL: m("a", "1")},
			{SQL: m("a", "1", "b", "2")},
			{SQL: m("a", "1b2")},
			{SQL: m("a1", "b"), StartupLocal: m()},
			{SQL: m("a", "1"), StartupLocal: m("b", "2")},
			{StartupLocal: m("a", "1")},
			{StartupLocal: m("a", "1"), Shown: m("a", "1")},
			{SQL: m("a", "1"), Shown: m("a", "1")},
			{SQL: m("a", "1"), Shown: m("a", "2")},
			{SQL: m("a", "\x01b\x012"), StartupLocal: m()},
		}
	}
	var n InternTable
	first, seen := all(), map[*Values]bool{}
	for i, s := range first {
		if n.Intern(s) != s || seen[s] {
			t.Errorf("%d is taken for another", i)
		}
		seen[s] = true
	}
	for i, s := range all() {
		if n.Intern(s) != first[i] {
			t.Errorf("%d is not found", i)
		}
	}
	again := all()[4]
	if got := testing.AllocsPerRun(100, func() { n.Intern(again) }); got != 0 {
		t.Errorf("%.0f allocations", got)
	}
	if n.Intern(&Values{Shown: m("a", "1")}) != n.NoSettings() {
		t.Error("settings that set nothing are not None")
	}

	var shared SharedReports
	r := NewReports(m("TimeZone", "UTC", "a", "b"))
	if shared.Intern(r) != r || shared.Intern(NewReports(m("TimeZone", "UTC", "a", "b"))) != r || shared.Intern(NewReports(m("TimeZone", "UTCa", "", "b"))) == r {
		t.Error("equal reports are not one, or unequal ones are")
	}
	if got := testing.AllocsPerRun(100, func() { shared.Intern(r) }); got != 0 {
		t.Errorf("%.0f allocations for reports", got)
	}
}

// Long settings are nobody's but their client's: they go with it.
func TestLongSettingsGo(t *testing.T) {
	var n InternTable
	var shared SharedReports
	freed := make(chan string, 2)
	func() {
		long := strings.Repeat("x", 1<<20)
		s := n.Intern(n.NoSettings().WithChanges([]rewrite.SettingChange{{Action: rewrite.Set, Name: "a.b", SQL: "'" + long + "'", Text: long}}, n.NoSettings()))
		runtime.AddCleanup(s, func(string) { freed <- "settings" }, "")
		r := shared.Intern(NewReports(map[string]string{"a.b": long}))
		runtime.AddCleanup(r, func(string) { freed <- "reports" }, "")
		if s.Bytes() < 2<<20 || s.Bytes() > 3<<20 {
			t.Errorf("they have %d bytes", s.Bytes())
		}
		if bare := s.WithoutLongValues(); bare.Bytes() > 1<<10 || DiffSQL(bare, s) != DiffSQL(n.NoSettings(), s) || DiffSQL(bare, n.NoSettings()) != DiffSQL(s, n.NoSettings()) {
			t.Errorf("without their values they have %d bytes, and are brought to others by %s", bare.Bytes(), DiffSQL(bare, n.NoSettings()))
		}
	}()
	for end := time.Now().Add(10 * time.Second); len(freed) < 2; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatalf("%d of them have gone", len(freed))
		}
	}
	runtime.KeepAlive(&n)
	runtime.KeepAlive(&shared)
}
