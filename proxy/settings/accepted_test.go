package settings

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// What is surely taken is so by any server; what SET would take for something else is refused.
func TestSure(t *testing.T) {
	for _, test := range []struct {
		name, value   string
		sure, refused bool
	}{
		{"search_path", "a, b", true, false}, {"search_path", "a b", false, true}, {"search_path", "a,,b", false, true}, {"search_path", "", true, false},
		{"temp_tablespaces", "a b", false, true}, {"temp_tablespaces", "a", false, false},
		{"datestyle", "ISO, MDY", true, false}, {"datestyle", "ISO", false, false}, {"datestyle", "nope, DMY", false, false},
		{"client_encoding", "UTF8", true, false}, {"client_encoding", "utf-8", true, false}, {"client_encoding", "KLINGON", false, false},
		{"intervalstyle", "ISO_8601", true, false}, {"intervalstyle", "nope", false, false}, {"extra_float_digits", "3", true, false},
		{"extra_float_digits", "77", false, false}, {"timezone", "UTC", true, false}, {"timezone", "Europe/Berlin", false, false},
		{"timezone", "Nope", false, false}, {"nosuchguc", "1", false, false}, {"work_mem", "64kB", false, false}, {"application_name", "x", true, false},
	} {
		if sure, refused := IsAlwaysAccepted(test.name, test.value); sure != test.sure || (refused != nil) != test.refused {
			t.Errorf("%s=%s: %v, %v", test.name, test.value, sure, refused)
		}
	}
}

// What was accepted is remembered within bounds, until a server refuses something.
func TestAccepted(t *testing.T) {
	var a AcceptedCache
	now := AcceptedEntry{At: time.Unix(1e9, 0), Shown: []Param{{"TimeZone", "timezone", "UTC"}}}
	known := func(sql string) bool { return !a.Find(sql).At.IsZero() }
	if a.Add("SET a", now); !a.Find("SET a").At.Equal(now.At) || len(a.Find("SET a").Shown) != 1 || known("SET b") {
		t.Error("what was added is not there, or something else is")
	}
	if a.Forget(); known("SET a") {
		t.Error("it was not forgotten")
	}
	long := strings.Repeat("x", mostAcceptedIn+1)
	if a.Add(long, now); known(long) {
		t.Error("a text beyond the bound is remembered")
	}
	for i := range 10 * mostAccepted {
		a.Add(strconv.Itoa(i), now)
	}
	if len(a.m) > mostAccepted {
		t.Errorf("%d texts are remembered", len(a.m))
	}
}
