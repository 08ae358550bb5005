// Package journal keeps what a member applied, beside the Raft log and for longer: history
// outlives log compaction (S26). It is a record for operators, never a source of truth, so it may
// have gaps, which are recorded; a failing journal never stops Apply.
//
// A segment file, `<first index>.hfj`, is a sequence of blocks. Each block says which indexes it
// covers, and blocks are consecutive, so whatever is missing or damaged shows as a range of
// indexes. A block holds the records of many entries, compressed. The header and the payload of a
// block have checksums, and so has each record.
//
// Append copies the entry into memory. One goroutine compresses and writes, so that a slow disk
// delays no caller; when it falls far behind, or the disk is full, entries are dropped and
// recorded as a gap. What is only in memory when the process dies is applied again after the last
// Raft snapshot, since Sync is called before each.
package journal
