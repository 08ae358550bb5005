package fsm

import (
	"bytes"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyCreateVolume creates a volume of a name, or joins the one that exists (S101). It
// is placed and reserved here; its host creates the device.
func applyCreateVolume(s *State, m Meta, c *fsmpb.CreateVolume) (*fsmpb.Outcome, *Rejection) {
	requested, rej := s.requestedVolume(m.endpoint, c)
	if rej != nil {
		return nil, rej
	}
	existing, exists := s.VolumeByName(requested.Origin, requested.Name)
	if exists && !existing.isFailed() {
		if rej := s.checkMaker(m.Actor, existing); rej != nil {
			return nil, rej
		}
		return s.joinExisting(existing, &requested, c)
	}
	if other, taken := s.Volume(requested.ID); taken {
		return nil, Reject(Incompatible, "create volume %q: id %s belongs to volume %q already", requested.Name, requested.ID, other.Name)
	}
	if rej := s.placeVolume(m, &requested, c); rej != nil {
		return nil, rej
	}
	group, rej := s.groupToJoin(m.endpoint, existing, c)
	if rej != nil {
		return nil, rej
	}
	if exists {
		removal := m.operation(OpDelete)
		removal.ID = existing.Operation.idOrNew(m)
		s.beginDelete(m, existing, removal) // the failed device becomes a pending removal
	}
	requested.Phase, requested.Created = Creating{}, m.Epoch
	requested.Operation, requested.MadeBy = m.operation(OpCreate), s.maker(m.Actor)
	s.putVolume(requested)
	s.joinGroup(group, requested.ID)
	return &fsmpb.Outcome{VolumeId: c.GetVolumeId(), OperationId: m.Index}, nil
}

// maker is the operator who makes a volume; empty: an orchestrator does.
func (s *State) maker(actor string) string {
	if s.level3() && (byAdmin(actor, nil) || hasRole(actor, "operator/")) {
		return actor
	}
	return ""
}

// checkMaker keeps operators and orchestrators from each other's volumes: one that has joined a volume by its name would
// remove what the other keeps in it.
func (s *State) checkMaker(actor string, existing *Volume) *Rejection {
	switch {
	case !s.level3() || (existing.MadeBy != "") == (s.maker(actor) != ""):
		return nil
	case existing.MadeBy != "":
		return Reject(Incompatible, "volume %q exists and is not an orchestrator's: %s made it", existing.Name, existing.MadeBy)
	}
	return Reject(Incompatible, "volume %q exists and no operator made it: an orchestrator may use it", existing.Name)
}

// placeVolume decides where the volume will be: with its source, or where there is room;
// the other replica of a replicated one on another host.
func (s *State) placeVolume(m Meta, requested *Volume, c *fsmpb.CreateVolume) *Rejection {
	w := &placementRequest{requisite: requested.Requisite, preferred: c.GetPreferred(), facts: c.GetFacts(), replicated: c.GetReplicas() > 1, at: m.endpoint}
	if rej := s.checkSourceSite(m.endpoint, requested); rej != nil {
		return rej
	}
	first, rej := s.placeFirstReplica(requested, c, w)
	if rej != nil {
		return rej
	}
	requested.Replicas = []Replica{first}
	if !w.replicated {
		return nil
	}
	return s.addSecondReplica(m, requested, c, w)
}

func (s *State) placeFirstReplica(requested *Volume, c *fsmpb.CreateVolume, w *placementRequest) (Replica, *Rejection) {
	if !requested.Source.IsZero() {
		return s.placeFromSource(requested, c, w)
	}
	w.size = requested.Crypt.deviceBytes(requested.Size)
	return s.placeReplica(w)
}

// requestedVolume reads and checks everything about the volume but where it will be.
func (s *State) requestedVolume(at endpoint, c *fsmpb.CreateVolume) (Volume, *Rejection) {
	v, rej := s.readCreateVolume(at, c)
	s.intern.volume(&v)
	return v, rej
}

// readCreateVolume does what requestedVolume does, and only reads the state.
func (s *State) readCreateVolume(at endpoint, c *fsmpb.CreateVolume) (Volume, *Rejection) {
	v := Volume{
		ID: VolumeID(c.GetVolumeId()), Name: c.GetName(), Fingerprint: c.GetFingerprint(), Limits: LimitsFrom(c.GetLimits()), Claim: ClaimFrom(c.GetClaim()),
		Crypt: encrypted(c), Origin: at.site, Home: at.site,
	}
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
	if c.GetEncryptionDiscards() && !c.GetEncrypted() {
		return v, Reject(Invalid, "create volume %q: it is not encrypted, so nothing keeps discards back", v.Name)
	}
	rej := requestedReplicas(c)
	if rej != nil {
		return v, rej
	}
	if v.Sites, rej = at.requestedSites(c); rej != nil {
		return v, rej
	}
	if v.Source, rej = requestedSource(c.GetSource()); rej != nil {
		return v, rej
	}
	if v.Capabilities, rej = requestedCapabilities(c.GetCapabilities(), s.defaultFSTypeFor(v.Origin, v.Name, v.Source)); rej != nil {
		return v, rej
	}
	if v.Requisite, rej = s.intern.requisite(c.GetRequisite()); rej != nil {
		return v, rej
	}
	v.Format = Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED}
	v.Size, rej = SizeFor(c.GetRequiredBytes(), c.GetLimitBytes(), v.Capabilities)
	return v, rej
}

