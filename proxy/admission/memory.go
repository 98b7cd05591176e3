package admission

import (
	"bytes"
	"log/slog"
	"os"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
)

// MemoryMonitor reports whether the process is short of memory, because the bounds of all clients together may allow
// more than GOMEMLIMIT. A process that is short accepts no new clients and begins no transactions. Running transactions
// continue. The zero MemoryMonitor is never short, and neither is a process without a limit.
type MemoryMonitor struct {
	short   atomic.Bool
	samples []metrics.Sample
}

// shortAt is the part of the memory limit above which the process is short of memory.
const shortAt = 0.9

// IsShort returns the result of the last Measure: whether the process is short of memory. IsShort is safe for
// concurrent use.
func (m *MemoryMonitor) IsShort() bool { return m.short.Load() }

// Measure measures the memory of the process and compares it with limit, in bytes (0 means no limit). Measure logs
// when the process begins or ceases to be short of memory. Only one goroutine may call Measure.
func (m *MemoryMonitor) Measure(limit int64, log *slog.Logger) {
	if limit == 0 {
		return
	}
	used := m.usedBytes()
	short := float64(used) > shortAt*float64(limit)
	if m.short.Swap(short) != short {
		if short {
			log.Warn("short of memory: no new clients and transactions", "used", used, "GOMEMLIMIT", limit)
		} else {
			log.Info("enough memory again", "used", used, "GOMEMLIMIT", limit)
		}
	}
}

// usedBytes returns the bytes of the live heap as of the last garbage collection, of the stacks, and of the C allocator
// of PostgreSQL's parser. The bytes of the C allocator are those that the kernel counts above Go's own. Garbage and
// free spans do not count.
func (m *MemoryMonitor) usedBytes() int64 {
	if m.samples == nil {
		for _, name := range []string{"/gc/heap/live:bytes", "/memory/classes/heap/stacks:bytes",
			"/memory/classes/total:bytes", "/memory/classes/heap/released:bytes"} {
			m.samples = append(m.samples, metrics.Sample{Name: name})
		}
	}
	metrics.Read(m.samples)
	value := func(i int) int64 { return int64(m.samples[i].Value.Uint64()) }
	return value(0) + value(1) + max(0, anonymousMemory()-(value(2)-value(3)))
}

// anonymousMemory returns the bytes of the process's memory that no file backs, or 0 if the kernel does not report
// them.
func anonymousMemory() int64 {
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
