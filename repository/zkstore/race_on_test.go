//go:build race

package zkstore_test

// raceDetector slows everything down, about tenfold.
const raceDetector = true
