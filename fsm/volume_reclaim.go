package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// ReclaimPath is the staging path of a reclaim, where nothing is mounted: its host mounts the filesystem
// without attaching it to any path.
const ReclaimPath = "/holdfast-reclaim"

// Reclaimed is what came of a reclaim: how many bytes of its pool the volume occupied on the host, as the
// pool said.
type Reclaimed struct {
	Epoch         Epoch // of its publication
	Known         bool  // the pool can tell
	Before, After int64
	Reason        Reason // of Error
	Error         string // why it was not done; empty: it was
}

// The fields of a volume that a reclaim has, each behind a number of its own where it is set.
const (
	fieldReclaim   = 80
	fieldReclaimed = 81
)

func hashReclaim(e *encoder, v *Volume) {
	publications := v.Publications()
	for i := range publications {
		if publications[i].Reclaim {
			e.u64(fieldReclaim)
			e.str(string(publications[i].Node))
		}
	}
	if r := v.Reclaimed; r != nil {
		e.u64(fieldReclaimed)
		e.epoch(r.Epoch)
		e.bool(r.Known)
		e.i64(r.Before)
		e.i64(r.After)
		e.u64(uint64(r.Reason))
		e.str(r.Error)
	}
}

func (r *Reclaimed) record() *fsmpb.ReclaimedRecord {
	if r == nil {
		return nil
	}
	return &fsmpb.ReclaimedRecord{Epoch: r.Epoch.Proto(), Result: &fsmpb.Reclaimed{
		Known: r.Known, BeforeBytes: r.Before, AfterBytes: r.After, Reason: uint32(r.Reason), Error: r.Error,
	}}
}

func reclaimedFrom(r *fsmpb.ReclaimedRecord) *Reclaimed {
	if r == nil {
		return nil
	}
	return newReclaimed(EpochFrom(r.GetEpoch()), r.GetResult())
}

func newReclaimed(epoch Epoch, f *fsmpb.Reclaimed) *Reclaimed {
	return &Reclaimed{Epoch: epoch, Known: f.GetKnown(), Before: f.GetBeforeBytes(), After: f.GetAfterBytes(), Reason: Reason(f.GetReason()), Error: clip(f.GetError())}
}

// reclaim is the volume's internal publication, nil when there is none.
func (v *Volume) reclaim() *Publication {
	publications := v.Publications()
	for i := range publications {
		if publications[i].Reclaim {
			return &publications[i]
		}
	}
	return nil
}

// reclaimFirst refuses what must not be done to the volume before a reclaim has ended (S61).
func (v *Volume) reclaimFirst(what string) *Rejection {
	if p := v.reclaim(); p != nil {
		return Reject(Busy, "%s volume %s: what it does not use is being discarded on node %s, and that ends first; retry", what, v.ID, p.Node)
	}
	return nil
}

// applyBeginReclaim gives the host that has the content an internal publication (S61). Repeated, it joins. A
// volume that is published, was never formatted or is not for writing is left as it is.
func applyBeginReclaim(s *State, m Meta, c *fsmpb.BeginReclaim) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.homeVolume(m.endpoint, "reclaim space", c.GetVolumeId())
	if rej != nil {
		return nil, rej
	}
	out := &fsmpb.Outcome{VolumeId: string(v.ID)}
	if p := v.reclaim(); p != nil {
		if p.Ending {
			return nil, v.reclaimFirst("reclaim")
		}
		out.Epoch = p.Epoch.Proto()
		return out, nil
	}
	capability, may := v.reclaimCapability()
	if !may {
		return out, nil
	}
	n, rej := s.reclaimHost(v, capability)
	if rej != nil {
		return nil, rej
	}
	updated := v.withPublication(Publication{Node: n.ID, Host: n.Host, Capability: capability, Epoch: m.Epoch, Reclaim: true})
	updated.Reclaimed, out.Epoch = nil, m.Epoch.Proto()
	s.putVolume(updated)
	return out, nil
}

// reclaimCapability is how the volume is mounted for a reclaim; false when there is nothing to discard.
func (v *Volume) reclaimCapability() (Capability, bool) {
	if v.Crypt != nil {
		return Capability{}, false // its key is not here
	}
	unused := (len(v.Publications()) == 0 || plantedbug.Is(plantedbug.ReclaimInUse)) && v.Format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED && !(v.Format.Cloned && v.Format.Epoch.IsZero())
	for _, c := range v.Capabilities {
		if unused && !c.Block && !ReadOnlyMode(c.Mode) && c.FSType == v.Format.FSType {
			return c, true
		}
	}
	return Capability{}, false
}

// reclaimHost is the host that can do it, unless something else is under way on the volume.
func (s *State) reclaimHost(v *Volume, capability Capability) (*Node, *Rejection) {
	for _, op := range v.Operations() {
		if op.State == OpRunning {
			return nil, Reject(Busy, "reclaim volume %s: %s is under way on it", v.ID, op.ID)
		}
	}
	if rej := s.checkNotSource(Busy, "reclaim volume", string(v.ID)); rej != nil {
		return nil, rej
	}
	r := s.sourceReplica(v)
	if r == nil || r.State != ReplicaPresent {
		return nil, Reject(Unreachable, "reclaim volume %s: no host that has its content can be asked now", v.ID)
	}
	n, rej := s.askableHost("volume "+string(v.ID), r.Node, r.Host)
	if rej != nil {
		return nil, rej
	}
	// The most volumes of a node are for an orchestrator, which does not count this.
	if rej := s.checkPublish(v, n, capability); rej != nil && rej.Reason != NoCapacity {
		return nil, rej
	}
	return n, nil
}

