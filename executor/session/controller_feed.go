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
	fenced        bool
	revoked       revokedVersion // that the host was sent
}

type sender interface {
	Send(*sessionpb.ToNode) error
}

// desiredUpdate is what one view of the state showed for the host.
type desiredUpdate struct {
	cluster     fsm.Cluster
	revoked     *sessionpb.RevokedControllers // nil: the host has them
	version     revokedVersion
	adopted     bool
	fenced      bool
	full        bool
	volumes     []fsm.DesiredVolume
	volumesGone []fsm.VolumeID

	snapshots     []fsm.DesiredSnapshot
	snapshotsGone []fsm.SnapshotID
}

// send sends the desired state of what changed, or of all. Without
// either it is a heartbeat, which still carries the epoch and the adoption.
func (f *feed) send(changes []fsm.Change, all bool) error {
	u, err := f.readDesired(changes, all)
	if err != nil {
		return err
	}
	if err := f.welcome(u); err != nil {
		return err
	}
	for _, message := range u.messages() {
		if err := f.stream.Send(&sessionpb.ToNode{Body: &sessionpb.ToNode_Desired{Desired: message}}); err != nil {
			return err
		}
	}
	return nil
}

// readDesired reads the applied state once, so that all of the update holds at one index.
func (f *feed) readDesired(changes []fsm.Change, all bool) (*desiredUpdate, error) {
	u := &desiredUpdate{full: all}
	err := f.member.View(func(state *fsm.State) error {
		u.cluster = state.Cluster()
		if err := f.checkRecord(state, u); err != nil {
			return err
		}
		if u.full || f.hostChanged(u) {
			u.full = true
			return nil // read from a copy: the desired state of a whole host may be large
		}
		if len(changes) <= maxReadUnderLock {
			f.readChanged(state, u, changes)
		}
		return nil
	})
	if err == nil && (u.full || len(changes) > maxReadUnderLock) {
		err = f.readFromFork(u, changes)
	}
	if _, ok := status.FromError(err); err != nil && !ok {
		return nil, status.Errorf(codes.Unavailable, "read this controller's state: %v", err)
	}
	return u, err
}

// readFromFork reads the desired state of what changed, or of the whole host, at one index,
// without the lock that Apply needs.
func (f *feed) readFromFork(u *desiredUpdate, changes []fsm.Change) error {
	state, err := f.member.Fork()
	if err != nil {
		return err
	}
	u.cluster = state.Cluster()
	if err := f.checkRecord(state, u); err != nil {
		return err
	}
	if u.full = u.full || f.hostChanged(u); !u.full {
		f.readChanged(state, u, changes)
		return nil
	}
	u.volumes, u.snapshots = slices.Collect(state.DesiredVolumes(f.node)), slices.Collect(state.DesiredSnapshots(f.node))
	return nil
}

// checkRecord checks that the record is still this host's: desired state is for a host, not for a name (S17).
func (f *feed) checkRecord(state *fsm.State, u *desiredUpdate) error {
	record, ok := state.Node(f.node)
	switch {
	case !ok:
		return status.Errorf(codes.Unavailable, "node %s is not in the state any more", f.node)
	case record.State == fsm.NodeLost:
		return status.Errorf(codes.FailedPrecondition, "node %s was recorded as lost; its host must begin with an empty data folder", f.node)
	case record.Host != f.host:
		return status.Errorf(codes.FailedPrecondition, "the name %s belongs to host %s now (S17)", f.node, record.Host)
	case record.Fence.Lifted != 0 && record.Fence.Session == 0:
		return status.Errorf(codes.Unavailable, "the fence of node %s ended: it serves again with its next session (S59)", f.node)
	}
	u.adopted = record.Incarnation == u.cluster.Incarnation // else the host is in adoption mode (S1)
	u.fenced = record.IsFenced()
	f.readRevoked(state, u)
	return nil
}

