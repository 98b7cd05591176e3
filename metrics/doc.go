// Package metrics holds every Prometheus metric of Sluice. The package imports no other package of this module.
//
// # Use
//
// Code that counts events holds a *Proxy, *Reservoir or *Rewrite and calls its methods with plain Go values. Every
// method may be called on nil and then counts nothing. So tests need no metrics, and there is no second implementation.
//
// Gauges are pulled: each scrape calls the function given to SetSource, which reads a snapshot of the owner. Counts
// that the owner has anyway are pulled too. So a gauge cannot differ from its source.
//
// # Labels
//
// Label values come from fixed sets in labels.go. A value outside its set counts under "other", so no caller can
// increase the number of series. Clients choose the names of operations, which operations.go bounds. Every other series
// exists from the start with 0, so that a rate over its first increment is right. SQL, users and addresses are never
// labels.
package metrics
