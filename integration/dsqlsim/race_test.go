//go:build race

package dsqlsim_test

// Sizes of the big tests: the race detector makes each several times as long. Still
// more is sent than all buffers hold.
const (
	countRounds   = 20
	pipelineSteps = 30_000
	streamedRows  = 20_000
	largeMessages = 1
)
