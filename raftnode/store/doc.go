// Package store is everything durable of one Raft member: who it is, what it
// voted, its log and its Raft snapshots. It refuses to hand out anything it
// doubts, and after its first failed write it never succeeds again.
package store
