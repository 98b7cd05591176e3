//go:build race

package proxy

const (
	Racing     = true
	usualOneIn = 29 // see OneIn
	MostStarts = 500
)
