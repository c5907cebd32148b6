//go:build unix

package e2e_test

// smallSteps lets lists and tags be refilled all the time.
func smallSteps() settings {
	return settings{"SEGMENT_MAX_STEP": "1000", "QUEUE_MAX_STEP": "1000", "QUEUE_PREFETCH_MAX": "1"}
}
