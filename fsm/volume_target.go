package fsm

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyPublishTarget records a host's intent to bind a staged volume to a path,
// and grants it. Whether a second path is served follows the tables of CSI's
// NodePublishVolume.
func applyPublishTarget(s *State, _ Meta, c *fsmpb.PublishTarget) (*fsmpb.Outcome, *Rejection) {
	v, p, rej := s.grantedPublication(c)
	if rej != nil {
		return nil, rej
	}
	requested := Target{
		Path: c.GetTargetPath(), ReadOnly: c.GetReadOnly(),
		Capability: v.asUsed(c.GetCapability()), Fingerprint: targetFingerprintFrom(c.GetFingerprint()),
	}
	if rej := v.checkTarget(p, &requested); rej != nil {
		return nil, rej
	}
	updated := v.withPublication(p.withTarget(requested))
	updated = updated.withSequence(p.Host, c.GetSequence())
	s.putVolume(updated)
	return grantOutcome(v, p, v.Format, v.Crypt), nil
}

// checkTarget compares with what the node has staged and bound already.
func (v *Volume) checkTarget(p *Publication, requested *Target) *Rejection {
	if rej := checkPath("target path", requested.Path); rej != nil {
		return rej
	}
	if len(requested.Fingerprint) > 2*maxFingerprintBytes {
		return Reject(Invalid, "publish volume %s at %s: the fingerprint has more than %d bytes", v.ID, requested.Path, maxFingerprintBytes)
	}
	if p.Staging == nil || !p.Staging.Done {
		return Reject(Precondition, "publish volume %s at %s: it is not staged on node %s", v.ID, requested.Path, p.Node)
	}
	if existing := p.target(requested.Path); existing != nil {
		if existing.Fingerprint != requested.Fingerprint || existing.ReadOnly != requested.ReadOnly || existing.Capability != requested.Capability {
			return Reject(Incompatible, "volume %s is published at %s with other arguments", v.ID, requested.Path)
		}
		return nil
	}
	if rej := requested.Capability.check(); rej != nil {
		return rej
	}
	staged := p.Staging.Capability
	if requested.Capability.Block != staged.Block || requested.Capability.FSType != staged.FSType || !v.Supports(requested.Capability) {
		return Reject(Precondition, "volume %s is staged for %s, not for %s", v.ID, staged, requested.Capability)
	}
	return v.checkSecondTarget(p, requested)
}

// checkSecondTarget: only SINGLE_NODE_MULTI_WRITER has several targets on its node.
func (v *Volume) checkSecondTarget(p *Publication, requested *Target) *Rejection {
	const many = fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_MULTI_WRITER
	for i := range p.Targets {
		if existing := &p.Targets[i]; existing.Capability.Mode != many || requested.Capability.Mode != many {
			return Reject(Precondition, "volume %s is published at %s: its access mode allows one target path", v.ID, existing.Path)
		}
	}
	return nil
}

// target is the one at the path, nil when there is none.
func (p *Publication) target(path string) *Target {
	for i := range p.Targets {
		if p.Targets[i].Path == path {
			return &p.Targets[i]
		}
	}
	return nil
}

// withTarget is the publication with the target; one that is there already stays as it is.
func (p *Publication) withTarget(t Target) Publication {
	updated := *p
	if p.target(t.Path) != nil {
		return updated
	}
	updated.Targets = append(slices.Clone(p.Targets), t)
	slices.SortFunc(updated.Targets, func(a, b Target) int { return cmp.Compare(a.Path, b.Path) })
	return updated
}
