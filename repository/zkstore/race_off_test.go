//go:build !race

package zkstore_test

const raceDetector = false