// joinExisting answers with the volume that has the name, if it is compatible with the
// request.
func (s *State) joinExisting(existing, requested *Volume, c *fsmpb.CreateVolume) (*fsmpb.Outcome, *Rejection) {
	if rej := s.incompatibility(existing, requested, c); rej != nil {
		return nil, rej
	}
	out := &fsmpb.Outcome{VolumeId: string(existing.ID)}
	if existing.Operation != nil {
		out.OperationId = uint64(existing.Operation.ID)
	}
	return out, nil
}

// incompatibility compares with what was requested when the volume was created: later
// changes, as of mutable parameters, make no difference.
func (s *State) incompatibility(existing, requested *Volume, c *fsmpb.CreateVolume) *Rejection {
	switch limit := c.GetLimitBytes(); {
	case !bytes.Equal(existing.Fingerprint, requested.Fingerprint) || existing.Source != requested.Source:
		return Reject(Incompatible, "volume %q exists with other parameters or another source", existing.Name)
	case !slices.Equal(existing.Sites, requested.Sites):
		return Reject(Incompatible, "volume %q exists with replicas at other sites", existing.Name)
	case (existing.Crypt == nil) != (requested.Crypt == nil):
		return Reject(Incompatible, "volume %q exists, and one of the two is encrypted", existing.Name)
	case existing.Crypt.discards() != requested.Crypt.discards():
		return Reject(Incompatible, "volume %q exists, and discards pass through the encryption of one of the two only", existing.Name)
	case !existing.hasReplicasOf(c):
		return Reject(Incompatible, "volume %q exists with other replicas", existing.Name)
	case existing.initialLimits() != requested.Limits:
		return Reject(Incompatible, "volume %q exists with other mutable parameters", existing.Name)
	case !slices.Equal(existing.Capabilities, requested.Capabilities):
		return Reject(Incompatible, "volume %q exists with other capabilities", existing.Name)
	case existing.Size < c.GetRequiredBytes() || limit != 0 && existing.Size > limit:
		return Reject(Incompatible, "volume %q exists with %d bytes, not within %d to %d", existing.Name, existing.Size, c.GetRequiredBytes(), limit)
	case !s.reachableWithin(existing, requested.Requisite):
		return Reject(Incompatible, "volume %q exists and is not accessible from the topology that is required", existing.Name)
	}
	return nil
}

// reachableWithin tells whether a replica's host is in one of the terms.
func (s *State) reachableWithin(v *Volume, terms []Topology) bool {
	return slices.ContainsFunc(v.Replicas, func(r Replica) bool {
		n, ok := s.Node(r.Node)
		return ok && n.Host == r.Host && n.matchesAnyTerm(terms)
	})
}

func (v *Volume) isFailed() bool {
	_, failed := v.Phase.(Failed)
	return failed
}
