//go:build !race

package proxy

const usualOneIn = 5 // see OneIn
