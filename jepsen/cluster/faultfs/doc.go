// Package faultfs is a filesystem for a test's process to put below a member: what the member does
// passes through to a directory, unless the test says that it fails, hangs or is torn, and the test
// can take the power away.
//
// # What is durable
//
// A write is seen by every reader at once, and is durable when its file was synced; until then
// PowerLoss undoes it, page by page, or leaves some of its sectors. A name that was made, renamed or
// removed is durable when its directory was synced, or, as ext4 and xfs do it, when the file that
// it was made for or renamed was; names become durable in their order at the latest when
// many newer ones are waiting, as a kernel's journal is committed by itself.
//
// A sync can fail in two ways. After FailSync the pages stay dirty and the next sync writes them.
// After FailSyncForget they are marked clean, as Linux does it (fsyncgate): every reader sees them, the next
// sync succeeds, and a power loss still takes them. Only writing them again makes them dirty again.
//
// Nothing is synced in the directory below: the test's machine keeps its power.
//
// # The library
//
// FUSE is spoken by github.com/hanwen/go-fuse/v2: it is maintained and has releases to pin, unlike bazil.org/fuse; it is pure Go,
// unlike cgofuse; it can serve a mount that this package made itself, so that no program fusermount is needed; its loopback
// filesystem has all operations that bbolt and raft-wal need; and it serves shared read-only mappings through the
// kernel's page cache, which bbolt reads by.
//
// # Rules for its user
//
// The process that serves the filesystem must not map a file of it, nor be waited for by itself: an
// operation that hangs hangs until the Injection ends, and a process with one cannot be killed, as with
// a real disk. Unmount ends all injections for good, and the kernel's connection with whatever still waits.
package faultfs
