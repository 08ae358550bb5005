package session

import (
	"bytes"
	"cmp"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// maxPerMessage is how many desired states, or ids, go into one message: some hundred bytes each,
// far below gRPC's limit of 4 MiB.
const maxPerMessage = 2000

// maxReadUnderLock is how many changes are read under the lock that Apply needs; more are
// read from a copy of the state.
const maxReadUnderLock = 500

// feed sends one host the desired state that this member has applied.
type feed struct {
	member Member
	node   fsm.NodeID
	host   fsm.HostID
	stream sender

	incarnation   uint64
	incarnationID []byte
	welcomed      bool
	adopted       bool
}

type sender interface {
	Send(*sessionpb.ToNode) error
}

// desiredUpdate is what one view of the state showed for the host.
type desiredUpdate struct {
	cluster     fsm.Cluster
	adopted     bool
	full        bool
	volumes     []fsm.DesiredVolume
	volumesGone []fsm.VolumeID

	snapshots     []fsm.DesiredSnapshot
	snapshotsGone []fsm.SnapshotID
}

// send sends the desired state of what changed, or of all. Without
// either it is a heartbeat, which still carries the epoch and the adoption.
func (f *feed) send(changes []fsm.Change, all bool) error {
	n, err := f.readDesired(changes, all)
	if err != nil {
		return err
	}
	if err := f.welcome(n); err != nil {
		return err
	}
	for _, message := range n.messages() {
		if err := f.stream.Send(&sessionpb.ToNode{Body: &sessionpb.ToNode_Desired{Desired: message}}); err != nil {
			return err
		}
	}
	return nil
}

// readDesired reads the applied state once, so that all of the update holds at one index.
func (f *feed) readDesired(changes []fsm.Change, all bool) (*desiredUpdate, error) {
	n := &desiredUpdate{full: all}
	err := f.member.View(func(state *fsm.State) error {
		n.cluster = state.Cluster()
		if err := f.checkRecord(state, n); err != nil {
			return err
		}
		if n.full || f.incarnationChanged(n.cluster) || n.adopted != f.adopted {
			n.full = true
			return nil // read from a copy: the desired state of a whole host may be large
		}
		if len(changes) <= maxReadUnderLock {
			f.readChanged(state, n, changes)
		}
		return nil
	})
	if err == nil && (n.full || len(changes) > maxReadUnderLock) {
		err = f.readFromFork(n, changes)
	}
	if _, ok := status.FromError(err); err != nil && !ok {
		return nil, status.Errorf(codes.Unavailable, "read this controller's state: %v", err)
	}
	return n, err
}

// readFromFork reads the desired state of what changed, or of the whole host, at one index,
// without the lock that Apply needs.
func (f *feed) readFromFork(n *desiredUpdate, changes []fsm.Change) error {
	state, err := f.member.Fork()
	if err != nil {
		return err
	}
	n.cluster = state.Cluster()
	if err := f.checkRecord(state, n); err != nil {
		return err
	}
	if n.full = n.full || f.incarnationChanged(n.cluster) || n.adopted != f.adopted; !n.full {
		f.readChanged(state, n, changes)
		return nil
	}
	n.volumes, n.snapshots = slices.Collect(state.DesiredVolumes(f.node)), slices.Collect(state.DesiredSnapshots(f.node))
	return nil
}

// checkRecord checks that the record is still this host's: desired state is for a host, not for a name (S17).
func (f *feed) checkRecord(state *fsm.State, n *desiredUpdate) error {
	record, ok := state.Node(f.node)
	switch {
	case !ok:
		return status.Errorf(codes.Unavailable, "node %s is not in the state any more", f.node)
	case record.State == fsm.NodeLost:
		return status.Errorf(codes.FailedPrecondition, "node %s was recorded as lost; its host must begin with an empty data folder", f.node)
	case record.Host != f.host:
		return status.Errorf(codes.FailedPrecondition, "the name %s belongs to host %s now (S17)", f.node, record.Host)
	}
	n.adopted = record.Incarnation == n.cluster.Incarnation // else the host is in adoption mode (S1)
	return nil
}

// incarnationChanged tells whether the incarnation is not that of the last Welcome message.
func (f *feed) incarnationChanged(c fsm.Cluster) bool {
	return !f.welcomed || f.incarnation != c.Incarnation || !bytes.Equal(f.incarnationID, c.IncarnationID)
}

// readChanged reads the desired state of each volume and snapshot that changed.
func (f *feed) readChanged(state *fsm.State, n *desiredUpdate, changes []fsm.Change) {
	for _, t := range dedupChanges(changes) {
		switch {
		case t.Volume != "":
			f.readVolume(state, n, t.Volume)
		case t.Snapshot != "":
			f.readSnapshot(state, n, t.Snapshot)
		} // else the node's own record
	}
}

// dedupChanges names each changed volume and snapshot once, in a fixed order.
func dedupChanges(changes []fsm.Change) []fsm.Change {
	all := make([]fsm.Change, 0, len(changes))
	for _, t := range changes {
		all = append(all, fsm.Change{Volume: t.Volume, Snapshot: t.Snapshot})
	}
	slices.SortFunc(all, func(a, b fsm.Change) int {
		return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Snapshot, b.Snapshot))
	})
	return slices.Compact(all)
}