// hostChanged tells whether what is desired of all of the host may differ from what it was sent.
func (f *feed) hostChanged(u *desiredUpdate) bool {
	return f.incarnationChanged(u.cluster) || u.adopted != f.adopted || u.fenced != f.fenced
}

// incarnationChanged tells whether the incarnation is not that of the last Welcome message.
func (f *feed) incarnationChanged(c fsm.Cluster) bool {
	return !f.welcomed || f.incarnation != c.Incarnation || !bytes.Equal(f.incarnationID, c.IncarnationID)
}

// readChanged reads the desired state of each volume and snapshot that changed.
func (f *feed) readChanged(state *fsm.State, u *desiredUpdate, changes []fsm.Change) {
	for _, c := range dedupChanges(changes) {
		switch {
		case c.Volume != "":
			f.readVolume(state, u, c.Volume)
		case c.Snapshot != "":
			f.readSnapshot(state, u, c.Snapshot)
		} // else the node's own record
	}
}

// dedupChanges names each changed volume and snapshot once, in a fixed order.
func dedupChanges(changes []fsm.Change) []fsm.Change {
	all := make([]fsm.Change, 0, len(changes))
	for _, c := range changes {
		all = append(all, fsm.Change{Volume: c.Volume, Snapshot: c.Snapshot})
	}
	slices.SortFunc(all, func(a, b fsm.Change) int {
		return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Snapshot, b.Snapshot))
	})
	return slices.Compact(all)
}

func (f *feed) readVolume(state *fsm.State, u *desiredUpdate, id fsm.VolumeID) {
	if d, ok := state.DesiredVolume(f.node, id); ok {
		u.volumes = append(u.volumes, d)
	} else {
		u.volumesGone = append(u.volumesGone, id)
	}
}

func (f *feed) readSnapshot(state *fsm.State, u *desiredUpdate, id fsm.SnapshotID) {
	if d, ok := state.DesiredSnapshot(f.node, id); ok {
		u.snapshots = append(u.snapshots, d)
	} else {
		u.snapshotsGone = append(u.snapshotsGone, id)
	}
}

// welcome sends the cluster and its incarnation, at the start and when the incarnation changed.
func (f *feed) welcome(u *desiredUpdate) error {
	f.adopted, f.fenced = u.adopted, u.fenced
	if !f.incarnationChanged(u.cluster) && u.revoked == nil {
		return nil
	}
	f.revoked = u.version
	f.welcomed, f.incarnation, f.incarnationID = true, u.cluster.Incarnation, bytes.Clone(u.cluster.IncarnationID)
	return f.stream.Send(&sessionpb.ToNode{Body: &sessionpb.ToNode_Welcome{Welcome: &sessionpb.Welcome{
		ClusterId: u.cluster.ID, Incarnation: f.incarnation, IncarnationId: f.incarnationID, Adopted: u.adopted,
		Revoked: u.revoked,
	}}})
}

// messages splits the update into messages that are small enough; all but the last have More set.
func (u *desiredUpdate) messages() []*sessionpb.DesiredState {
	var all []*sessionpb.DesiredState
	newMessage := func() *sessionpb.DesiredState {
		m := &sessionpb.DesiredState{At: clusterEpoch(u.cluster).Proto(), Full: u.full, Adopted: u.adopted, More: true, FeatureLevel: u.cluster.FeatureLevel}
		all = append(all, m)
		return m
	}
	for part := range slices.Chunk(u.volumes, maxPerMessage) {
		newMessage().Volumes = convertAll(part, desiredVolumeToProto)
	}
	for part := range slices.Chunk(u.volumesGone, maxPerMessage) {
		newMessage().VolumesGone = convertAll(part, func(id fsm.VolumeID) string { return string(id) })
	}
	for part := range slices.Chunk(u.snapshots, maxPerMessage) {
		newMessage().Snapshots = convertAll(part, desiredSnapshotToProto)
	}
	for part := range slices.Chunk(u.snapshotsGone, maxPerMessage) {
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
