package daemon

import (
	"io"
	"log/slog"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
)

// NewLogger returns the logger of the daemon. c.Level is one of the choices of the key log.level.
func NewLogger(c config.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		panic("log.level: " + err.Error())
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: formatDurationAttr}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// formatDurationAttr makes the log write a duration as 1.5s instead of JSON's 1500000000.
func formatDurationAttr(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
