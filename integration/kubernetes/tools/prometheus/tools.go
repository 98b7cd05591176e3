//go:build tools

// Package tools imports Prometheus, so that go.mod records its version.
package tools

import _ "github.com/prometheus/prometheus/cmd/prometheus"
