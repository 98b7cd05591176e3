//go:build race

package proxy

const (
	usualOneIn = 29 // see OneIn
	MostStarts = 500
)
