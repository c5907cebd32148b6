//go:build unix

package bench

import "strconv"

// goal is a line of the table: the median of a figure, or of its ratio to another one, and what is wanted of it.
type goal struct {
	what, figure, of string // of is "" for a figure by itself
	unit             string
	sign             string // ≥ or ≤; "" where nothing is wanted
	wanted           float64
}

func (g goal) bound() string {
	if g.sign == "" {
		return ""
	}
	return g.sign + " " + strconv.FormatFloat(g.wanted, 'f', -1, 64)
}

func (g goal) verdict(got float64) string {
	switch {
	case g.sign == "":
		return ""
	case g.sign == "≥" && got >= g.wanted, g.sign == "≤" && got <= g.wanted:
		return "met"
	}
	return "MISSED"
}

// goals are what the project promises itself, in the order of docs/performance.md. Behind the name of a package is
// that of its Go benchmark, as go test prints it.
func goals() []goal {
	return []goal{
		{"/get over 64 lists, requests a second", "/get req/s", "", "", "", 0},
		{"the same, of bare Gin", "/get req/s", "bare Gin req/s", "×", "≥", 0.95},
		{"the same, of a plain LPOP", "/get req/s", "plain LPOP req/s", "×", "≥", 1.9},
		{"its p99, of a plain LPOP's", "/get p99", "plain LPOP p99", "×", "≤", 0.9},
		{"its CPU time, of bare Gin's", "/get CPU", "bare Gin CPU", "×", "", 0},
		{"IDs for one call to Redis", "/get IDs/call", "", "", "≥", 50},
		{"segment, of bare Gin", "segment req/s", "bare Gin req/s", "×", "", 0},
		{"snowflake, of bare Gin", "snowflake req/s", "bare Gin req/s", "×", "", 0},
		{"UID, of bare Gin", "UID req/s", "bare Gin req/s", "×", "", 0},

		{"IDs by count=100, embedded, of bare Gin's requests", "count=100 IDs/s", "bare Gin req/s", "×", "≥", 80},
		{"RESP, INCR, of bare Gin", "RESP req/s", "bare Gin req/s", "×", "≥", 1.5},
		{"the same, pipelined by 16", "RESP pipelined req/s", "bare Gin req/s", "×", "≥", 15},
		{"IDs by LPOP key 100, of bare Gin's requests", "RESP LPOP IDs/s", "bare Gin req/s", "×", "≥", 75},
		{"IDs by the Go client, of bare Gin's requests", "Go client IDs/s", "bare Gin req/s", "×", "≥", 250},

		{"number of a sequence, of a plain INCR", "sequence req/s", "plain INCR req/s", "×", "≥", 1.5},
		{"its CPU time, of a plain INCR's", "sequence CPU", "plain INCR CPU", "×", "", 0},
		{"the same over RESP, of bare Gin", "RESP sequence req/s", "bare Gin req/s", "×", "", 0},
		{"the same, pipelined by 16", "RESP sequence pipelined req/s", "bare Gin req/s", "×", "≥", 4},

		{"at an equal rate: requests a second", "rate req/s", "", "", "", 0},
		{"p50 of /get", "/get at the rate p50", "", "ms", "", 0},
		{"p99 of /get", "/get at the rate p99", "", "ms", "", 0},
		{"p99.9 of /get", "/get at the rate p99.9", "", "ms", "", 0},
		{"p99 of /get, of bare Gin's", "/get at the rate p99", "bare Gin at the rate p99", "×", "", 0},
		{"p99.9 while every list is refilled, of that without", "refilled at the rate p99.9",
			"/get at the rate p99.9", "×", "≤", 2},
		{"p99.9 of a number of a sequence", "sequence at the rate p99.9", "", "ms", "≤", 3},

		{"an atomic add, the floor", "segment HandleAndAtomicAdd/atomic_add ns/op", "", "ns", "", 0},
		{"the same, two goroutines", "segment Issue/atomic_add/parallel ns/op", "", "ns", "", 0},
		{"segment by handle, of an atomic add", "segment HandleAndAtomicAdd/handle ns/op",
			"segment HandleAndAtomicAdd/atomic_add ns/op", "×", "≤", 1.7},
		{"segment by key", "segment HandleAndAtomicAdd/key ns/op", "", "ns", "", 0},
		{"the same, two goroutines", "segment Issue/key/parallel ns/op", "", "ns", "", 0},
		{"the same, of an atomic add", "segment Issue/key/parallel ns/op",
			"segment Issue/atomic_add/parallel ns/op", "×", "≤", 2},
		{"snowflakes, of 4096 a millisecond", "snowflake Batch of-cap", "", "×", "≥", 0.99},
		{"UID, cached", "uid Cached/one,_1_goroutine ns/ID", "", "ns", "", 0},
		{"the same, two goroutines", "uid Cached/one,_2_goroutines ns/ID", "", "ns", "", 0},
		{"Go client, an ID of a tag that it holds", "client Next/segment ns/op", "", "ns", "≤", 30},
		{"the same, of a gatePass", "client Next/queue ns/op", "", "ns", "≤", 30},
		{"the same, two goroutines", "client Next/two_goroutines ns/op", "", "ns", "≤", 20},
		{"Go client, its Generator", "client Generator/one ns/op", "", "ns", "≤", 40},
		{"the same, two goroutines", "client Generator/parallel ns/op", "", "ns", "", 0},

		{"allocations of a /get", "httpapi Modes/get allocs/op", "", "", "≤", 0},
		{"of a snowflake, over HTTP", "httpapi Modes/snowflake allocs/op", "", "", "≤", 0},
		{"of a segment, by key", "segment Issue/key/one_goroutine allocs/op", "", "", "≤", 0},
		{"of a UID", "uid Cached/one,_1_goroutine allocs/op", "", "", "≤", 0},
		{"of an INCR", "resp Commands/INCR allocs/op", "", "", "≤", 0},
		{"of an ID that the Go client holds", "client Next/segment allocs/op", "", "", "≤", 0},

		{"filling 1024 lists with 1000, of RPUSH", "redisstore Push1024Times1000/guarded ns/op",
			"redisstore Push1024Times1000/RPUSH_pipelined_by_64 ns/op", "×", "≤", 1.5},
		{"state of 16 384 lists, of LLEN", "redisstore StateOf16384/guarded ns/op",
			"redisstore StateOf16384/LLEN_pipelined_by_1024 ns/op", "×", "≤", 5},

		{"embedded, from the start to the first ID", "embedded start", "", "ms", "≤", 300},
	}
}
