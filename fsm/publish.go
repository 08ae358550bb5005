package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyPublishVolume makes one node the only one that may use the volume. The same
// node asking again gets the same epoch; another node waits for the unpublish (S3, S103).
func applyPublishVolume(s *State, m Meta, c *fsmpb.PublishVolume) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.publishable(c.GetVolumeId())
	if rej != nil {
		return nil, rej
	}
	n, ok := s.Node(NodeID(c.GetNodeId()))
	if !ok {
		return nil, Reject(NotFound, "publish volume %s: node %s is not known", v.ID, clip(c.GetNodeId()))
	}
	asked := Publication{Node: n.ID, Host: n.Host, Capability: v.asUsed(c.GetCapability()), ReadOnly: c.GetReadOnly(), Epoch: m.Epoch}
	if held := v.Publications(); len(held) > 0 {
		outcome, rej := again(v, held, asked)
		if rej == nil && v.Publication(n.ID).Ending { // the last word counts
			now := *v.Publication(n.ID)
			now.Ending, now.UsedBy = false, ""
			s.putVolume(v.withPublication(now))
		}
		return outcome, rej
	}
	if rej := s.mayPublish(v, n, asked.Capability); rej != nil {
		return nil, rej
	}
	s.putVolume(v.withPublication(asked))
	return published(v, asked), nil
}

// publishable finds a volume that is Ready.
func (s *State) publishable(id string) (*Volume, *Rejection) {
	v, ok := s.Volume(VolumeID(id))
	if !ok {
		return nil, Reject(NotFound, "volume %s is not known", clip(id))
	}
	switch p := v.Phase.(type) {
	case Creating:
		return nil, Reject(Busy, "volume %s is still being created", v.ID)
	case Deleting:
		return nil, Reject(NotFound, "volume %s is being deleted", v.ID)
	case Failed:
		return nil, Reject(Precondition, "volume %s failed: %s", v.ID, p.Reason)
	case Ready:
	}
	return v, nil
}

// again answers for a volume that is published already. The modes served here let
// one node use it at a time.
func again(v *Volume, held []Publication, asked Publication) (*fsmpb.Outcome, *Rejection) {
	i := slices.IndexFunc(held, func(p Publication) bool { return p.Node == asked.Node })
	switch {
	case i < 0:
		return nil, Reject(InUse, "volume %s is published to node %s", v.ID, held[0].Node)
	case held[i].ReadOnly != asked.ReadOnly:
		return nil, Reject(Incompatible, "volume %s is published to node %s with read-only %t", v.ID, held[i].Node, held[i].ReadOnly)
	case held[i].Capability != asked.Capability:
		return nil, Reject(Incompatible, "volume %s is published to node %s with another capability", v.ID, held[i].Node)
	}
	return published(v, held[i]), nil
}

// mayPublish checks everything that a new publication needs of the node.
func (s *State) mayPublish(v *Volume, n *Node, asked Capability) *Rejection {
	switch {
	case asked.check() != nil:
		return asked.check()
	case !v.Supports(asked):
		return Reject(Precondition, "volume %s was not created for %s", v.ID, asked)
	case n.State == NodeLost:
		return Reject(Precondition, "publish volume %s: node %s was recorded as lost", v.ID, n.ID)
	case v.Replica(n.Host) == nil:
		return Reject(Precondition, "publish volume %s: node %s cannot reach its replica on node %s", v.ID, n.ID, v.Replicas[0].Node)
	case v.mayLead(n) != nil:
		return v.mayLead(n)
	case n.Incarnation != s.cluster.Incarnation:
		return Reject(Precondition, "publish volume %s: node %s is in adoption mode until an operator adopts it", v.ID, n.ID)
	case n.State == NodeUnreachable:
		return Reject(Unreachable, "publish volume %s: node %s cannot be reached now", v.ID, n.ID)
	case n.MaxVolumes != 0 && s.PublicationCount(n.ID) >= int(n.MaxVolumes):
		return Reject(NoCapacity, "publish volume %s: node %s holds %d volumes, its maximum", v.ID, n.ID, n.MaxVolumes)
	}
	return nil
}

func published(v *Volume, p Publication) *fsmpb.Outcome {
	return &fsmpb.Outcome{VolumeId: string(v.ID), Epoch: p.Epoch.proto()}
}

// String names what an operator would recognise of it.
func (c Capability) String() string {
	if c.Block {
		return "block " + c.Mode.String()
	}
	return "mount " + c.FSType + " " + c.Mode.String()
}
