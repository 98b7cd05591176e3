//go:build race

package dsqlsim_test

// raceDetector makes everything several times slower.
const raceDetector = true
