package daemon

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// watchInterval is how often the watched files are looked at. Kubernetes takes
// up to a minute to change a mounted Secret; five seconds more go unnoticed.
const watchInterval = 5 * time.Second

// A Watched group of files is loaded again when one of them changes. Polling,
// not inotify: a mounted Secret changes by swapping a symlink to a directory,
// which a watch on the file itself never hears of.
type Watched struct {
	what   string // for the log: "TLS certificate"
	files  []string
	reload func() error
	seen   []os.FileInfo
}

// NewWatched returns a group of files that reload reads; an empty name is no file. what names the group in the log.
func NewWatched(what string, reload func() error, files ...string) *Watched {
	w := &Watched{what: what, reload: reload}
	for _, file := range files {
		if file != "" {
			w.files = append(w.files, file)
		}
	}
	w.seen = w.look()
	return w
}

func (w *Watched) look() []os.FileInfo {
	infos := make([]os.FileInfo, len(w.files))
	for i, file := range w.files {
		infos[i], _ = os.Stat(file) // nil while the file is away: a change of its own
	}
	return infos
}

// changed reports whether a file differs from the last look.
func (w *Watched) changed() bool {
	now := w.look()
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

// load loads the files again and logs how that went. A failure is no end: the
// old content stays in use, and half of a new pair is followed by its other half.
func (w *Watched) load(log *slog.Logger) {
	if err := w.reload(); err != nil {
		log.Error("reload failed, the old one stays in use", "what", w.what, "error", err)
		return
	}
	log.Info("reloaded", "what", w.what)
}

// Watch reloads each group when its files change, and all of them for every
// value of now (SIGHUP), until ctx ends.
func Watch(ctx context.Context, groups []*Watched, now <-chan os.Signal, log *slog.Logger) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-now:
			for _, w := range groups {
				w.changed() // seen now; the ticker need not load it again
				w.load(log)
			}
		case <-tick.C:
			for _, w := range groups {
				if w.changed() {
					w.load(log)
				}
			}
		}
	}
}
