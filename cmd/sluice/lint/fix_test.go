package lint

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/cmd/sluice/cli"
	"github.com/sluice-proxy/sluice/cmd/sluice/config/configtest"
)

// lintIn runs the command in a folder and returns what it printed with the folder left out.
func lintIn(t *testing.T, dir, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	configtest.Source{}.Prepare(t)
	for i := range args {
		args[i] = strings.Replace(args[i], "DIR", dir, 1)
	}
	root := newRoot()
	root.SetIn(strings.NewReader(stdin))
	var stdout, stderr bytes.Buffer
	code = cli.Execute(root, append([]string{"lint"}, args...), &stdout, &stderr)
	return code, strings.ReplaceAll(stdout.String(), dir+"/", ""), strings.ReplaceAll(stderr.String(), dir+"/", "")
}

// tree reads all files of a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			text, rerr := os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			files[name], err = string(text), rerr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var update = flag.Bool("update", false, "write what the fixed files are")

// TestLintMigrations reads and fixes a folder of each tool: testdata/migrations has what the
// tool's users write, testdata/fixed what comes of it, with the reports before and behind.
func TestLintMigrations(t *testing.T) {
	tools, err := os.ReadDir("testdata/migrations")
	if err != nil || len(tools) < 8 {
		t.Fatalf("%v, %v", tools, err)
	}
	for _, tool := range tools {
		t.Run(tool.Name(), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata/migrations", tool.Name()))); err != nil {
				t.Fatal(err)
			}
			_, before, errs := lintIn(t, dir, "", "DIR")
			if !strings.Contains(before, " statements, ") {
				t.Fatalf("%s\n%s", before, errs)
			}
			_, fixing, _ := lintIn(t, dir, "", "--fix", "DIR")
			got := tree(t, dir)
			code, behind, errs := lintIn(t, dir, "", "--fix", "DIR")
			if strings.Contains(behind, "fixed:") || (code == cli.ExitOK) != strings.Contains(behind, " 0 for people") {
				t.Errorf("a fixed folder is fixed again: exit code %d\n%s\n%s", code, behind, errs)
			}
			for name, text := range tree(t, dir) {
				if text != got[name] {
					t.Errorf("%s\n first  %q\n second %q", name, got[name], text)
				}
			}
			got["report.txt"] = before + "\n--fix\n" + fixing + "\n--fix again\n" + behind
			want := filepath.Join("testdata/fixed", tool.Name())
			if *update {
				writeTree(t, want, got)
			}
			for name, text := range tree(t, want) {
				if got[name] != text {
					t.Errorf("%s\n got\n%s\n want\n%s", name, got[name], text)
				}
				delete(got, name)
			}
			for name := range got {
				t.Errorf("%s is not in %s", name, want)
			}
		})
	}
}

func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const unfixed, fixedByNow = "CREATE INDEX i ON t (a);\n", "INDEX ASYNC i ON t (a);\n"

// A file keeps its mode, a link stays one, and nothing is left beside.
func TestFixWritesInPlace(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a.sql": 0o600, "sub/real.txt": 0o754, "same.sql": 0o444} {
		text := unfixed
		if name == "same.sql" {
			text = "SELECT 1;\n"
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("sub/real.txt", filepath.Join(dir, "b.sql")); err != nil {
		t.Fatal(err)
	}
	untouched, err := os.Stat(filepath.Join(dir, "same.sql"))
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := lintIn(t, dir, "", "--fix", "DIR/a.sql", "DIR/b.sql", "DIR/same.sql")
	if code != cli.ExitOK || errs != "" || !strings.HasSuffix(out, "3 statements, 2 findings, 2 fixed, 0 for people\n") {
		t.Errorf("exit code %d\n%s\n%s", code, out, errs)
	}
	files := tree(t, dir)
	if len(files) != 4 || !strings.HasSuffix(files["a.sql"], fixedByNow) || !strings.HasSuffix(files["sub/real.txt"], fixedByNow) {
		t.Errorf("%q", files)
	}
	for name, mode := range map[string]os.FileMode{"a.sql": 0o600, "sub/real.txt": 0o754, "same.sql": 0o444} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "b.sql")); to != "sub/real.txt" {
		t.Errorf("the link: %q, %v", to, err)
	}
	if now, err := os.Stat(filepath.Join(dir, "same.sql")); err != nil || !os.SameFile(now, untouched) {
		t.Errorf("a file without findings was written: %v, %v", now, err)
	}
}

