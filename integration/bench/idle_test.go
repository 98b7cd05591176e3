package main

import (
	"io"
	"net"
	"strings"
	"testing"
)

func TestStartUp(t *testing.T) {
	t.Parallel()
	const (
		authOK    = "R\x00\x00\x00\x08\x00\x00\x00\x00"
		password  = "R\x00\x00\x00\x08\x00\x00\x00\x03"
		parameter = "S\x00\x00\x00\x08a\x00b\x00"
		ready     = "Z\x00\x00\x00\x05I"
		refusal   = "E\x00\x00\x00\x0bMfull\x00\x00"
	)
	for _, tt := range []struct{ name, answer, complaint string }{
		{"a server that lets us in", authOK + parameter + ready, ""},
		{"one that wants a password", password, "password"},
		{"one that refuses", refusal, "full"},
		{"one that hangs up", authOK, "EOF"},
		{"no Postgres", "HTTP/1.1 400 Bad Request", "bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, server := net.Pipe()
			defer client.Close()
			go func() {
				defer server.Close()
				if _, err := server.Read(make([]byte, 1024)); err == nil {
					_, _ = server.Write([]byte(tt.answer))
				}
				if tt.complaint != "EOF" {
					_, _ = io.Copy(io.Discard, server) // until the client hangs up
				}
			}()
			err := performStartup(client, "somebody")
			switch {
			case tt.complaint == "" && err != nil:
				t.Error(err)
			case tt.complaint != "" && (err == nil || !strings.Contains(err.Error(), tt.complaint)):
				t.Errorf("error %v, want one about %s", err, tt.complaint)
			}
		})
	}
}
