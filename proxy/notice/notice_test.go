package notice

import (
	"bytes"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// TestLevels finds that a client gets notices and warnings as its client_min_messages says, in any case.
func TestLevels(t *testing.T) {
	st := &rewrite.Statement{Notices: []rewrite.Notice{{Message: "one"}, {Message: "two", Detail: "more"}}, Warning: &rewrite.Notice{Message: "three"}}
	for _, c := range []struct {
		level             string
		notices, warnings int
	}{
		{"", 2, 1}, {"debug5", 2, 1}, {"notice", 2, 1}, {"warning", 0, 1}, {"WARNING", 0, 1}, {"error", 0, 0}, {"Error", 0, 0},
	} {
		shared := &settings.InternTable{}
		set := settings.NewClient(settings.NewTreatments(true, false, []string{"client_min_messages"}), shared)
		if c.level != "" {
			startup := settings.NewValues(map[string]string{})
			startup.StartupLocal = map[string]string{"client_min_messages": c.level}
			if err := set.ApplyStartup(startup); err != nil {
				t.Fatal(err)
			}
		}
		frames, warnings := Frames(&set, st), WarningFrames(&set, st)
		if len(frames) != c.notices || len(warnings) != c.warnings {
			t.Errorf("client_min_messages %q: %d notices and %d warnings, want %d and %d", c.level, len(frames), len(warnings), c.notices, c.warnings)
		}
		if len(frames) > 1 && (!bytes.Contains(frames[1], []byte("Dmore")) || !bytes.Contains(frames[0], []byte("C00000"))) {
			t.Errorf("got the notices %q", frames)
		}
		if len(warnings) > 0 && (!bytes.Contains(warnings[0], []byte("SWARNING")) || !bytes.Contains(warnings[0], []byte("C01000"))) {
			t.Errorf("got the warning %q", warnings)
		}
	}
	none := settings.NewClient(settings.NewTreatments(true, false, nil), &settings.InternTable{})
	if Frames(&none, &rewrite.Statement{}) != nil || WarningFrames(&none, &rewrite.Statement{}) != nil {
		t.Error("a statement without notices has some")
	}
}

// TestReports finds that an answer stays as it is if no local setting has changed.
func TestReports(t *testing.T) {
	c := settings.NewClient(settings.NewTreatments(true, false, nil), &settings.InternTable{})
	for _, answer := range []string{"C\x00\x00\x00\x08SET\x00Z\x00\x00\x00\x05I", "Z\x00\x00\x00\x05I", "C\x00\x00\x00\x08SET\x00", ""} {
		if got := InsertReports(&c, []byte(answer)); string(got) != answer {
			t.Errorf("%q, want %q", got, answer)
		}
	}
	if got := AppendReports(&c, nil, 'I'); got != nil {
		t.Errorf("reports without a change: %q", got)
	}
}
