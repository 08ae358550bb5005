// Package agent is the engine that makes a host what the log desires: it observes, has package
// plan choose one step, does it, and observes again. Volumes, replicas and snapshots go
// through the same loop (drive.go). Files are named after their place in it:
//
//	*_worker.go   who reconciles, and when: queues, locks, retries (work.go has the loop)
//	*_observe.go  the state of the host
//	*_drive.go    the job that the loop drives; package plan chooses
//	*_do*.go      the steps
//	*_report.go   what is reported; outbox.go has what must arrive, report.go sends
//	call*.go      calls from CSI
//
// Agent is assembled from parts (parts.go) around a table (table.go), which is all that the
// process knows and that its one mutex guards.
//
// # Background and calls
//
// Desired state comes from a session and is worked on in the background, which creates,
// removes and takes down; what it observes becomes reports. Only calls from CSI bring a volume
// up, each under a grant that the call itself read from the quorum (S2). A bring-up that was
// interrupted is taken down, and is not resumed without another grant. Calls that take down
// need no quorum (S28): records of their teardowns go to an outbox on disk, which must be
// acknowledged before the volume's next bring-up is proposed (S16).
//
// Each volume has a lock, which the background and calls take in turn. A second call for a
// volume is Busy, unless it repeats one whose caller gave up: then it joins the work, which
// has continued (S121).
//
// # Snapshots
//
// Snapshots have desired state and workers of their own. Taking a snapshot, or cloning a volume,
// holds the lock of the source, freezes what is mounted until a deadline at most, and counts
// only when the freeze is known to have held until the end (S19). A member of a group snapshot
// stays frozen from its report until it is taken; meanwhile calls for its volume are Busy.
// What an earlier process left frozen is thawed before anything else, and no snapshot is
// taken under it.
//
// # Space
//
// ReclaimSpace trims the filesystem of a staged volume, under the volume's lock, by steps between which
// plan.CheckTrim says whether it may go on (S61). A volume that nobody uses is reclaimed when its desired
// publication says so: spaceWorker brings it up under a grant by a call without a caller, mounts it at no path,
// trims it and takes it down.
//
// # Replicated volumes
//
// replicaBackend presents a replicated volume as one of a pool: its image is the backing device
// of DRBD, and it is active while it is primary. Beside plan.NextVolumeStep,
// plan.NextReplicaStep orders the steps on the replica itself:
//
//   - A host becomes primary only under a grant that it asked for in this boot and session,
//     after observing the replica (S2).
//   - Each attachment of a disk is committed before it is made (S5).
//   - What is observed is reported whenever it differs from what the log has (S10).
//   - FencePeer answers the kernel's fence-peer handler: may a primary continue without its
//     peer (S6)? A watcher checks each second for suspended I/O and asks the same. It takes no
//     lock of a volume, since the holder may itself be blocked on that I/O.
//   - The writers of a split-brain victim get errors. Then the replica is taken down, what it has is
//     kept in a snapshot of its pool, and it connects with its data discarded (S9).
//   - The log has a record of that kept copy before it is taken, and acknowledges that it exists
//     before anything is discarded. Copies that the log does not have are reported at the
//     beginning of each session (S49).
package agent
