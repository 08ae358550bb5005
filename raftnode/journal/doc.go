// Package journal keeps what a member applied, beside the Raft log and for
// longer: history outlives log compaction. It is a record for operators, never
// a source of truth, so it may have gaps, which it marks; it never stops Apply.
package journal
