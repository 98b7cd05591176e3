package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	// As Kubernetes mounts a Secret: the file is a link through a link that is
	// swapped for one to a new directory.
	for _, version := range []string{"v1", "v2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "users"), []byte(version), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(version string) {
		next := filepath.Join(dir, "next")
		if err := errors.Join(os.Symlink(version, next), os.Rename(next, filepath.Join(dir, "data"))); err != nil {
			t.Fatal(err)
		}
	}
	link("v1")
	file := filepath.Join(dir, "users")
	if err := os.Symlink(filepath.Join("data", "users"), file); err != nil {
		t.Fatal(err)
	}

	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var loads atomic.Int32
		var failing atomic.Bool
		var log syncBuffer
		w := NewWatchedFiles("users file", func() error {
			loads.Add(1)
			if failing.Load() {
				return errors.New("gone")
			}
			return nil
		}, file, "")
		hangup := make(chan os.Signal)
		go WatchFiles(ctx, []*WatchedFiles{w}, hangup, slog.New(slog.NewTextHandler(&log, nil)))

		for _, step := range []struct {
			name   string
			change func()
			want   int32
		}{
			{"nothing", func() {}, 0},
			{"the link moves", func() { link("v2") }, 1},
			{"nothing since", func() {}, 1},
			{"same size, same name", func() { os.WriteFile(file, []byte("v3"), 0o600) }, 2},
			{"gone", func() { failing.Store(true); os.Remove(file) }, 3},
			{"still gone", func() {}, 3},
			{"back", func() { failing.Store(false); os.WriteFile(file, []byte("v4"), 0o600) }, 4},
			{"SIGHUP", func() { hangup <- syscall.SIGHUP }, 5},
			{"SIGHUP after a change", func() { os.WriteFile(file, []byte("version 5"), 0o600); hangup <- syscall.SIGHUP }, 6},
		} {
			step.change()
			time.Sleep(watchInterval)
			synctest.Wait()
			if got := loads.Load(); got != step.want {
				t.Errorf("%s: loaded %d times, want %d", step.name, got, step.want)
			}
		}
		if n := strings.Count(log.String(), "reload failed, the old one stays in use"); n != 1 {
			t.Errorf("%d failures logged, want 1:\n%s", n, log.String())
		}
	})
}
