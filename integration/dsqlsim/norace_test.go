//go:build !race

package dsqlsim_test

// Sizes of the big tests.
const (
	countRounds   = 500     // of each client of TestCounter
	pipelineSteps = 100_000 // of TestLongPipeline
	streamedRows  = 200_000 // of TestLargeResultIsStreamed
	largeMessages = 3       // of TestLargeMessages
)
