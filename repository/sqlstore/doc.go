// Package sqlstore keeps id_alloc, the table that says which indices have been
// handed out, in MySQL, MariaDB or SQLite.
//
// A segment is taken by Allocate in one transaction under the rows' locks and
// belongs to the caller only when COMMIT was acknowledged; any other outcome
// drops it, which costs a gap and never a repeat. Nothing is retried unless the
// server said that the transaction was rolled back.
//
// Every failure is a *model.StoreError that says what was tried and what an
// operator should do; none of them holds a password.
package sqlstore
