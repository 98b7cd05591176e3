//go:build !race

package dsqlsim_test

const raceDetector = false
