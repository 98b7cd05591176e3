//go:build tools

// Package tools names Prometheus, for its version to be held by go.mod.
package tools

import _ "github.com/prometheus/prometheus/cmd/prometheus"
