package admin

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// planRemoveKept removes the kept copies of a volume on a host, all of them or one: the operator has
// taken from these snapshots of a discarded replica what is needed (S49).
func (p *planner) planRemoveKept() error {
	if n, _ := p.state.Node(p.nodeID()); n.Host != p.host {
		return p.wrongHost(n)
	}
	id, named := fsm.VolumeID(p.req.GetVolume()), fsm.SnapshotID(p.req.GetVolume())
	v := findVolume(p.state, p.req.GetVolume())
	if v != nil {
		id = v.ID
	}
	var found []*fsm.Snapshot
	for n := range p.state.SnapshotsOn(p.nodeID()) {
		if n.KeptCopy != nil && n.Host == p.host && (n.Source == id || n.ID == named) {
			found = append(found, n)
		}
	}
	if len(found) == 0 && v == nil && !named.Valid() && !id.Valid() {
		return fsm.Reject(fsm.NotFound, "no volume has the id or name %q, and no kept copy this id", p.req.GetVolume())
	}
	if len(found) == 0 {
		p.add(step{action: "remove-kept", state: stepDone, volume: v, detail: "this host keeps nothing of it"})
	}
	for _, n := range found {
		p.removeKeptCopy(n)
	}
	return nil
}

func (p *planner) removeKeptCopy(snap *fsm.Snapshot) {
	v, _ := p.state.Volume(snap.Source)
	if snap.Phase == fsm.SnapshotDeleting {
		p.add(step{action: "remove-kept", state: stepWaiting, volume: v, detail: string(snap.ID) + " is being removed by its host"})
		return
	}
	p.addCommand(step{action: "remove-kept", volume: v, detail: keptCopyDetail(snap)}, &fsmpb.Command{Body: &fsmpb.Command_DeleteSnapshot{
		DeleteSnapshot: &fsmpb.DeleteSnapshot{SnapshotId: string(snap.ID)}}})
}

// keptCopyDetail says what is lost when a kept copy is removed.
func keptCopyDetail(snap *fsm.Snapshot) string {
	what := fmt.Sprintf("%s, %s, of generation %d: what its replica had that the other one may not have IS LOST", snap.ID, formatSize(snap.Size), snap.KeptCopy.Generation)
	if snap.KeptCopy.BeforeSync {
		what = fmt.Sprintf("%s, %s, of generation %d: what its replica had before a resynchronisation, the last whole copy on this host until that ends", snap.ID, formatSize(snap.Size), snap.KeptCopy.Generation)
	}
	if snap.KeptCopy.Superseded.IsZero() {
		return what + "; not all replicas of the volume were up to date since: it may be the best copy there is"
	}
	return what
}
