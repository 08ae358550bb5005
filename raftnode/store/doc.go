// Package store keeps the durable state of one Raft member: its identity, its
// vote, its log and its Raft snapshots.
//
// The data directory contains
//
//	identity.json   member id, cluster id, log store, format (S21)
//	vote.json       term and vote, beside their copy in raft.db (S22)
//	log.mark        the highest index that was ever acknowledged
//	raft.db         the stable store, and the log when the log store is boltdb
//	wal/            the log when the log store is wal
//	snapshots/      Raft snapshots; corrupt/ holds those that were moved aside
//	stopped         the last process stopped in order, so its files are what they seem (S133)
//	quarantined     why this member may not start again (S23)
//
// Three kinds of failure end in a refusal that names the file and the remedy: files
// are missing or another member's (S21), what is read is not what was written (S22),
// and the disk fails or hangs while the member runs (S132, S133). Neither bbolt nor
// raft-wal notices every flipped bit: bbolt has no checksum on data pages and
// steps back one transaction when its newest meta page is broken, and raft-wal
// takes the first damaged frame of its last segment for the end of the log. So
// each entry carries a checksum of its own, the vote is kept twice, and the high-water
// mark distinguishes a log that ends too early from one that was torn by a crash.
package store
