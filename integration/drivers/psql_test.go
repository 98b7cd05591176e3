package drivers

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// psqlDir holds psql's scripts. A line "-- needs ..." names features.
const psqlDir = "testdata/psql"

func psql() client {
	return client{"psql", func(ctx context.Context, t *testing.T, r route) []played {
		files, err := filepath.Glob(filepath.Join(psqlDir, "*.sql"))
		if err != nil || len(files) == 0 {
			t.Errorf("no scripts: %v", err)
		}
		var all []played
		for _, file := range files {
			all = append(all, playScript(ctx, t, r, file))
		}
		return append(all, played{"interrupt", []Feature{Cancel}, interruptPsql(ctx, t, r)})
	}}
}

// runPsql is psql as a script runs it, with every field of an error.
func runPsql(ctx context.Context, t *testing.T, dsn string) *exec.Cmd {
	program := pgtest.Shared(t).Program("psql", "-X", "-q", "-a", "-v", "VERBOSITY=verbose", "-d", dsn)
	cmd := exec.CommandContext(ctx, program.Path, program.Args[1:]...)
	cmd.Env = program.Env
	return cmd
}

func playScript(ctx context.Context, t *testing.T, r route, file string) played {
	p := played{name: strings.TrimSuffix(filepath.Base(file), ".sql")}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		if needs, ok := strings.CutPrefix(line, "-- needs "); ok {
			p.needs = features(needs)
		}
	}
	cmd := runPsql(ctx, t, r.dsn)
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(string(text), "{t}", "psql_"+p.name) + "ROLLBACK;\n" + alive + ";\n")
	out, err := cmd.CombinedOutput()
	p.transcript = normalPsql(out)
	if err != nil {
		p.transcript += "exit: " + err.Error() + "\n"
	}
	return p
}

var (
	psqlError    = regexp.MustCompile(`^(ERROR|FATAL):  ([0-9A-Z]{5}): (.*)$`)
	psqlProcess  = regexp.MustCompile(`from server process with PID \d+`)
	psqlSchema   = regexp.MustCompile(`pg_temp_\d+`)
	psqlLocation = "LOCATION:  "
)

// normalPsql writes errors as all clients do, and leaves out what is not in
// errors of Sluice's own: the line of the server's source.
func normalPsql(out []byte) string {
	var w transcript
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, psqlLocation) {
			continue
		}
		if len(line) > longest {
			line = fmt.Sprintf("%d bytes, md5 %x", len(line), md5.Sum([]byte(line)))
		}
		line = psqlProcess.ReplaceAllString(line, "from a server process")
		line = psqlSchema.ReplaceAllString(line, "pg_temp_N")
		w.line("%s", psqlError.ReplaceAllString(line, "! $1 $2 $3"))
	}
	return w.String()
}

// interruptPsql presses Ctrl-C while a statement runs.
func interruptPsql(ctx context.Context, t *testing.T, r route) string {
	pg := pgtest.Shared(t)
	cmd := runPsql(ctx, t, r.dsn)
	cmd.Stdin = strings.NewReader("SELECT pg_sleep(60), 'psql interrupted';\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	running := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()" +
		" AND wait_event = 'PgSleep' AND query LIKE '%psql interrupted%'"
	for end := time.Now().Add(untilLimit); pg.SQL(t, r.database, running) != "1" && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	cmd.Process.Signal(syscall.SIGINT)
	err := cmd.Wait()
	return fmt.Sprintf("%s%v\n", normalPsql(out.Bytes()), err)
}
