// Package backup is the file format of backups of a cluster's state, and what can be done with one
// without a cluster: check it, and replay it to a state.
//
// A backup is of one of two kinds. A full one has the state at an index, as a dump (fsm.State.WriteDump). An
// increment has the commands above an index up to another, as a member's journal had them, so that
// a full backup and the increments since give the state at any index between.
//
// The format of a file, numbers with the highest byte first:
//
//	magic    8 bytes, "HFBACKUP"
//	format   u32
//	header   u32 length, then JSON (Header)
//	body     frames: u32 length, then so many bytes; a frame of length zero ends it
//	trailer  sha256 of everything before
//
// The whole file may be encrypted with age (https://age-encryption.org/v1) to several recipients.
// Every file is checked to its end before anything in it is used.
package backup
