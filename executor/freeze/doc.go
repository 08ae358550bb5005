// Package freeze stops a mounted filesystem's writes while a snapshot is taken, in
// a way that cannot leave it frozen (S19).
//
// A FIFREEZE is not undone when the process that called it exits: the filesystem
// stays frozen, and even outlives its mount. So before the filesystem is frozen,
//
//   - a record is written and synced in the host's data directory, which is on
//     another filesystem: <dir>/<volume>.rec;
//   - the thaw process, in a session of its own, opens the record and the
//     filesystem and reports that it is ready. It thaws at the deadline, even if
//     the node process has died, and removes the record.
//
// The record is the freeze: while its file is linked, the volume counts as frozen,
// and its flock is the one lock of freezing, taking the snapshot and thawing. The
// record is removed only after the thaw. Deadlines are on CLOCK_BOOTTIME, which does
// not jump and does not stop while the host sleeps.
//
// A snapshot worker that hangs cannot keep the filesystem frozen: a second after the
// deadline it is thawed without the lock. The snapshot then fails by the clock: it
// counts only when it was completed before the deadline, and before that only its
// own node process thaws.
package freeze
