package daemon

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// watchInterval is the interval at which watched files are checked. Kubernetes takes up to a minute
// to change a mounted Secret, so five seconds more do not matter.
const watchInterval = 5 * time.Second

// WatchedFiles is a group of files that is reloaded when one of them changes. WatchedFiles polls the files, because a
// mounted Secret changes by a symlink to another directory. inotify on the file itself does not report that.
type WatchedFiles struct {
	what   string // name for the log, as "TLS certificate"
	files  []string
	reload func() error
	seen   []os.FileInfo
}

// NewWatchedFiles returns a group of files that the function reload reads. Empty names are ignored. what names the
// group in the log.
func NewWatchedFiles(what string, reload func() error, files ...string) *WatchedFiles {
	w := &WatchedFiles{what: what, reload: reload}
	for _, file := range files {
		if file != "" {
			w.files = append(w.files, file)
		}
	}
	w.seen = w.statFiles()
	return w
}

func (w *WatchedFiles) statFiles() []os.FileInfo {
	infos := make([]os.FileInfo, len(w.files))
	for i, file := range w.files {
		infos[i], _ = os.Stat(file) // nil while the file is missing, which counts as a change
	}
	return infos
}

// haveChanged reports whether a file of the group has changed since the last call.
func (w *WatchedFiles) haveChanged() bool {
	now := w.statFiles()
	differs := false
	for i := range now {
		differs = differs || !sameFile(w.seen[i], now[i])
	}
	w.seen = now
	return differs
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// reloadAndLog reloads the files of the group and logs the outcome. After a failure the old content stays in use,
// because a certificate and its key may change one after the other.
func (w *WatchedFiles) reloadAndLog(log *slog.Logger) {
	if err := w.reload(); err != nil {
		log.Error("reload failed, the old one stays in use", "what", w.what, "error", err)
		return
	}
	log.Info("reloaded", "what", w.what)
}

// WatchFiles reloads each group when its files change, until ctx ends. For each value of now (SIGHUP) WatchFiles
// reloads all groups.
func WatchFiles(ctx context.Context, groups []*WatchedFiles, now <-chan os.Signal, log *slog.Logger) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-now:
			for _, w := range groups {
				w.haveChanged() // so that the ticker does not load it again
				w.reloadAndLog(log)
			}
		case <-tick.C:
			for _, w := range groups {
				if w.haveChanged() {
					w.reloadAndLog(log)
				}
			}
		}
	}
}
