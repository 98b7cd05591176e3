//go:build race

package proxy

const usualOneIn = 13
