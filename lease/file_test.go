package lease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// A file gives its places to whoever gets its lock after the one who wrote them has
// ended, whatever became of it in between but its very self: else it gives none.
func TestFileIsEvidenceOfItselfOnly(t *testing.T) {
	written := []recordPlace{{3, "abc.1"}, {0, "abc.2"}}
	rewrite := func(change func(string) string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(change(string(text))), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, path string)
		lives  bool // the process that wrote it
		want   []recordPlace
		held   bool // by another
	}{
		"dead":             {want: written},
		"alive":            {lives: true, held: true},
		"alive, hard link": {lives: true, held: true, change: func(t *testing.T, path string) { swap(t, path, os.Link) }},
		"alive, copied":    {lives: true, change: func(t *testing.T, path string) { swap(t, path, copyFile) }},
		"alive, deleted":   {lives: true, change: func(t *testing.T, path string) { os.Remove(path) }},
		"dead, copied":     {change: func(t *testing.T, path string) { swap(t, path, copyFile) }},
		"cut off":          {change: rewrite(func(text string) string { return strings.TrimSuffix(text, fileEnd) })},
		"of another start of the machine": {change: rewrite(func(text string) string {
			return strings.Replace(text, bootID(), "00000000-0000-0000-0000-000000000000", 1)
		})},
		"of a later version":  {change: rewrite(func(text string) string { return strings.Replace(text, "lease 1", "lease 2", 1) })},
		"more behind its end": {want: written, change: rewrite(func(text string) string { return text + "9 other.1\n" + fileEnd })},
		"nonsense in it":      {want: written, change: rewrite(func(text string) string { return strings.Replace(text, fileEnd, "-1 x\nx y\n7\n\n"+fileEnd, 1) })},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lease")
			first := NewLockFile(path)
			if places, err := first.lock(); err != nil || places != nil {
				t.Fatalf("a new file has %v (%v)", places, err)
			}
			if err := first.writePlaces(append([]recordPlace{{7, "longer"}}, written...)); err != nil {
				t.Fatal(err)
			}
			if err := first.writePlaces(written); err != nil {
				t.Fatal(err)
			}
			if !test.lives {
				first.Close()
			}
			if test.change != nil {
				test.change(t, path)
			}
			second := NewLockFile(path)
			places, err := second.lock()
			if errors.Is(err, errFileHeld) != test.held || !reflect.DeepEqual(places, test.want) {
				t.Errorf("got %v, %v", places, err)
			}
			first.Close()
			second.Close()
		})
	}
}

// swap replaces a file by what do makes of it under another name.
func swap(t *testing.T, path string, do func(old, new string) error) {
	t.Helper()
	err := do(path, path+"2")
	if err == nil {
		err = os.Rename(path+"2", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func copyFile(old, new string) error {
	text, err := os.ReadFile(old)
	if err != nil {
		return err
	}
	return os.WriteFile(new, text, 0o600)
}

// What is no file of its own kind is refused, and a full one keeps the newest places.
func TestFileRefusalsAndBounds(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{folder, path, "/dev/null", filepath.Join(folder, "none", "x")} {
		f := NewLockFile(bad)
		if _, err := f.lock(); err == nil || f.isLocked() {
			t.Errorf("%s was taken", bad)
		}
	}
	f := NewLockFile(filepath.Join(folder, "full"))
	if _, err := f.lock(); err != nil {
		t.Fatal(err)
	}
	var places []recordPlace
	for i := range mostPlaces + 5 {
		places = append(places, recordPlace{i, fmt.Sprintf("%064d", i)})
	}
	if err := f.writePlaces(places); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got, err := f.lock(); err != nil || len(got) != mostPlaces || got[mostPlaces-1] != places[len(places)-1] {
		t.Errorf("%d places (%v)", len(got), err)
	}
	f.Close()
}
