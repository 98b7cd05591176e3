package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// eventNode is an event in the graph: a snapshot, a commit, or a moment of the clock.
type eventNode int

func startNode(t *checkedTxn) eventNode  { return eventNode(2 * t.number) }
func commitNode(t *checkedTxn) eventNode { return eventNode(2*t.number + 1) }

// orderEdge says that one event must precede another, and why.
type orderEdge struct {
	from, to eventNode
	format   string // "" for what goes without saying
	args     [3]int
}

func (c *historyChecker) addEdge(from, to eventNode, format string, args ...int) {
	e := orderEdge{from: from, to: to, format: format}
	copy(e.args[:], args)
	c.edges = append(c.edges, e)
}

func (e *orderEdge) String() string {
	args := make([]any, strings.Count(e.format, "%d"))
	for i := range args {
		args[i] = e.args[i]
	}
	return fmt.Sprintf(e.format, args...)
}

// addClockEdges adds the edges that follow from time: a snapshot contains every commit that was acknowledged before the
// transaction began. A chain of moments connects commits and snapshots, so that each transaction adds only two edges.
func (c *historyChecker) addClockEdges() (nodes int) {
	type moment struct {
		at    int64
		t     *checkedTxn
		acked bool
	}
	var moments []moment
	for _, t := range c.txns {
		c.addEdge(startNode(t), commitNode(t), "")
		moments = append(moments, moment{t.Began, t, false})
		if t.Outcome == Committed {
			moments = append(moments, moment{t.Ended, t, true})
		}
	}
	slices.SortFunc(moments, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	nodes = 2 * len(c.txns)
	for i, m := range moments {
		tick := eventNode(nodes + i)
		if i > 0 {
			c.addEdge(tick-1, tick, "")
		}
		if m.acked {
			c.addEdge(commitNode(m.t), tick, "T%d was acknowledged at %d", m.t.ID, int(m.at))
		} else {
			c.addEdge(tick, startNode(m.t), "T%d began at %d", m.t.ID, int(m.at))
		}
	}
	return nodes + len(moments)
}

// findCycle returns the shortest cycle of the graph as a Violation, nil if there is none.
func (c *historyChecker) findCycle() *Violation {
	nodes := c.addClockEdges()
	out := make([][]int, nodes) // edges by where they begin
	in := make([]int, nodes)
	for i, e := range c.edges {
		out[e.from] = append(out[e.from], i)
		in[e.to]++
	}
	// This loop removes nodes without incoming edges, until only cycles, and paths that begin in cycles, remain.
	var free []eventNode
	for n, edges := range in {
		if edges == 0 {
			free = append(free, eventNode(n))
		}
	}
	for len(free) > 0 {
		n := free[len(free)-1]
		free = free[:len(free)-1]
		for _, i := range out[n] {
			to := c.edges[i].to
			if in[to]--; in[to] == 0 {
				free = append(free, to)
			}
		}
	}
	var shortest []int
	for n := range 2 * len(c.txns) {
		if in[n] == 0 {
			continue
		}
		if path := c.shortestLoop(eventNode(n), out, in, len(shortest)); path != nil {
			shortest = path
		}
	}
	if shortest == nil {
		return nil
	}
	return c.describeCycle(shortest)
}

// shortestLoop returns the shortest path from a node back to itself over the remaining nodes. It returns nil if no path
// has fewer edges than limit (0: any).
func (c *historyChecker) shortestLoop(from eventNode, out [][]int, in []int, limit int) []int {
	type step struct {
		n            eventNode
		edge, before int // how it was reached: an edge, from a step
		length       int
	}
	steps := []step{{n: from, before: -1}}
	seen := map[eventNode]bool{}
	for i := 0; i < len(steps); i++ {
		s := steps[i]
		if limit > 0 && s.length+1 >= limit {
			return nil
		}
		for _, e := range out[s.n] {
			to := c.edges[e].to
			if to == from {
				path := []int{e}
				for ; s.before >= 0; s = steps[s.before] {
					path = append(path, s.edge)
				}
				slices.Reverse(path)
				return path
			}
			if in[to] > 0 && !seen[to] {
				seen[to] = true
				steps = append(steps, step{to, e, i, s.length + 1})
			}
		}
	}
	return nil
}

func (c *historyChecker) describeCycle(path []int) *Violation {
	v := Violation{Rule: Cycle}
	var why []string
	for _, i := range path {
		e := &c.edges[i]
		if e.format != "" {
			why = append(why, e.String())
		}
		for _, n := range []eventNode{e.from, e.to} {
			if t := int(n) / 2; t < len(c.txns) && !slices.Contains(v.Txns, c.txns[t].Txn) {
				v.Txns = append(v.Txns, c.txns[t].Txn)
			}
		}
	}
	v.Text = strings.Join(why, "; ")
	return &v
}
