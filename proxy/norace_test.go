//go:build !race

package proxy

const (
	Racing     = false
	usualOneIn = 5 // see OneIn
	// MostStarts is how many clients start at once in tests.
	MostStarts = 5000
)
