// Package executor makes a host what the log says: it observes, chooses one step
// with a pure function (next), does it, and looks again.
//
// There are two sides. Wishes come from a session and are worked on in the
// background: they create, remove and take down, and what they find becomes
// reports. Calls come from CSI: they alone bring a volume up, each under a grant
// that the call itself had from the quorum (S2); what was interrupted is not
// resumed without a new one, but taken down. Calls that take down need nobody
// (S28): their records go to an outbox on disk that is empty before the next
// bring-up of the volume is proposed (S16).
//
// One lock per volume orders it all. A second call for a volume is Busy, unless it
// repeats one whose caller gave up: then it joins the work, which went on (S121).
//
// Snapshots have wishes and workers of their own. A cut, and a clone of a volume, takes
// the lock of its source, freezes what is mounted for no longer than a lease, and counts
// only when the freeze is known to have held until its end (S19). A group's member is
// held quiet between two wishes, from its report until its cut; calls for it are Busy.
// What an earlier process froze is thawed before anything else, and never cut.
//
// A replicated volume is seen as one of a pool (replicaBackend): its image is the device
// below DRBD, and it is attached where it is primary. Beside next, nextReplicaStep orders what
// is done to the replica itself. A host is primary only under a grant that it asked for in
// this boot and session, after it looked (S2); each attachment is told to the log first
// (S5); what is observed is told whenever the log knows otherwise (S10). Fence answers the
// kernel's question whether a primary may go on without its peer (S6); a watcher asks it
// too, each second, for what is frozen, and holds no lock: whoever has the volume's may
// be frozen himself. A replica that lost ends its writers in errors, is taken down, kept
// as a snapshot of its pool, and comes back by giving up what it has (S9). The log makes a
// record of that copy before it is cut, and has heard that it is there before anything is
// given up; copies that it does not know are told when a session begins (S49).
//
// On disk a host keeps who it is, which wishes it acted on (S14), and one small
// record per volume, and one per snapshot that is being cut: each written and synced before what it announces. Everything
// else is learned by observing.
//
// What must not be done is in next, nextReplicaStep and background, pure functions with
// tables of tests; backends and mounters are reached through interfaces.
package executor
