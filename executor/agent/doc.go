// Package agent makes a host what the log says: it observes, has package plan choose one
// step, does it, and looks again. A volume, a replica and a snapshot are each brought
// along by the same loop (drive.go), and its files are named by where they are on it:
//
//	*_worker.go   who looks, and when: queues, locks, retries (work.go has the loop)
//	*_observe.go  what there is
//	*_drive.go    the job that the loop drives; plan chooses
//	*_do*.go      the steps
//	*_report.go   what the log is told; outbox.go has what it must hear, report.go sends
//	call*.go      calls from CSI
//
// Agent is made of parts (parts.go) around a table: what one lock guards.
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
package agent
