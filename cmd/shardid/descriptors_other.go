//go:build !unix

package main

// descriptorLimit: there is none to ask for.
func descriptorLimit() (n uint64, known bool) { return 0, false }
