package proxy

import (
	"bytes"
	"log/slog"
	"os"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
)

// What all bounds together allow may be more than there is. So a process that was told its
// share (GOMEMLIMIT) takes no new clients and begins no new transactions when nearly all of
// it is in use: those that have begun come to their end, and nobody is killed.

// memory watches what the process uses. The zero value, and a process without a limit,
// never is short.
type memory struct {
	short   atomic.Bool
	samples []metrics.Sample
}

// shortAt is the part of the limit above which the process is short of memory.
const shortAt = 0.9

// look judges anew whether the process is short of memory, given its limit in bytes; 0
// is none. One goroutine calls it.
func (m *memory) look(limit int64, log *slog.Logger) {
	if limit == 0 {
		return
	}
	used := m.used()
	short := float64(used) > shortAt*float64(limit)
	if m.short.Swap(short) != short {
		if short {
			log.Warn("short of memory: no new clients and transactions", "used", used, "GOMEMLIMIT", limit)
		} else {
			log.Info("enough memory again", "used", used, "GOMEMLIMIT", limit)
		}
	}
}

// used is what lives of the heap, as the last collection has found, the stacks, and what
// PostgreSQL's parser has, which is C's: what the kernel counts beyond Go's own. What is
// dead, and what Go keeps for later, does not count.
func (m *memory) used() int64 {
	if m.samples == nil {
		for _, name := range []string{"/gc/heap/live:bytes", "/memory/classes/heap/stacks:bytes",
			"/memory/classes/total:bytes", "/memory/classes/heap/released:bytes"} {
			m.samples = append(m.samples, metrics.Sample{Name: name})
		}
	}
	metrics.Read(m.samples)
	value := func(i int) int64 { return int64(m.samples[i].Value.Uint64()) }
	return value(0) + value(1) + max(0, anonymous()-(value(2)-value(3)))
}

// anonymous is the process's memory that no file is behind, in bytes; 0 where the kernel
// does not tell.
func anonymous() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("\nRssAnon:"))
	kB, _, found := bytes.Cut(rest, []byte("kB"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(kB)), 10, 64)
	if !found || err != nil {
		return 0
	}
	return n << 10
}
