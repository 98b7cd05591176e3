package kubernetes

import "testing"

func testPrometheus(t *testing.T) {}