func TestFixStandardInput(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := lintIn(t, dir, unfixed+"TRUNCATE t;", "--fix", "--format=json", "-")
	report, _, _ := strings.Cut(errs, "sluice: ")
	var got lintReport
	if err := json.Unmarshal([]byte(report), &got); err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	if code != cli.ExitRuntime || strings.Count(out, "\n") != 3 || !strings.Contains(out, fixedByNow) || !strings.HasSuffix(out, "\nTRUNCATE t;") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if len(got.Findings) != 2 || got.Findings[0].Status != "fixed" || got.Findings[1].Status != "people" || got.Findings[1].Line != 4 {
		t.Errorf("%+v", got)
	}
	if code, out, _ := lintIn(t, dir, "SELECT 1", "--fix", "-"); code != cli.ExitOK || out != "SELECT 1" {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// Where one input cannot be fixed, none is.
func TestFixRefuses(t *testing.T) {
	dir := t.TempDir()
	const log = "2026-11-21 04:00:00.000 UTC [12] LOG:  statement: CREATE INDEX i ON t (a)\n"
	writeTree(t, dir, map[string]string{"a.sql": unfixed, "z/postgres.sql": log, "empty/b.rb": "", "empty/c.py": ""})
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--fix", "DIR/a.sql", "DIR/z/postgres.sql"}, cli.ExitUsage, "z/postgres.sql: a log of statements cannot be fixed"},
		{[]string{"--fix", "DIR/a.sql", "DIR/z"}, cli.ExitUsage, "a log of statements cannot be fixed"},
		{[]string{"--fix", "DIR/a.sql", "DIR/none.sql"}, cli.ExitUsage, "none.sql: no such file"},
		{[]string{"--fix", "DIR/a.sql", "DIR/empty"}, cli.ExitRuntime, "empty: no SQL file in it; 2 files not read"},
		{[]string{"DIR/empty"}, cli.ExitRuntime, "empty: no SQL file in it; 2 files not read"},
	} {
		code, out, errs := lintIn(t, dir, "", slices.Clone(test.args)...)
		if code != test.code || !strings.Contains(errs, test.want) || out != "" {
			t.Errorf("%v: exit code %d\n%s\n%s", test.args, code, out, errs)
		}
	}
	if got := tree(t, dir)["a.sql"]; got != unfixed {
		t.Errorf("a.sql is %q", got)
	}
}

// The files of a folder that nobody reads are named.
func TestLintNamesWhatIsNotRead(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"10_a.SQL": "SELECT 1", "2_a.sql": "TRUNCATE t", "3_b.rb": "x", "sub/x.ts": "x", ".git/a.sql": "TRUNCATE t", "node_modules/a.sql": "TRUNCATE t"})
	_, out, _ := lintIn(t, dir, "", "--format=json", "DIR")
	var got lintReport
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got.Statements != 2 || len(got.Findings) != 1 || !slices.Equal(got.NotRead, []string{"3_b.rb", "sub/x.ts"}) {
		t.Errorf("%+v", got)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	_, out, _ = lintIn(t, filepath.Join(dir, "link"), "", "DIR")
	if !strings.Contains(out, "3_b.rb: not read: no SQL\n") || !strings.HasSuffix(out, "2 statements, 1 finding, 1 for people; 3 files not read\n") {
		t.Errorf("%s", out)
	}
}
