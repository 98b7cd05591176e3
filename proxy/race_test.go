//go:build race

package proxy

// OneIn is how many of the cases of long tables one is played of: the race detector makes
// each several times as long.
const OneIn = 8
