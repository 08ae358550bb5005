// Package fencepeer connects the kernel with the node process when a replica has lost
// its peer: the kernel suspends the device's I/O and starts its handler, `holdfast
// fence-peer`, which sends a request to the node process over a unix socket, which
// has the log decide.
//
// The handler's exit code is the verdict, and each code that it never returns is as
// important as those it returns (S6): 4 when the log recorded the peer Outdated, 6 when
// it recorded this host's own replica Outdated, 1 for any other refusal. 3, 5 and 7
// would resume I/O too, so no path in here exits with them. Without a verdict the
// handler does not exit: it retries until it gets a response, while the node process
// restarts and while the log has no quorum. Signals that can be caught are ignored.
//
// The socket lies in a directory of mode 0700, and each end checks that the other is
// root. One connection carries one request and one response, a line of JSON each.
package fencepeer
