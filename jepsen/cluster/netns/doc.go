// Package netns gives processes networks of their own on one host, and cuts them.
//
//   - A namespace (namespace.go) is a network namespace that no file names: it is held by a thread of this process and by the processes
//     started in it. So nothing of a network outlives its processes, however they end, and networks of parallel runs never meet.
//   - A network (network.go) is a bridge in a namespace of its own, with one host for each member (host.go): a namespace, an
//     address and an interface.
//   - A shape (shape.go) says who does not hear whom. It is put in force by nftables at the one who does not hear (rules.go),
//     where the packets that it cost are counted, so that a run can prove that it was cut.
//   - reset.go ends live connections, loss.go loses single packets, redirect.go leads connections through a relay.
package netns
