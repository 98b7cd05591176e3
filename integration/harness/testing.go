package harness

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Binaries builds the programs on the first call in a test binary, and returns their directory.
func Binaries(tb testing.TB) Bin {
	tb.Helper()
	bin, err := buildPrograms()
	if err != nil {
		tb.Fatalf("build the programs: %v", err)
	}
	return bin
}

// StartSluice runs sluice for the length of one test. It shows the end of the log if the test fails. Bin and Dir may be
// empty.
func StartSluice(tb testing.TB, c SluiceConfig) *Sluice {
	tb.Helper()
	if c.Bin == "" {
		c.Bin = Binaries(tb)
	}
	if c.Dir == "" {
		c.Dir = tb.TempDir()
	}
	s, err := LaunchSluice(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	stopAtEnd(tb, s.Program)
	return s
}

// StartDSQLSim runs dsqlsim, the simulated DSQL cluster, for the length of one test. It shows the end of the log if
// the test fails. Bin and Dir may be empty.
func StartDSQLSim(tb testing.TB, c DSQLSimConfig) *DSQLSim {
	tb.Helper()
	if c.Bin == "" {
		c.Bin = Binaries(tb)
	}
	if c.Dir == "" {
		c.Dir = tb.TempDir()
	}
	s, err := LaunchDSQLSim(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	stopAtEnd(tb, s.Program)
	return s
}

// Start runs any other program for the length of one test, with its output in dir. It shows the end of the log if the
// test fails.
func Start(tb testing.TB, file, dir string, env Env, args ...string) *Program {
	tb.Helper()
	p, err := launchProgram(file, dir, env, args...)
	if err != nil {
		tb.Fatal(err)
	}
	stopAtEnd(tb, p)
	return p
}

// Admin sends a request to dsqlsim's admin interface, as Ask does. An error fails the test.
func (s *DSQLSim) Admin(tb testing.TB, method, path, body string) string {
	tb.Helper()
	answer, err := s.Ask(tb.Context(), method, path, body)
	if err != nil {
		tb.Fatal(err)
	}
	return answer
}

// SumMetric returns the sum of the series of a metric in a scraped text. With a label it adds only the series whose
// labels contain the text label. If name has all its labels, it names one series. found reports whether there was any
// series.
func SumMetric(tb testing.TB, text, name, label string) (sum float64, found bool) {
	tb.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ') // a label's value may have spaces
		if end < 0 {
			continue
		}
		series := line[:end]
		if series != name && !strings.HasPrefix(series, name+"{") || !strings.Contains(series, label) {
			continue
		}
		n, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			tb.Fatalf("%s: %v", line, err)
		}
		sum, found = sum+n, true
	}
	return sum, found
}

// stopAtEnd stops p when the test ends. A program that must be killed has hung, and a program that crashed has logged
// so; both fail the test.
func stopAtEnd(tb testing.TB, p *Program) {
	tb.Cleanup(func() {
		ended := p.Stop(syscall.SIGTERM, stopGrace)
		if !ended {
			tb.Errorf("%s did not end within %v of SIGTERM", p.Name, stopGrace)
		}
		// A program built with -race (GOFLAGS may contain the flag) goes on after a data race.
		if log := p.Log(); strings.Contains(log, "WARNING: DATA RACE") {
			tb.Errorf("%s: %s", p.Name, log[strings.Index(log, "WARNING: DATA RACE"):])
		}
		if tb.Failed() {
			tb.Logf("the end of %s's log:\n%s", p.Name, p.Tail())
		}
	})
}
