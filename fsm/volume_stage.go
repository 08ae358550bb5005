package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyStageVolume records a host's intent to stage the volume, and grants it:
// under the publication's epoch, to this host in this boot only (S2, S3).
func applyStageVolume(s *State, m Meta, c *fsmpb.StageVolume) (*fsmpb.Outcome, *Rejection) {
	v, p, rej := s.grantedPublication(c)
	if rej != nil {
		return nil, rej
	}
	if rej := checkPath("staging path", c.GetStagingPath()); rej != nil {
		return nil, rej
	}
	requested := Staging{Path: c.GetStagingPath(), Boot: c.GetBootId(), Capability: v.asUsed(c.GetCapability())}
	if rej := v.checkStage(p, &requested); rej != nil {
		return nil, rej
	}
	if group := s.groupTakingSnapshotOf(v.ID); group != "" && p.Staging == nil {
		return nil, Reject(Busy, "stage volume %s: it is just being cut for group snapshot %s", v.ID, group)
	}
	format, rej := v.formatFor(m, requested.Capability, c.GetFsUuid())
	if rej != nil {
		return nil, rej
	}
	crypt, rej := v.Crypt.forStage(m, c.GetLuksUuid())
	if rej != nil {
		return nil, rej
	}
	if rej := s.checkMayFormat(v, format, crypt); rej != nil {
		return nil, rej
	}
	updated := v.withPublication(p.withStaging(&requested))
	updated = updated.withSequence(p.Host, c.GetSequence())
	updated.Format, updated.Crypt = format, crypt
	s.putVolume(updated)
	return grantOutcome(v, p, format, crypt), nil
}

// hostCommand is what StageVolume and PublishTarget have in common.
type hostCommand interface {
	GetVolumeId() string
	GetNodeId() string
	GetHostId() string
	GetBootId() string
	GetEpoch() *fsmpb.Epoch
	GetSequence() uint64
}

// grantedPublication finds the publication that the host may act under, or says why it may
// not: another host, boot or epoch (S2, S3), adoption mode (S1), an earlier
// publication to be torn down first (S3), a record out of order (S16).
func (s *State) grantedPublication(c hostCommand) (*Volume, *Publication, *Rejection) {
	v, rej := s.readyVolume(c.GetVolumeId())
	if rej != nil {
		return nil, nil, rej
	}
	n, rej := s.nodeOfBoot(c.GetNodeId(), c.GetHostId(), c.GetBootId())
	if rej != nil {
		return nil, nil, rej
	}
	p, replica := v.Publication(n.ID), v.Replica(n.Host)
	switch epoch := EpochFrom(c.GetEpoch()); {
	case n.Incarnation != s.cluster.Incarnation:
		return nil, nil, Reject(Precondition, "volume %s: node %s is in adoption mode until an operator adopts it", v.ID, n.ID)
	case n.IsFenced():
		return nil, nil, Reject(Precondition, "volume %s: node %s is fenced", v.ID, n.ID)
	case p == nil || p.Host != n.Host:
		return nil, nil, Reject(StaleEpoch, "volume %s is not published to node %s", v.ID, n.ID)
	case p.Epoch != epoch:
		return nil, nil, Reject(StaleEpoch, "volume %s is published to node %s at epoch %s, not %s", v.ID, n.ID, p.Epoch, epoch)
	case p.Reclaim != stagesForReclaim(c):
		return nil, nil, Reject(Precondition, "volume %s: a publication that reclaims space is for nothing else", v.ID)
	case p.Ending:
		return nil, nil, Reject(Busy, "volume %s: its publication to node %s is being ended: unpublish it, or publish it again", v.ID, n.ID)
	case replica == nil:
		return nil, nil, Reject(Precondition, "volume %s has no replica on node %s", v.ID, n.ID)
	case v.Teardown(n.Host) != nil:
		return nil, nil, Reject(Busy, "volume %s: node %s must end the publication of epoch %s first", v.ID, n.ID, v.Teardown(n.Host).Epoch)
	case c.GetSequence() <= replica.Sequence:
		return nil, nil, Reject(StaleEpoch, "volume %s: record %d of node %s is not above %d", v.ID, c.GetSequence(), n.ID, replica.Sequence)
	}
	return v, p, nil
}

