package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(int(status.Load()))
	}))
	check := func() error {
		return newCommand([]string{"healthcheck", "--admin", strings.TrimPrefix(server.URL, "http://")}).ExecuteContext(t.Context())
	}
	status.Store(http.StatusOK)
	if err := check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []int32{http.StatusServiceUnavailable, http.StatusFound} {
		status.Store(bad)
		if _, ok := errors.AsType[*runtimeError](check()); !ok {
			t.Errorf("%d is well", bad)
		}
	}
	server.Close()
	if _, ok := errors.AsType[*runtimeError](check()); !ok {
		t.Error("nobody there is well")
	}
}
