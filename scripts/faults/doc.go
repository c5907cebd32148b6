// Package faults tries to make shardid issue an ID twice. Its tests run real
// `shardid serve` processes over real stores, ask them for IDs and meanwhile
// break everything around them: Redis comes back with old data, lagging replicas
// of Redis and of the database are promoted, replies are lost, requests come late,
// rows go back in time, processes and servers are killed or stopped, some processes use
// another Redis than others, or none, clocks are wrong, and the database answers no COMMIT,
// or lacks an app that is made again. A part of the IDs
// is drawn over RESP, and by processes with the Go client, which are killed, stopped and cut
// off too. Beside them clients number keys of sequences, whose answers must rise in real time.
//
//	go test -v ./scripts/faults                               # eight faults by a seed, as in make test, a minute
//	go test -v -run TestFaults ./scripts/faults -faults.seed 7
//	DEEP=1 go test -v -run TestEachFault$ ./scripts/faults      # each fault on each topology
//	go test -count=1 -timeout 0 -v -run TestSoak ./scripts/faults -soak 1h
//	DEEP=1 DB=mysql-9.7 go test -v -run TestFaultsOfAGroup ./scripts/faults # the database is a group of three
//	DEEP=1 go test -v -run TestFaultsOfRegions ./scripts/faults # two deployments of two regions
//
// The seed decides which faults come in which order and with which choices; it
// is printed first. What the scheduler of the machine does between two faults is
// not repeated.
//
// Read faults_test.go first (the runs), then run_test.go (a round: fault,
// heal, verify), then the faults by what they hit: table_test.go, faults_*_test.go.
//
// This file and proxy.go are all that is not test code, so that other tests can
// use the proxy.
package faults
