// Package faults tries to make shardid issue an ID twice. Its tests run real `shardid serve` processes over
// real stores, ask them for IDs, and meanwhile break everything around them. One table says what breaks, on
// which topologies, and what that may cost: how many numbers a list may leave out, for how long a process that
// nobody broke may be without new IDs, and whether an operator has to confirm narrow apps.
//
// A part of the IDs is drawn over RESP, and a part by processes with the Go client, which are killed, stopped
// and cut off, too. Beside them clients number keys of sequences, whose answers must rise in real time.
//
//	go test -v ./scripts/faults                                # eight faults by a seed, as in make test, a minute
//	go test -v -run TestFaults ./scripts/faults -faults.seed 7
//	DEEP=1 go test -v -run TestEachFault ./scripts/faults      # each fault once on each topology, judged by its row
//	DEEP=1 go test -v -run 'TestEachFault/single/old_RDB$' ./scripts/faults # one row
//	DEEP=1 DB=mysql-9.7 go test -v -run TestEachFault/group ./scripts/faults # the database is a group of three
//	DEEP=1 go test -v -run TestManyRestarts ./scripts/faults   # make restarts
//	go test -count=1 -timeout 0 -v -run TestSoak ./scripts/faults -soak 1h
//
// The seed decides which faults come in which order and with which choices; it is printed first. What the
// scheduler of the machine does between two faults is not repeated.
//
// Read table_test.go first (the rows), then faults_test.go (the runs) and round_test.go (a round: fault, heal,
// verify, judge), then what the rows do: redis_faults_test.go, cluster_faults_test.go,
// database_faults_test.go, process_faults_test.go.
package faults
