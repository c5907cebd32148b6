// Package sqlstore keeps in MySQL, MariaDB or SQLite what must never be forgotten:
//
//   - id_alloc, which indices of the queue mode have been handed out;
//   - leaf_alloc, which IDs of each segment tag;
//   - leaf_workerid_alloc, which instance may use which snowflake worker ID, and up
//     to which time;
//   - WORKER_NODE, the same for the UID mode;
//   - shardid_worker_claim, until when instances of each registry of worker IDs issue;
//   - id_layout, the layouts that IDs have been issued with;
//   - shardid_deployment, which server wrote last, and what it may have lost
//     (deployment.go).
//
// A segment is taken in one transaction under the rows' locks and belongs to the
// caller only when COMMIT was acknowledged; any other outcome drops it, which
// costs a gap and never a repeat. Nothing is retried unless the server said that
// the transaction was rolled back.
//
// Every failure is a *model.StoreError that says what was tried and what an
// operator should do; none of them holds a password.
package sqlstore
