// Package fencepeer connects the kernel with the node process when a replica has lost its
// peer: the kernel suspends the device's I/O and starts its fence-peer handler, `holdfast
// fence-peer`. The handler asks the node process over a unix socket, and that asks the log.
//
// The handler's exit code is the verdict (S6): 4 when the log recorded the peer as outdated, 6
// when it recorded this host's own replica as outdated, 1 for any other refusal. The codes 3, 5
// and 7 would make the kernel resume I/O too, so the handler never exits with them. Without
// a verdict it does not exit: it asks again until there is one, through restarts of the node
// process and losses of the quorum. Signals that can be caught do not end it.
//
// The socket is in a directory of mode 0700, and each end checks that the other is root. One
// connection carries one request and one verdict, each a line of JSON.
package fencepeer
