// Package model holds what every part of shardid shares and nothing that does
// I/O: the layout of an ID, segments and how the next one is chosen, apps and
// their limits, and the sentinel errors.
package model
