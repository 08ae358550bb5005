// Package session is the protocol between hosts and controllers, both ends: host_* and controller_*
// files. What the leader decides from the sessions is in package policy.
//
// A host keeps a session, one gRPC stream, with any one controller. Its first message has its
// registration and the highest epoch that it acted on. The controller waits until its member has applied
// that epoch (S14), proposes the registration, and from then on sends the desired state of the host's
// volumes and snapshots: all of it first, then what changed. Desired state comes only from applied
// entries and carries the epoch at which it holds. The host sends telemetry of its pools, answers
// queries for its inventory, and proposes its own commands: StageVolume, PublishTarget, Report, and for
// replicas AttachReplica, SetPrimary, Outdate, KeepReplica.
//
// A controller sends the cluster's feature level in the session's header, before the host sends
// its identity, and with every update. A host sends and proposes only what that level
// defines, and registers again when it rises (S72). Within a session it registers again, by another
// hello, when the capacity of a pool becomes known that was absent before.
//
// Block maps of snapshots are queried from hosts in pages, through whichever member has the
// host's session, so that every controller can serve them.
//
// What a host shows of itself is queried as JSON, of hosts whose hello says that they answer, and by controllers of each other.
//
// A host's identity is that of its certificate: a message that names another host is refused
// (S20).
//
// Liveness has two halves. Controllers ping at the transport every second. Either end also
// sends the other a message every second, and a host leaves a controller from which none came for
// three: gRPC's client cannot ping more often than every ten. A controller whose member is
// not ready for three seconds ends its sessions, so that its hosts look for another one.
package session
