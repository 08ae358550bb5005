// Package session is the protocol between hosts and controllers, both ends: host_* and
// controller_* files. What controllers decide by what it shows is package policy's.
//
// A host keeps a session, one gRPC stream, with any one controller. It sends who
// it is and the highest epoch that it acted on. The controller waits
// until its member has applied as much (S14), has the host registered in the log,
// and from then on sends the desired state of the host's volumes and snapshots: all of it first,
// then what changed. Desired state only comes from applied
// entries and carries the epoch at which it holds. The host sends telemetry of its pools,
// answers queries for its inventory, and proposes its own commands: StageVolume,
// PublishTarget, Report, and of replicas AttachReplica, SetPrimary, Outdate, KeepReplica.
//
// A controller sends the cluster's feature level in the session's header, before the host
// sends who it is, and with every update. A host sends and proposes only what that level
// defines, and registers again when it rises (S72).
//
// Hosts are queried for block maps of snapshots in pages, through whichever member has
// the host's session, so that every controller serves them.
//
// A host is who its certificate says: a message that names another host
// is refused (S20).
//
// Liveness has two halves. Controllers ping at the transport every second. Either end
// sends the other a message every second, and a host leaves a controller from which it received none
// for three: gRPC's client does not ping more often than every ten. A controller whose
// member is not ready for three seconds ends its sessions, so that its hosts look
// for one whose member is.
package session
