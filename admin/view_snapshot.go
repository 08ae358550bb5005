package admin

import (
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

func snapshotView(snap *fsm.Snapshot) *adminpb.Snapshot {
	return &adminpb.Snapshot{
		Id: string(snap.ID), Name: snap.Name, Source: string(snap.Source), Group: string(snap.Group),
		Node: string(snap.Node), HostId: string(snap.Host), PoolId: string(snap.Pool), SizeBytes: snap.Size,
		Phase: snap.Phase.String(), Reason: snap.Error, Cut: timeView(snap.TakenAt), Missing: snap.Missing, FsType: snap.Format.FSType,
		Operation: snapshotOperation(snap), Created: snap.Created.String(), Modified: snap.Modified, Kept: keptView(snap.KeptCopy),
	}
}

func keptView(k *fsm.KeptCopy) *adminpb.Kept {
	if k == nil {
		return nil
	}
	reason := k.Reason
	if k.BeforeSync {
		reason = "before resync"
	}
	return &adminpb.Kept{Reason: reason, Generation: k.Generation, Attach: k.Attachment, Superseded: timeView(k.Superseded), BeforeSync: k.BeforeSync}
}

func groupView(st *fsm.State, g *fsm.GroupSnapshot) *adminpb.GroupSnapshot {
	return &adminpb.GroupSnapshot{
		Id: string(g.ID), Name: g.Name, Members: mapSlice(g.Members, func(id fsm.SnapshotID) string { return string(id) }),
		Phase: g.Phase.String(), Attempt: g.Attempt, Cut: timeView(g.TakenAt), Reason: g.Error,
		Operation: groupOperation(st, g), Created: g.Created.String(), Modified: g.Modified,
	}
}
