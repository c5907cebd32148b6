// Package bench compares, in one run and on one machine, shardid with what else one
// could have: a bare Gin that answers a constant, a plain service with one LPOP a
// request, and generators of other libraries. It measures the twelve goals of the
// project, which are ratios between contenders, as an absolute figure holds for one
// machine and one hour only.
//
//	go test -count=1 -timeout 30m -v -run TestCompare ./scripts/bench -compare full
//	go test … -compare quick            # less exact, three minutes
//	go test … -compare full -goals 1,3  # these only
//	go test … -compare full -goals tail # latency while something disturbs it
//	go test … -compare full -goals growth -timeout 60m  # of more replicas and apps, 10 minutes
//	go test … -compare full -profile /tmp/profiles # for go tool pprof
//
// # How it stays honest
//
// The server under test has one core, and all else, load and stores, the other; it
// is told so by GOMAXPROCS too. With a single core nothing is pinned.
//
// Contenders take turns, and each round begins with another one. A figure is the
// median of three rounds or more, of two in a quick run; the ratio of
// a figure of two contenders is the median of those of each round. Servers have eleven short rounds, two in a quick run: the
// speed of a shared machine changes within seconds, and by more than most ratios.
//
// A measurement during which processes that are not of this run used more than 7 %
// of a core (-busy) is done again, a bounded number of times. The table says how
// many were discarded, and which figures had to be taken from a noisy one. A profile
// costs its server some percent.
//
// What cannot be measured here, the Java originals for example, is named as such; a
// figure published elsewhere is shown as a reference and decides nothing.
//
// # Where to begin
//
// compare_test.go has the run and what it consists of, goal_*_test.go the goals,
// rounds_test.go what the section above says. contenders/ are the servers that shardid is
// compared with; load/ asks them, and `shardid bench` once more with a look for
// duplicates; peers/ is a module of its own; delay/ lets Redis answer later.
package bench
