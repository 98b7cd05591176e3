package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

var errHung = errors.New("no sign of life")

func TestAdmin(t *testing.T) {
	t.Parallel()
	var notReady error
	warning := ""
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics") })
	var hung error
	admin := NewAdminServer(metrics, func(context.Context) error { return hung }, func() error { return notReady }, func() string { return warning }, NewAdminConnLimiter(slog.New(slog.DiscardHandler), nil))
	if admin.ReadHeaderTimeout == 0 || admin.ReadTimeout == 0 || admin.WriteTimeout == 0 || admin.IdleTimeout == 0 {
		t.Error("a timeout of the admin listener is off")
	}
	for _, test := range []struct {
		method, path string
		notReady     error
		status       int
		body         string
	}{
		{"GET", "/metrics", nil, 200, "metrics"},
		{"GET", "/startupz", ErrDraining, 200, "started\n"},
		{"GET", "/livez", ErrDraining, 200, "ok\n"},
		{"GET", "/livez", errHung, 503, "hung: no sign of life\n"},
		{"GET", "/readyz", nil, 200, "ready\n"},
		{"GET", "/readyz", ErrDraining, 503, "not ready: draining\n"},
		{"GET", "/readyz", errors.New("no backend yet"), 503, "not ready: no backend yet\n"},
		{"POST", "/metrics", nil, 405, "Method Not Allowed\n"},
		{"POST", "/readyz", nil, 405, "Method Not Allowed\n"},
		{"DELETE", "/livez", nil, 405, "Method Not Allowed\n"},
		{"GET", "/", nil, 404, "404 page not found\n"},
	} {
		notReady, hung = test.notReady, nil
		if test.notReady == errHung {
			hung = errHung
		}
		answer := httptest.NewRecorder()
		admin.Handler.ServeHTTP(answer, httptest.NewRequest(test.method, test.path, nil))
		if answer.Code != test.status || answer.Body.String() != test.body {
			t.Errorf("%s %s: %d %q, want %d %q", test.method, test.path, answer.Code, answer.Body, test.status, test.body)
		}
	}
	notReady, warning = nil, "something"
	answer := httptest.NewRecorder()
	admin.Handler.ServeHTTP(answer, httptest.NewRequest("GET", "/readyz", nil))
	if answer.Code != 200 || answer.Body.String() != "ready\nwarning: something\n" {
		t.Errorf("with a warning: %d %q", answer.Code, answer.Body)
	}
}
