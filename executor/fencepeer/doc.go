// Package fencepeer is what lies between the kernel and the node process when a replica
// has lost its peer: the kernel freezes the device and starts `holdfast fence-peer`,
// which asks the node process over a unix socket, which asks the log.
//
// The handler's exit code is the verdict, and each code that it does not have is as
// important as those it has (S6): 4 when the log recorded the peer Outdated, 6 when
// it recorded the asker's own replica Outdated, 1 for any other refusal. 3, 5 and 7
// would resume I/O too, so nothing in here can end with them. Without a verdict the
// handler does not end: it asks again until somebody answers, whether the node process
// restarts or the log has no quorum. Signals that can be caught do not end it.
//
// The socket lies in a folder of mode 0700, and each end looks that the other is root.
// One connection carries one question and one answer, a line of JSON each.
package fencepeer
