package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestLogForms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		config LogConfig
		want   string
	}{
		{LogConfig{Level: "info", Format: "json"}, `"level":"INFO","msg":"m","took":"1.5s"}`},
		{LogConfig{Level: "info", Format: "text"}, "level=INFO msg=m took=1.5s"},
		{LogConfig{Level: "warn", Format: "text"}, ""},
	} {
		var out bytes.Buffer
		newLogger(test.config, &out).Info("m", "took", 1500*time.Millisecond)
		if got := strings.TrimSpace(out.String()); !strings.HasSuffix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%v: %s, want %s", test.config, got, test.want)
		}
	}
}
