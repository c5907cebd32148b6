// Package workerfile keeps an instance's worker ID and its reservation on the
// local disk, and gives worker IDs from the configuration.
//
// # The file
//
// worker.json lies in a folder that one process at a time uses; a lock on
// worker.lock beside it makes sure of that and ends with the process, kill -9
// included. A new worker.json is written to worker.json.tmp, synced, renamed over
// the old one, and the folder is synced: after a power cut there is the old one
// or the new one, whole. A half-written worker.json.tmp is never read.
//
//	{"version":1,"identity":"<32 hex digits>","registry":"zk shardid 4f…",
//	 "address":"10.0.0.5:8080","worker_id":7,"reserved_until":…,"expires_at":…,"epoch_ms":…,"saved_at":…}
//
// registry is the identity of the registry, which begins with its mode; version 0.1
// wrote the mode alone. The file of a layout other than Leaf's 10 and 12 bits has
// worker_bits and seq_bits, too. Times are Unix milliseconds. Before the first lease worker_id is -1, registry
// and address are empty, and the times of the lease are 0. A file that says
// anything else is refused: what it reserved cannot be guessed.
package workerfile