// applyEndReclaim has the host end the reclaim, or ends it at once where the host has not begun. On an
// unreachable host it ends as every publication does there.
func applyEndReclaim(s *State, m Meta, c *fsmpb.EndReclaim) (*fsmpb.Outcome, *Rejection) {
	v, ok := s.Volume(VolumeID(c.GetVolumeId()))
	if !ok {
		return &fsmpb.Outcome{}, nil
	}
	out := &fsmpb.Outcome{VolumeId: string(v.ID)}
	if v.reclaim() == nil {
		return out, nil
	}
	p := *v.reclaim()
	switch {
	case s.HostReachable(p.Node, p.Host) && p.Staging != nil && p.Ending:
	case s.HostReachable(p.Node, p.Host) && p.Staging != nil:
		p.Ending = true
		s.putVolume(v.withPublication(p))
	case s.needsForceFirst(v, &p):
		return nil, Reject(Unreachable, "reclaim volume %s: node %s cannot be reached, and with protocol A the other replica may miss its last writes", v.ID, p.Node)
	default:
		s.putVolume(s.withRevoked(m, v, &p))
	}
	return out, nil
}

// reclaimed: the host says what came of it. One that had not begun ends with that.
func (x reportContext) reclaimed(v *Volume, f *fsmpb.Reclaimed) (Volume, bool) {
	p := x.publication(v)
	if p == nil || !p.Reclaim || x.sequence == 0 {
		return *v, false
	}
	updated := *v
	updated.Reclaimed = newReclaimed(p.Epoch, f)
	if p.Staging == nil {
		updated = x.withReclaimEnded(&updated, p)
	}
	return updated, true
}

// withReclaimEnded is the volume without the publication of a reclaim whose host has taken it down. Where
// the end needs a teardown, the publication stays: its host does it again, or something else ends it.
func (x reportContext) withReclaimEnded(v *Volume, p *Publication) Volume {
	s := x.state
	if !s.HostReachable(p.Node, p.Host) || s.mayBePrimary(v, p.Host) {
		return *v
	}
	updated := v.withoutPublication(p.Node)
	if v.Replicated() {
		updated = updated.withReplication()
		updated.endGrant(s.cluster.Index)
	}
	return updated
}

// stagesForReclaim tells whether the command stages the volume to reclaim its space.
func stagesForReclaim(c hostCommand) bool {
	stage, ok := c.(*fsmpb.StageVolume)
	return ok && stage.GetStagingPath() == ReclaimPath
}

// VolumeReclaim is what came of the reclaim of an epoch, nil while its host is at work.
func (s *State) VolumeReclaim(id VolumeID, epoch Epoch) (*Reclaimed, *Rejection) {
	v, rej := s.KnownVolume(id)
	if rej != nil {
		return nil, rej
	}
	r, p := v.Reclaimed, v.reclaim()
	switch {
	case p != nil && p.Epoch == epoch:
		return nil, nil
	case r == nil || r.Epoch != epoch:
		return nil, Reject(Busy, "reclaim volume %s: it was ended before it was done; retry", id)
	case r.Error != "":
		return nil, Reject(r.Reason, "reclaim volume %s: %s", id, r.Error)
	}
	return r, nil
}

// ReclaimInTheWay is the volume whose reclaim must end before the command can be accepted; empty when none
// must.
func (s *State) ReclaimInTheWay(cmd *fsmpb.Command) VolumeID {
	var ids []string
	switch c := cmd.GetBody().(type) {
	case *fsmpb.Command_PublishVolume:
		ids = []string{c.PublishVolume.GetVolumeId()}
	case *fsmpb.Command_DeleteVolume:
		ids = []string{c.DeleteVolume.GetVolumeId()}
	case *fsmpb.Command_DeleteVolumeGroup:
		if g, ok := s.VolumeGroup(VolumeGroupID(c.DeleteVolumeGroup.GetVolumeGroupId())); ok {
			for _, member := range g.Members {
				ids = append(ids, string(member))
			}
		}
	case *fsmpb.Command_ExpandVolume:
		ids = []string{c.ExpandVolume.GetVolumeId()}
	case *fsmpb.Command_CreateVolume:
		ids = []string{c.CreateVolume.GetSource().GetVolumeId()}
	case *fsmpb.Command_CreateSnapshot:
		ids = []string{c.CreateSnapshot.GetSourceVolumeId()}
	case *fsmpb.Command_CreateGroupSnapshot:
		for _, member := range c.CreateGroupSnapshot.GetMembers() {
			ids = append(ids, member.GetSourceVolumeId())
		}
	}
	for _, id := range ids {
		if v, ok := s.Volume(VolumeID(id)); ok && v.reclaim() != nil {
			return v.ID
		}
	}
	return ""
}
