// Package session is the protocol between hosts and controllers, both ends.
//
// A host keeps a session, one gRPC stream, with any one controller. It says who
// it is and the highest epoch of wishes that it acted on; the controller waits
// until its member has applied as much (S14), has the host registered in the log,
// and from then on sends what the log wants of the host: all of it first, then
// what changed, for volumes and for snapshots. Wishes only come from applied
// entries and carry the epoch they hold at. The host sends measures of its pools,
// answers questions about what it holds, and proposes its own commands: StageVolume,
// PublishTarget, Report, and of replicas AttachReplica, SetPrimary, Outdate, KeepReplica.
//
// A controller says the cluster's feature level in the session's header, before the host
// says who it is, and with every update. A host says and proposes only what that level
// knows, and registers anew when it rises (S72).
//
// Block maps of snapshots are asked of hosts in pages, through whichever member has
// the host's session, so that every controller serves them.
//
// Who a host is, is what its certificate says: a message that names another host
// is refused (S20).
//
// Liveness has two halves. Controllers ping at the transport every second. Either end
// sends the other a message every second, and hosts leave a controller that is silent
// for three: gRPC's client does not ping more often than every ten. A controller whose
// member does not serve for three seconds ends its sessions, so that its hosts look
// for one that does.
//
// The monitor runs on every member. Every second it asks all members which sessions
// they hold and how long their hosts were silent. Only when no member had a host's
// session for the node timeout, counted from this member's first exchange with a
// majority, the leader proposes that the host is unreachable (S25). Members that do not
// lead count too, so that a leader's death does not begin the count anew: a follower's
// count ends with the first exchange that no majority answers. The leader also gets
// what was measured of the pools. These facts go into placements; they exclude, they
// never admit.
//
// It also gives replicated volumes another replica when a host stays away
// (--replace-after), by the leader's own count and only where nothing suggests that
// the host still writes.
package session
