package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// These are limits on the connections of the admin listener. A scrape of the metrics takes milliseconds. After a longer
// time nobody reads the answer any more.
const (
	adminHeaderTimeout = 5 * time.Second
	adminReadTimeout   = 10 * time.Second
	adminWriteTimeout  = 30 * time.Second
	adminIdleTimeout   = 2 * time.Minute // above Prometheus's usual interval
	adminHeaderBytes   = 16 << 10
)

// liveWait bounds how long /livez waits for the function alive. A working daemon answers within milliseconds, so a
// daemon that takes longer has hung.
const liveWait = 5 * time.Second

// NewAdminServer returns the server of /metrics, /startupz, /livez and /readyz. The caller starts the server when
// clients can connect. alive returns when the daemon works, or with an error at the end of its context. ready returns
// why the daemon is not ready, or nil when the daemon is ready. warning returns the problem of a ready daemon. guests
// bounds the server's connections, and has the log.
func NewAdminServer(metrics http.Handler, alive func(context.Context) error, ready func() error, warning func() string, guests *AdminConnLimiter) *http.Server {
	mux := http.NewServeMux() // the mux answers 405 to other methods than GET and HEAD
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /startupz", func(w http.ResponseWriter, _ *http.Request) {
		writeResponse(w, http.StatusOK, "started") // the configuration is valid, and clients can connect
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) {
		ctx, stop := context.WithTimeout(r.Context(), liveWait)
		defer stop()
		if err := alive(ctx); err != nil {
			writeResponse(w, http.StatusServiceUnavailable, "hung: "+err.Error())
			return
		}
		writeResponse(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			writeResponse(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		if text := warning(); text != "" {
			writeResponse(w, http.StatusOK, "ready\nwarning: "+text)
			return
		}
		writeResponse(w, http.StatusOK, "ready")
	})
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: adminHeaderTimeout,
		ReadTimeout:       adminReadTimeout,
		WriteTimeout:      adminWriteTimeout,
		IdleTimeout:       adminIdleTimeout,
		MaxHeaderBytes:    adminHeaderBytes,
		ConnState:         guests.trackState,
		ErrorLog:          slog.NewLogLogger(guests.log.Handler(), slog.LevelDebug),
	}
}

func writeResponse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // the prober may have left
}