func (f *feed) readVolume(state *fsm.State, n *desiredUpdate, id fsm.VolumeID) {
	if w, ok := state.DesiredVolume(f.node, id); ok {
		n.volumes = append(n.volumes, w)
	} else {
		n.volumesGone = append(n.volumesGone, id)
	}
}

func (f *feed) readSnapshot(state *fsm.State, n *desiredUpdate, id fsm.SnapshotID) {
	if w, ok := state.DesiredSnapshot(f.node, id); ok {
		n.snapshots = append(n.snapshots, w)
	} else {
		n.snapshotsGone = append(n.snapshotsGone, id)
	}
}

// welcome sends the cluster and its incarnation, at the start and when the incarnation changed.
func (f *feed) welcome(n *desiredUpdate) error {
	f.adopted = n.adopted
	if !f.incarnationChanged(n.cluster) {
		return nil
	}
	f.welcomed, f.incarnation, f.incarnationID = true, n.cluster.Incarnation, bytes.Clone(n.cluster.IncarnationID)
	return f.stream.Send(&sessionpb.ToNode{Body: &sessionpb.ToNode_Welcome{Welcome: &sessionpb.Welcome{
		ClusterId: n.cluster.ID, Incarnation: f.incarnation, IncarnationId: f.incarnationID, Adopted: n.adopted,
	}}})
}

// messages splits the update into messages that are small enough; all but the last have More set.
func (n *desiredUpdate) messages() []*sessionpb.DesiredState {
	var all []*sessionpb.DesiredState
	newMessage := func() *sessionpb.DesiredState {
		m := &sessionpb.DesiredState{At: clusterEpoch(n.cluster).Proto(), Full: n.full, Adopted: n.adopted, More: true, FeatureLevel: n.cluster.FeatureLevel}
		all = append(all, m)
		return m
	}
	for part := range slices.Chunk(n.volumes, maxPerMessage) {
		newMessage().Volumes = convertAll(part, desiredVolumeToProto)
	}
	for part := range slices.Chunk(n.volumesGone, maxPerMessage) {
		newMessage().VolumesGone = convertAll(part, func(id fsm.VolumeID) string { return string(id) })
	}
	for part := range slices.Chunk(n.snapshots, maxPerMessage) {
		newMessage().Snapshots = convertAll(part, desiredSnapshotToProto)
	}
	for part := range slices.Chunk(n.snapshotsGone, maxPerMessage) {
		newMessage().SnapshotsGone = convertAll(part, func(id fsm.SnapshotID) string { return string(id) })
	}
	if len(all) == 0 {
		newMessage()
	}
	all[len(all)-1].More = false
	return all
}

func convertAll[A, B any](all []A, convert func(A) B) []B {
	out := make([]B, 0, len(all))
	for _, a := range all {
		out = append(out, convert(a))
	}
	return out
}
