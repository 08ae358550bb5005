package admin

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// removeKept: an operator has taken what he needs from the copies that a host keeps of what
// its replica of a volume lost, all of them or one (S49).
func (p *planner) removeKept() error {
	if n, _ := p.state.Node(p.node()); n.Host != p.host {
		return p.otherHost(n)
	}
	id, named := fsm.VolumeID(p.req.GetVolume()), fsm.SnapshotID(p.req.GetVolume())
	v := findVolume(p.state, p.req.GetVolume())
	if v != nil {
		id = v.ID
	}
	var found []*fsm.Snapshot
	for n := range p.state.SnapshotsOn(p.node()) {
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
		p.removeCopy(n)
	}
	return nil
}

func (p *planner) removeCopy(n *fsm.Snapshot) {
	v, _ := p.state.Volume(n.Source)
	if n.Phase == fsm.SnapshotDeleting {
		p.add(step{action: "remove-kept", state: stepWaiting, volume: v, detail: string(n.ID) + " is being removed by its host"})
		return
	}
	p.try(step{action: "remove-kept", volume: v, detail: copyDetail(n)}, &fsmpb.Command{Body: &fsmpb.Command_DeleteSnapshot{
		DeleteSnapshot: &fsmpb.DeleteSnapshot{SnapshotId: string(n.ID)}}})
}

// copyDetail says what is lost with a copy.
func copyDetail(n *fsm.Snapshot) string {
	what := fmt.Sprintf("%s, %s, of generation %d: what its replica had that the other one may not have IS LOST", n.ID, size(n.Size), n.KeptCopy.Generation)
	if n.KeptCopy.Superseded.IsZero() {
		return what + "; not all replicas of the volume were up to date since: it may be the best copy there is"
	}
	return what
}
