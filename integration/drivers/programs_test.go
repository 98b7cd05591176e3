package drivers

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// programs are the clients in other languages. They are told a connection
// string and the directory of the scenarios, and print the transcripts, each
// after a line "== name feature feature".
func programs() []client {
	return []client{
		// Debian's own: python3-psycopg is not for any other interpreter.
		program("psycopg", "/usr/bin/python3", "python/play.py"),
		program("python streams", "/usr/bin/python3", "python/streams.py"),
		program("node-postgres", "node", "--no-deprecation", "node/play.js"),
	}
}

func program(name string, command ...string) client {
	return client{name, func(ctx context.Context, t *testing.T, r route) []played {
		dir, err := filepath.Abs(scenarioDir)
		if err != nil {
			t.Error(err)
			return nil
		}
		cmd := exec.CommandContext(ctx, command[0], append(command[1:], r.dsn, dir)...)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err = cmd.Run()
		if err != nil || errs.Len() > 0 {
			lines := strings.Split(out.String(), "\n")
			t.Errorf("%s: %v\n%s\nits last lines:\n%s", r.name, err, errs.String(), excerpt(lines, len(lines)-10, len(lines)))
		}
		return sections(out.String())
	}}
}

// sections splits what a program printed.
func sections(out string) []played {
	var all []played
	for part := range strings.SplitSeq("\n"+out, "\n== ") {
		head, transcript, ok := strings.Cut(part, "\n")
		if !ok || strings.TrimSpace(head) == "" {
			continue
		}
		name, needs, _ := strings.Cut(head, " ")
		all = append(all, played{name, features(needs), transcript})
	}
	return all
}

func TestSections(t *testing.T) {
	t.Parallel()
	got := sections("== one temp copy\na: x\n| y\n== two\nb\n")
	if len(got) != 2 || got[0].name != "one" || len(got[0].needs) != 2 || got[0].transcript != "a: x\n| y" ||
		got[1].name != "two" || got[1].needs != nil {
		t.Errorf("%+v", got)
	}
}