// checkStage compares with what the node was given and has staged already.
func (v *Volume) checkStage(p *Publication, requested *Staging) *Rejection {
	switch existing := p.Staging; {
	case existing != nil && existing.Path != requested.Path:
		return Reject(InUse, "volume %s is staged at %s on node %s", v.ID, existing.Path, p.Node)
	case existing != nil && existing.Capability != requested.Capability:
		return Reject(Incompatible, "volume %s is staged at %s with another capability", v.ID, existing.Path)
	case requested.Capability.check() != nil:
		return requested.Capability.check()
	case requested.Capability.Block != p.Capability.Block || !v.Supports(requested.Capability):
		return Reject(Precondition, "volume %s is published to node %s for %s, not for %s", v.ID, p.Node, p.Capability, requested.Capability)
	}
	return nil
}

// formatFor decides how the content begins, at most once in the volume's life
// (S15). While it is being formatted the first uuid stays, so mkfs may be repeated;
// so it does while a clone is given an identity of its own.
func (v *Volume) formatFor(m Meta, c Capability, uuid string) (Format, *Rejection) {
	f := v.Format
	switch f.Phase {
	case fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED:
		if c.Block {
			return Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_RAW}, nil
		}
		if rej := checkID("filesystem uuid", uuid); rej != nil {
			return f, rej
		}
		return Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING, FSType: c.FSType, FSUUID: uuid, Epoch: m.Epoch}, nil
	case fsmpb.FormatPhase_FORMAT_PHASE_RAW:
		if !c.Block {
			return f, Reject(Precondition, "volume %s was given out raw and is never formatted", v.ID)
		}
		return f, nil
	}
	if c.Block || c.FSType != f.FSType {
		return f, Reject(Precondition, "volume %s has a filesystem of type %s: it cannot be used as %s", v.ID, f.FSType, c)
	}
	if f.Cloned && f.Epoch.IsZero() {
		if rej := checkID("filesystem uuid", uuid); rej != nil {
			return f, rej
		}
		f.FSUUID, f.Epoch = uuid, m.Epoch
	}
	return f, nil
}

// checkMayFormat refuses to begin a format while a copy of the volume is being made: that has the
// format which the volume had when it was asked for, and would have a filesystem that its own
// record does not know, or a part of one.
func (s *State) checkMayFormat(v *Volume, format Format, crypt *Crypt) *Rejection {
	begins := format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING && v.Format.Phase != format.Phase
	begins = begins || crypt.isBeingMade() && !v.Crypt.isBeingMade()
	if !begins || !s.level2() {
		return nil
	}
	if made := s.copyBeingMadeOf(v.ID); made != "" {
		return Reject(Busy, "stage volume %s: %s is just being made from it, and it has no filesystem yet", v.ID, made)
	}
	return nil
}

// copyBeingMadeOf is a clone or a snapshot of the volume that its host is making, empty when there is none.
func (s *State) copyBeingMadeOf(id VolumeID) string {
	for v := range s.Operations() {
		if _, creating := v.Phase.(Creating); creating && v.Source.Volume == id {
			return "volume " + string(v.ID)
		}
	}
	for n := range s.SnapshotsOf(id, "") {
		if n.Phase == SnapshotTaking {
			return "snapshot " + string(n.ID)
		}
	}
	return ""
}

// withStaging is the publication with the intent. Done stays as it is: registering a new boot
// has reset what was done in an earlier one.
func (p *Publication) withStaging(requested *Staging) Publication {
	updated := *p
	if p.Staging != nil {
		requested.Done = p.Staging.Done
	}
	updated.Staging = requested
	return updated
}

// withSequence records the host's last record of the volume (S16).
func (v *Volume) withSequence(host HostID, sequence uint64) Volume {
	r := *v.Replica(host)
	r.Sequence = sequence
	return v.withReplica(r)
}

// grantOutcome is the host's right, with what it needs to act on it.
func grantOutcome(v *Volume, p *Publication, f Format, c *Crypt) *fsmpb.Outcome {
	readOnly := p.ReadOnly || ReadOnlyMode(p.Capability.Mode)
	return &fsmpb.Outcome{
		VolumeId: string(v.ID),
		Epoch:    p.Epoch.Proto(),
		Grant:    &fsmpb.Grant{Epoch: p.Epoch.Proto(), ReadOnly: readOnly, Format: f.Proto(), Crypt: c.Proto(), RestoreHeader: v.restoresHeader(p.Host)},
	}
}
