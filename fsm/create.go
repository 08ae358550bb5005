package fsm

import (
	"bytes"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyCreateVolume makes a volume of a name, or joins the one that exists (S101). It
// is placed and reserved here; its host makes the device.
func applyCreateVolume(s *State, m Meta, c *fsmpb.CreateVolume) (*fsmpb.Outcome, *Rejection) {
	asked, rej := s.requested(c)
	if rej != nil {
		return nil, rej
	}
	held, exists := s.VolumeByName(asked.Name)
	if exists && !held.failed() {
		return s.join(held, &asked, c)
	}
	if other, taken := s.Volume(asked.ID); taken {
		return nil, Reject(Incompatible, "create volume %q: id %s belongs to volume %q already", asked.Name, asked.ID, other.Name)
	}
	if rej := s.placeNew(m, &asked, c); rej != nil {
		return nil, rej
	}
	if exists {
		s.beginDelete(m, held, held.Operation.id(m)) // the failed device becomes an obligation
	}
	asked.Phase, asked.Created = Creating{}, m.Epoch
	asked.Operation = m.operation(OpCreate)
	s.putVolume(asked)
	return &fsmpb.Outcome{VolumeId: c.GetVolumeId(), OperationId: m.Index}, nil
}

// placeNew decides where the volume will be: with its source, or where there is room;
// the other replica of a replicated one on another host.
func (s *State) placeNew(m Meta, asked *Volume, c *fsmpb.CreateVolume) *Rejection {
	w := &wanted{requisite: asked.Requisite, preferred: c.GetPreferred(), facts: c.GetFacts(), replicated: c.GetReplicas() > 1}
	first, rej := s.placeFirst(asked, c, w)
	if rej != nil {
		return rej
	}
	asked.Replicas = []Replica{first}
	if !w.replicated {
		return nil
	}
	return s.replicate(m, asked, c, w)
}

func (s *State) placeFirst(asked *Volume, c *fsmpb.CreateVolume, w *wanted) (Replica, *Rejection) {
	if !asked.Source.IsZero() {
		return s.placeFrom(asked, c, w)
	}
	w.size = asked.Size
	return s.place(w)
}

// requested reads and checks everything about the volume but where it will be.
func (s *State) requested(c *fsmpb.CreateVolume) (Volume, *Rejection) {
	v, rej := s.described(c)
	s.share.volume(&v)
	return v, rej
}

// described is requested, and leaves the state alone.
func (s *State) described(c *fsmpb.CreateVolume) (Volume, *Rejection) {
	v := Volume{ID: VolumeID(c.GetVolumeId()), Name: c.GetName(), Fingerprint: c.GetFingerprint(), Limits: LimitsFrom(c.GetLimits()), Claim: claimFrom(c.GetClaim())}
	if !v.ID.Valid() {
		return v, Reject(Invalid, "create a volume: %q is not a volume id", clip(c.GetVolumeId()))
	}
	if n := len(v.Name); n == 0 || n > maxNameBytes {
		return v, Reject(Invalid, "create a volume: the name must have 1 to %d bytes, it has %d", maxNameBytes, n)
	}
	if rej := v.Claim.check(); rej != nil {
		return v, rej
	}
	if len(v.Fingerprint) > maxFingerprintBytes {
		return v, Reject(Invalid, "create volume %q: the fingerprint has more than %d bytes", v.Name, maxFingerprintBytes)
	}
	rej := requestedReplicas(c)
	if rej != nil {
		return v, rej
	}
	if v.Source, rej = requestedSource(c.GetSource()); rej != nil {
		return v, rej
	}
	if v.Capabilities, rej = requestedCapabilities(c.GetCapabilities(), s.usualFSType(v.Name, v.Source)); rej != nil {
		return v, rej
	}
	if v.Requisite, rej = s.share.requisite(c.GetRequisite()); rej != nil {
		return v, rej
	}
	v.Format = Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED}
	v.Size, rej = SizeFor(c.GetRequiredBytes(), c.GetLimitBytes(), v.Capabilities)
	return v, rej
}

// CreatedAs says why a volume is not what the command asks for, nil when it is: the
// compatibility check of CreateVolume.
func (s *State) CreatedAs(held *Volume, c *fsmpb.CreateVolume) *Rejection {
	asked, rej := s.described(c)
	if rej != nil {
		return rej
	}
	return s.differs(held, &asked, c)
}

// join answers with the volume that has the name, when it is what is asked for.
func (s *State) join(held, asked *Volume, c *fsmpb.CreateVolume) (*fsmpb.Outcome, *Rejection) {
	if rej := s.differs(held, asked, c); rej != nil {
		return nil, rej
	}
	out := &fsmpb.Outcome{VolumeId: string(held.ID)}
	if held.Operation != nil {
		out.OperationId = uint64(held.Operation.ID)
	}
	return out, nil
}

// differs compares with what was asked for when the volume was made: what became of
// it since, as mutable parameters, is no difference.
func (s *State) differs(held, asked *Volume, c *fsmpb.CreateVolume) *Rejection {
	switch limit := c.GetLimitBytes(); {
	case !bytes.Equal(held.Fingerprint, asked.Fingerprint) || held.Source != asked.Source:
		return Reject(Incompatible, "volume %q exists with other parameters or another source", held.Name)
	case !held.replicatedAs(c):
		return Reject(Incompatible, "volume %q exists with other replicas", held.Name)
	case held.limitsAsked() != asked.Limits:
		return Reject(Incompatible, "volume %q exists with other mutable parameters", held.Name)
	case !slices.Equal(held.Capabilities, asked.Capabilities):
		return Reject(Incompatible, "volume %q exists with other capabilities", held.Name)
	case held.Size < c.GetRequiredBytes() || limit != 0 && held.Size > limit:
		return Reject(Incompatible, "volume %q exists with %d bytes, not within %d to %d", held.Name, held.Size, c.GetRequiredBytes(), limit)
	case !s.reachableWithin(held, asked.Requisite):
		return Reject(Incompatible, "volume %q exists and is not accessible from the topology that is required", held.Name)
	}
	return nil
}

// reachableWithin tells whether a replica's host is in one of the terms.
func (s *State) reachableWithin(v *Volume, terms []Topology) bool {
	return slices.ContainsFunc(v.Replicas, func(r Replica) bool {
		n, ok := s.Node(r.Node)
		return ok && n.Host == r.Host && n.within(terms)
	})
}

func (v *Volume) failed() bool {
	_, failed := v.Phase.(Failed)
	return failed
}
