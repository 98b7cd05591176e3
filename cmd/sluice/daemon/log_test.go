package daemon

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

func TestLogForms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		config config.Log
		want   string
	}{
		{config.Log{Level: "info", Format: "json"}, `"level":"INFO","msg":"m","took":"1.5s"}`},
		{config.Log{Level: "info", Format: "text"}, "level=INFO msg=m took=1.5s"},
		{config.Log{Level: "warn", Format: "text"}, ""},
	} {
		var out bytes.Buffer
		NewLogger(test.config, &out).Info("m", "took", 1500*time.Millisecond)
		if got := strings.TrimSpace(out.String()); !strings.HasSuffix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%v: %s, want %s", test.config, got, test.want)
		}
	}
}
