// Package e2e runs the shardid binary as its users do: processes, signals, HTTP, and real
// database, Redis, Sentinel, Cluster and ZooKeeper servers. It knows the contract and
// nothing of the code. TestE2E… are stories of users; TestDirected… break one thing in one
// way and look for an ID that is issued twice.
package e2e
