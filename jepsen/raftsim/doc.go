// Package raftsim runs three and five real Raft members in one bubble of testing/synctest: virtual time, a
// network in memory, and disks that fail. It is layer L1 of jepsen.
//
// A seed decides the plan: how many members, which log store, which faults in which order, when, on whom and for
// how long, and what clients call. It does not decide what raft draws for its timeouts, nor in which order
// goroutines run that are woken at one instant. So a seed that failed fails again often, not always:
// -raftsim.tries repeats it.
//
//	go test ./jepsen/raftsim                                    the short form
//	go test ./jepsen/raftsim -raftsim.schedules=1000 -raftsim.first=5000
//	go test ./jepsen/raftsim -raftsim.seed=17 -raftsim.tries=20
//
// What is real: raftnode with all of its loops, TLS, gRPC, hashicorp/raft, both log stores and their files, which are
// in memory. What is not: the network (network.go), how files become durable (raftnode/store/storetest), the
// clock, and the end of a process. A process that exits or is killed leaves its files as they are at that
// instant; its goroutines are ended at their next operation on the disk, their connections are cut, and
// nothing that they do counts. A process that stands still is one whose connections pass nothing: its
// timers go on.
//
// After the faults everything is healed: the members must serve again, agree on the state, have in their
// log what clients were told, in an order that explains every answer, and end without a goroutine left.
// PITFALLS.md says which test holds each known pitfall of hashicorp/raft and bbolt.
package raftsim
