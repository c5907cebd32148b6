//go:build !race

package check

// Race says that the race detector is on. It makes everything about ten times slower.
const Race = false
