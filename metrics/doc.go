// Package metrics holds every Prometheus metric of Sluice, and nothing else. It
// is a leaf: it knows no other package of this module.
//
// # Use
//
// The owner of a figure holds a *Proxy, *Reservoir or *Rewrite and calls its
// verbs with plain Go values. Every verb may be called on nil, which counts
// nothing: tests need no wiring, and there is no second implementation.
//
// Counts that their owner keeps anyway, and all gauges, are not pushed but
// pulled: the owner's snapshot is read at scrape (see Pull), so that a gauge
// cannot drift from what it stands for.
//
// # Labels
//
// Label values come from closed sets, listed in labels.go. A value outside its
// set is counted under "other", so no caller can grow the number of series. The
// names of operations are made by clients: operations.go bounds them. Every other series exists from the start with 0, so that a rate over its first
// increment is right. SQL, users and addresses are never labels.
package metrics
