// Package freeze stops a mounted filesystem's writes for a cut, in a way that
// cannot leave it stopped (S19).
//
// FIFREEZE belongs to no process: a filesystem that its freezer left behind stays
// frozen, and even outlives its mount. So before the kernel is asked,
//
//   - a record is written and synced in the host's data folder, which is on
//     another filesystem: <dir>/<volume>.rec;
//   - a process of its own, in a session of its own, opens the record and the
//     filesystem and says that it is ready. It thaws at the deadline, whatever
//     became of the node process, and removes the record.
//
// The record is the freeze: while it has its name, the volume counts as frozen,
// and its flock is the one lock of freezing, cutting and thawing. Nobody ends the
// record without having thawed. Deadlines are on CLOCK_BOOTTIME, which does not
// jump and does not stop while the host sleeps.
//
// A cut that hangs cannot keep the filesystem frozen: a second after the deadline
// it is thawed without the lock. The cut then fails by the clock, for a cut counts
// only when it was done before the deadline, and nobody but its own node process
// thaws before.
package freeze
