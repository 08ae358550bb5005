package replay

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/jepsen/check"
	"github.com/holdfast-storage/holdfast/jepsen/model"
)

// Acknowledged returns an error unless the entry that each acknowledged change names is in the log, is that change, was
// accepted and gave what the client was answered; and no two calls name one entry. One that names neither an entry nor a
// state is an error too. It answers at how many it looked.
func (l *Log) Acknowledged(calls []check.Call) (looked int, err error) {
	named := map[uint64]check.Call{}
	for _, c := range calls {
		if c.Output.Outcome != model.OK || c.Input.Kind.Reads() {
			continue
		}
		if c.Output.Index == 0 {
			return looked, fmt.Errorf("%s was acknowledged of no index", describe(c))
		}
		if c.Output.FromState {
			continue
		}
		looked++
		e, known := l.entries[c.Output.Index]
		if !known {
			return looked, fmt.Errorf("%s was acknowledged of index %d, which no member has", describe(c), c.Output.Index)
		}
		if other, twice := named[c.Output.Index]; twice {
			return looked, fmt.Errorf("%s and %s were both acknowledged of index %d", describe(c), describe(other), c.Output.Index)
		}
		named[c.Output.Index] = c
		if e.Outcome.GetRejection() != nil || !isOf(e, c) {
			return looked, fmt.Errorf("%s was acknowledged of index %d, which is %v, decided as %v", describe(c), e.Index, e.Command.GetBody(), e.Outcome)
		}
	}
	return looked, nil
}

func describe(c check.Call) string {
	return fmt.Sprintf("%s of %s %s by client %d", c.Input.Kind, c.Input.Name, c.Input.ID, c.Client)
}

// isOf tells whether an entry is the call's: the same change of the same thing.
func isOf(e Entry, c check.Call) bool {
	in, out := c.Input, e.Outcome
	switch b := e.Command.GetBody().(type) {
	case *fsmpb.Command_CreateVolume:
		return in.Kind == model.Create && b.CreateVolume.GetName() == in.Name && out.GetVolumeId() == c.Output.ID
	case *fsmpb.Command_CreateSnapshot:
		return in.Kind == model.Create && b.CreateSnapshot.GetName() == in.Name && out.GetSnapshotId() == c.Output.ID
	case *fsmpb.Command_CreateGroupSnapshot:
		return in.Kind == model.Create && b.CreateGroupSnapshot.GetName() == in.Name && out.GetGroupSnapshotId() == c.Output.ID
	case *fsmpb.Command_DeleteVolume:
		return in.Kind == model.Delete && b.DeleteVolume.GetVolumeId() == in.ID
	case *fsmpb.Command_DeleteSnapshot:
		return in.Kind == model.Delete && b.DeleteSnapshot.GetSnapshotId() == in.ID
	case *fsmpb.Command_DeleteGroupSnapshot:
		return in.Kind == model.Delete && b.DeleteGroupSnapshot.GetGroupSnapshotId() == in.ID
	case *fsmpb.Command_PublishVolume:
		return in.Kind == model.Publish && b.PublishVolume.GetVolumeId() == in.ID && b.PublishVolume.GetNodeId() == in.Node
	case *fsmpb.Command_UnpublishVolume:
		return in.Kind == model.Unpublish && b.UnpublishVolume.GetVolumeId() == in.ID &&
			(in.Node == "" || b.UnpublishVolume.GetNodeId() == in.Node)
	case *fsmpb.Command_ExpandVolume:
		return in.Kind == model.Expand && b.ExpandVolume.GetVolumeId() == in.ID
	case *fsmpb.Command_ModifyVolume:
		return in.Kind == model.Modify && b.ModifyVolume.GetVolumeId() == in.ID
	}
	return false
}
