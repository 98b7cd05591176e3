package proxy

import (
	"context"
	"testing"
	"time"
)

// A Server whose lock is held for good is hung, and says so; once it goes on it is alive.
func TestAlive(t *testing.T) {
	srv := &Server{}
	srv.ctx, srv.stop = context.WithCancel(t.Context())
	srv.running.Go(srv.sweepSessions)
	ask := func(within time.Duration) error {
		ctx, stop := context.WithTimeout(t.Context(), within)
		defer stop()
		return srv.Alive(ctx)
	}
	if err := ask(time.Minute); err != nil {
		t.Errorf("a server that goes round its sessions: %v", err)
	}
	srv.mu.Lock()
	for limit := time.Now().Add(time.Minute); ask(10*time.Millisecond) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("a server that hangs is alive")
		}
	}
	srv.mu.Unlock()
	if err := ask(time.Minute); err != nil {
		t.Errorf("a server that went on: %v", err)
	}
	srv.stop()
	srv.running.Wait()
	time.Sleep(2*sweepEvery + sweepEvery/2)
	if err := ask(time.Millisecond); err != nil {
		t.Errorf("a server that has ended its sessions: %v", err)
	}
}
