// Package stories runs the shardid binary as its users do: processes, signals, HTTP, and real servers of
// databases, Redis, Sentinel, Cluster and ZooKeeper. It knows the contract and nothing of the code. A file is
// named after what a user gets, what happens to them, or what an operator gets, and a story after its subject.
package stories
