package fsm

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applyPublishVolume makes one node the only one that may use the volume. The same
// node gets the same epoch for a repeated command; another node waits for the unpublish (S3, S103).
func applyPublishVolume(s *State, m Meta, c *fsmpb.PublishVolume) (*fsmpb.Outcome, *Rejection) {
	v, n, rej := s.volumeAndNode(m.endpoint, c)
	if rej != nil {
		return nil, rej
	}
	requested := requestedPublication(v, n, c)
	requested.MadeBy = s.maker(m.Actor)
	requested.Epoch = m.Epoch
	if existing := v.Publications(); len(existing) > 0 && !plantedbug.Is(plantedbug.PublishNotExclusive) {
		outcome, rej := rejoinPublication(v, existing, requested)
		if rej == nil && v.Publication(n.ID).Ending { // the last word counts
			updated := *v.Publication(n.ID)
			updated.Ending, updated.UsedBy = false, ""
			s.putVolume(v.withPublication(updated))
		}
		return outcome, rej
	}
	if rej := s.checkPublish(v, n, requested.Capability); rej != nil {
		return nil, rej
	}
	updated := v.withPublication(requested)
	if m.named {
		updated.Home = m.site // S35: nobody else has it published
	}
	s.putVolume(updated)
	return publishOutcome(v, requested), nil
}

// volumeAndNode are what the command is about.
func (s *State) volumeAndNode(at endpoint, c *fsmpb.PublishVolume) (*Volume, *Node, *Rejection) {
	v, rej := s.readyVolume(c.GetVolumeId())
	if rej != nil {
		return nil, nil, rej
	}
	n, ok := s.Node(NodeID(c.GetNodeId()))
	if !ok {
		return nil, nil, Reject(NotFound, "publish volume %s: node %s is not known", v.ID, clip(c.GetNodeId()))
	}
	if !at.serves(n.site()) {
		return nil, nil, Reject(NotFound, "publish volume %s: node %s is not known at site %s", v.ID, n.ID, at.site)
	}
	if relation := s.RelationOf(v); relation != nil && !relation.isPrimary(n.site()) && !plantedbug.Is(plantedbug.PublishedAtSecondary) {
		return nil, nil, Reject(Precondition, "publish volume %s to node %s: its site %s does not have the role: promote it there first", v.ID, n.ID, n.site())
	}
	return v, n, nil
}

// requestedPublication is what the command asks for, without an epoch.
func requestedPublication(v *Volume, n *Node, c *fsmpb.PublishVolume) Publication {
	return Publication{Node: n.ID, Host: n.Host, Capability: v.asUsed(c.GetCapability()), ReadOnly: c.GetReadOnly()}
}

// readyVolume finds a volume that is Ready, and is not being converted.
func (s *State) readyVolume(id string) (*Volume, *Rejection) {
	v, rej := s.presentVolume(id)
	if rej == nil {
		rej = v.convertingFirst()
	}
	if rej != nil {
		return nil, rej
	}
	return v, nil
}

// presentVolume finds a volume that is Ready.
func (s *State) presentVolume(id string) (*Volume, *Rejection) {
	v, ok := s.Volume(VolumeID(id))
	if !ok {
		return nil, Reject(NotFound, "volume %s is not known", clip(id))
	}
	if v.isContentLost() && !v.isFailed() {
		return nil, Reject(Precondition, "volume %s failed: %s", v.ID, v.Condition.Message)
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

// rejoinPublication answers for a volume that is published already. The modes served here let
// one node use it at a time.
func rejoinPublication(v *Volume, publications []Publication, requested Publication) (*fsmpb.Outcome, *Rejection) {
	i := slices.IndexFunc(publications, func(p Publication) bool { return p.Node == requested.Node })
	switch {
	case publications[0].Reclaim:
		return nil, v.reclaimFirst("publish")
	case i < 0:
		return nil, Reject(InUse, "volume %s is published to node %s", v.ID, publications[0].Node)
	case (publications[i].MadeBy != "") != (requested.MadeBy != ""):
		return nil, Reject(InUse, "volume %s is published to node %s by %s, who would end what both rely on", v.ID, publications[i].Node, cmp.Or(publications[i].MadeBy, "an orchestrator"))
	case publications[i].ReadOnly != requested.ReadOnly:
		return nil, Reject(Incompatible, "volume %s is published to node %s with read-only %t", v.ID, publications[i].Node, publications[i].ReadOnly)
	case publications[i].Capability != requested.Capability:
		return nil, Reject(Incompatible, "volume %s is published to node %s with another capability", v.ID, publications[i].Node)
	}
	return publishOutcome(v, publications[i]), nil
}

// checkPublish checks everything that a new publication needs of the node.
func (s *State) checkPublish(v *Volume, n *Node, requested Capability) *Rejection {
	switch {
	case requested.check() != nil:
		return requested.check()
	case !v.Supports(requested):
		return Reject(Precondition, "volume %s was not created for %s", v.ID, requested)
	case n.State == NodeLost:
		return Reject(Precondition, "publish volume %s: node %s was recorded as lost", v.ID, n.ID)
	case v.Replica(n.Host) == nil, v.Unconverted != nil && v.Replica(n.Host).State == ReplicaLeaving:
		return Reject(Precondition, "publish volume %s: node %s cannot reach its replica on node %s", v.ID, n.ID, v.Replicas[0].Node)
	case v.checkReplicaPublishable(n) != nil:
		return v.checkReplicaPublishable(n)
	case n.Incarnation != s.cluster.Incarnation:
		return Reject(Precondition, "publish volume %s: node %s is in adoption mode until an operator adopts it", v.ID, n.ID)
	case n.IsFenced() && !plantedbug.Is(plantedbug.FencedHostServes):
		return Reject(Unreachable, "publish volume %s: node %s is fenced", v.ID, n.ID)
	case n.State == NodeUnreachable:
		return Reject(Unreachable, "publish volume %s: node %s cannot be reached now", v.ID, n.ID)
	case n.MaxVolumes != 0 && s.PublicationCount(n.ID) >= int(n.MaxVolumes):
		return Reject(NoCapacity, "publish volume %s: node %s holds %d volumes, its maximum", v.ID, n.ID, n.MaxVolumes)
	}
	return nil
}

func publishOutcome(v *Volume, p Publication) *fsmpb.Outcome {
	return &fsmpb.Outcome{VolumeId: string(v.ID), Epoch: p.Epoch.Proto()}
}

// String names the capability for people.
func (c Capability) String() string {
	if c.Block {
		return "block " + c.Mode.String()
	}
	return "mount " + c.FSType + " " + c.Mode.String()
}
