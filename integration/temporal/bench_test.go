package temporal

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var bench = flag.Int("bench", 0, "in how many rounds Temporal on the stand-in, on PostgreSQL through Sluice, and on PostgreSQL are compared; 0: they are not")

// benchWorkflows of each contender in all rounds together, at least.
const benchWorkflows = 200

// contender is a way to a database, with a server of its own.
type contender struct {
	name   string
	behind backend

	d        *deployment
	executed *executions
	rate     []float64            // workflows a second, by round
	latency  []float64            // of the persistence, mean, milliseconds, by round
	cpu      map[string][]float64 // milliseconds a workflow, by program, by round
}

// TestBench runs the same workflows on three ways in turn.
func TestBench(t *testing.T) {
	if *bench == 0 {
		return
	}
	contenders := []*contender{
		{name: "PostgreSQL", behind: postgresAlone},
		{name: "Sluice, PostgreSQL", behind: sluiceOnPostgres},
		{name: "Sluice, dsqlsim", behind: sluiceOnDSQL},
	}
	for _, c := range contenders {
		c.d = deploy(t, setup{plugin: pgx5, behind: c.behind})
		c.executed, c.cpu = c.d.work(t), map[string][]float64{}
		c.d.batch(t, c.executed, "warm", batch) // connections, prepared statements
	}
	size := max(batch, benchWorkflows / *bench)
	for round := range *bench {
		for _, c := range contenders {
			c.sample(t, round, size)
		}
	}
	first := contenders[0]
	var rows strings.Builder
	fmt.Fprintf(&rows, "medians of %d rounds of %d workflows, lowest and highest; ratios are of samples of one round\n", *bench, size)
	rows.WriteString("| | workflows/s | to PostgreSQL | persistence latency ms | to PostgreSQL | CPU ms a workflow: Temporal, Sluice, dsqlsim, PostgreSQL |\n|---|---|---|---|---|---|\n")
	for _, c := range contenders {
		c.executed.verify(t)
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s |", c.name, spread(c.rate, "%.1f"), spread(ratios(c.rate, first.rate), "%.2f"),
			spread(c.latency, "%.2f"), spread(ratios(c.latency, first.latency), "%.2f"))
		for i, program := range programsMeasured {
			if i > 0 {
				rows.WriteString(",")
			}
			fmt.Fprintf(&rows, " %.0f", median(c.cpu[program]))
		}
		rows.WriteString(" |\n")
	}
	t.Logf("\n%s", rows.String())
	microLoad(t, contenders)
}

func (c *contender) sample(t *testing.T, round, size int) {
	t.Helper()
	count, latency := c.d.server.persistence(t)
	cpu := c.d.cpu(t)
	took := c.d.batch(t, c.executed, fmt.Sprint("bench-", round), size)
	after := c.d.cpu(t)
	countAfter, latencyAfter := c.d.server.persistence(t)
	c.rate = append(c.rate, float64(size)/took.Seconds())
	c.latency = append(c.latency, (latencyAfter-latency)/(countAfter-count))
	for program, used := range after {
		c.cpu[program] = append(c.cpu[program], float64((used-cpu[program])/time.Millisecond)/float64(size))
	}
}

// persistence is how many operations the server has asked its database for, and how
// long they took.
func (s *server) persistence(t *testing.T) (count, milliseconds float64) {
	t.Helper()
	text := s.scrape(t)
	const store = "persistence_latency_milliseconds"
	var counts, sums []string
	for _, line := range series(text, store) {
		// What a poller waits for is no work of the database's; visibility has another one.
		if strings.Contains(line, `operation="Visibility`) || strings.Contains(line, `visibility_plugin_name=`) && !strings.Contains(line, `visibility_plugin_name=""`) {
			continue
		}
		switch {
		case strings.HasPrefix(line, store+"_count"):
			counts = append(counts, line)
		case strings.HasPrefix(line, store+"_sum"):
			sums = append(sums, line)
		}
	}
	if len(counts) == 0 {
		t.Fatalf("no series of %s", store)
	}
	return sum(counts), sum(sums)
}

func median(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[len(sorted)/2]
}

func spread(samples []float64, form string) string {
	return fmt.Sprintf(form+" ("+form+"–"+form+")", median(samples), slices.Min(samples), slices.Max(samples))
}

func ratios(a, b []float64) (r []float64) {
	for i := range a {
		r = append(r, a[i]/b[i])
	}
	return r
}
