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

// batch is how many wishes, or ids, go into one message: some hundred bytes each,
// far below gRPC's limit of 4 MiB.
const batch = 2000

// pickedUnderLock is how many wishes are read under the lock that Apply needs; more are
// read from a copy.
const pickedUnderLock = 500

// feed tells one host what this member's applied state wants of it.
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

// news is what was read of the state in one view.
type news struct {
	cluster fsm.Cluster
	adopted bool
	full    bool
	wishes  []fsm.DesiredVolume
	gone    []fsm.VolumeID

	snapshots     []fsm.DesiredSnapshot
	snapshotsGone []fsm.SnapshotID
}

// send tells what is wanted now for what was touched, or for all. Without
// either it is a heartbeat, which still says the epoch and the adoption.
func (f *feed) send(touched []fsm.Change, all bool) error {
	n, err := f.read(touched, all)
	if err != nil {
		return err
	}
	if err := f.welcome(n); err != nil {
		return err
	}
	for _, message := range n.messages() {
		if err := f.stream.Send(&sessionpb.ToNode{Body: &sessionpb.ToNode_Wishes{Wishes: message}}); err != nil {
			return err
		}
	}
	return nil
}

// read looks at the applied state once, so that all it finds holds at one index.
func (f *feed) read(touched []fsm.Change, all bool) (*news, error) {
	n := &news{full: all}
	err := f.member.View(func(state *fsm.State) error {
		n.cluster = state.Cluster()
		if err := f.own(state, n); err != nil {
			return err
		}
		if n.full || f.isNew(n.cluster) || n.adopted != f.adopted {
			n.full = true
			return nil // a copy is read: all that is wanted of a host may take long
		}
		if len(touched) <= pickedUnderLock {
			f.pick(state, n, touched)
		}
		return nil
	})
	if err == nil && (n.full || len(touched) > pickedUnderLock) {
		err = f.readCopy(n, touched)
	}
	if _, ok := status.FromError(err); err != nil && !ok {
		return nil, status.Errorf(codes.Unavailable, "read this controller's state: %v", err)
	}
	return n, err
}

// readCopy reads what was touched, or all that is wanted of the host, at one index,
// without the lock that Apply needs.
func (f *feed) readCopy(n *news, touched []fsm.Change) error {
	state, err := f.member.Fork()
	if err != nil {
		return err
	}
	n.cluster = state.Cluster()
	if err := f.own(state, n); err != nil {
		return err
	}
	if n.full = n.full || f.isNew(n.cluster) || n.adopted != f.adopted; !n.full {
		f.pick(state, n, touched)
		return nil
	}
	n.wishes, n.snapshots = slices.Collect(state.DesiredVolumes(f.node)), slices.Collect(state.DesiredSnapshots(f.node))
	return nil
}

// own checks that the record is still this host's: wishes are for a host, not for a name (S17).
func (f *feed) own(state *fsm.State, n *news) error {
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

// isNew tells whether the incarnation is another than the host was welcomed to.
func (f *feed) isNew(c fsm.Cluster) bool {
	return !f.welcomed || f.incarnation != c.Incarnation || !bytes.Equal(f.incarnationID, c.IncarnationID)
}

// pick reads what is wanted of each thing that was touched.
func (f *feed) pick(state *fsm.State, n *news, touched []fsm.Change) {
	for _, t := range once(touched) {
		switch {
		case t.Volume != "":
			f.pickVolume(state, n, t.Volume)
		case t.Snapshot != "":
			f.pickSnapshot(state, n, t.Snapshot)
		} // else the node's own record
	}
}

// once is each volume and snapshot in a fixed order, named once.
func once(touched []fsm.Change) []fsm.Change {
	all := make([]fsm.Change, 0, len(touched))
	for _, t := range touched {
		all = append(all, fsm.Change{Volume: t.Volume, Snapshot: t.Snapshot})
	}
	slices.SortFunc(all, func(a, b fsm.Change) int {
		return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Snapshot, b.Snapshot))
	})
	return slices.Compact(all)
}

func (f *feed) pickVolume(state *fsm.State, n *news, id fsm.VolumeID) {
	if w, ok := state.DesiredVolume(f.node, id); ok {
		n.wishes = append(n.wishes, w)
	} else {
		n.gone = append(n.gone, id)
	}
}

func (f *feed) pickSnapshot(state *fsm.State, n *news, id fsm.SnapshotID) {
	if w, ok := state.DesiredSnapshot(f.node, id); ok {
		n.snapshots = append(n.snapshots, w)
	} else {
		n.snapshotsGone = append(n.snapshotsGone, id)
	}
}

// welcome says which cluster speaks, at the start and when the incarnation changed.
func (f *feed) welcome(n *news) error {
	f.adopted = n.adopted
	if !f.isNew(n.cluster) {
		return nil
	}
	f.welcomed, f.incarnation, f.incarnationID = true, n.cluster.Incarnation, bytes.Clone(n.cluster.IncarnationID)
	return f.stream.Send(&sessionpb.ToNode{Body: &sessionpb.ToNode_Welcome{Welcome: &sessionpb.Welcome{
		ClusterId: n.cluster.ID, Incarnation: f.incarnation, IncarnationId: f.incarnationID, Adopted: n.adopted,
	}}})
}

// messages cuts the news into messages that are small enough; all but the last say more.
func (n *news) messages() []*sessionpb.Wishes {
	var all []*sessionpb.Wishes
	next := func() *sessionpb.Wishes {
		m := &sessionpb.Wishes{At: epochToProto(epochOf(n.cluster)), Full: n.full, Adopted: n.adopted, More: true, FeatureLevel: n.cluster.FeatureLevel}
		all = append(all, m)
		return m
	}
	for part := range slices.Chunk(n.wishes, batch) {
		next().Wishes = mapped(part, wishToProto)
	}
	for part := range slices.Chunk(n.gone, batch) {
		next().Gone = mapped(part, func(id fsm.VolumeID) string { return string(id) })
	}
	for part := range slices.Chunk(n.snapshots, batch) {
		next().Snapshots = mapped(part, snapshotWishToProto)
	}
	for part := range slices.Chunk(n.snapshotsGone, batch) {
		next().SnapshotsGone = mapped(part, func(id fsm.SnapshotID) string { return string(id) })
	}
	if len(all) == 0 {
		next()
	}
	all[len(all)-1].More = false
	return all
}

func mapped[A, B any](all []A, to func(A) B) []B {
	out := make([]B, 0, len(all))
	for _, a := range all {
		out = append(out, to(a))
	}
	return out
}
