// Package session is the protocol between hosts and controllers, both ends: files host_* and
// controller_*. Package policy decides what follows from who is connected.
//
// A host keeps one session, a gRPC stream, with any one controller. It sends its identity and
// its acted epoch, the highest epoch of desired state that it acted on. The controller waits until
// its member has applied as much (S14) and has the host registered in the log. From then on it
// sends the desired state of the host's volumes and snapshots: first all of it, then the
// changes. Desired state is only read from applied entries, and carries the epoch at which it
// holds. The host sends telemetry of its pools, answers queries for its inventory, and proposes
// its own commands: StageVolume, PublishTarget, Report, and for replicas AttachReplica,
// SetPrimary, Outdate, KeepReplica.
//
// A controller sends the cluster's feature level in the session's header, before the host sends
// its identity, and with every update. A host sends and proposes only what that level
// defines, and registers again when it rises (S72).
//
// Block maps of snapshots are queried from hosts in pages, through whichever member has the
// host's session, so that every controller can serve them.
//
// A host's identity is that of its certificate: a message that names another host is refused
// (S20).
//
// Liveness has two halves. Controllers ping at the transport every second. Either end also
// sends the other a message every second, and a host leaves a controller from which none came for
// three: gRPC's client cannot ping more often than every ten. A controller whose member is
// not ready for three seconds ends its sessions, so that its hosts look for another one.
package session
