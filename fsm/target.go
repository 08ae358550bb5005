package fsm

import (
	"cmp"
	"encoding/hex"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyPublishTarget records a host's intent to bind a staged volume to a path,
// and grants it. Whether a second path is served follows the tables of CSI's
// NodePublishVolume.
func applyPublishTarget(s *State, _ Meta, c *fsmpb.PublishTarget) (*fsmpb.Outcome, *Rejection) {
	v, p, rej := s.granted(c)
	if rej != nil {
		return nil, rej
	}
	asked := Target{
		Path: c.GetTargetPath(), ReadOnly: c.GetReadOnly(),
		Capability: v.asUsed(c.GetCapability()), Fingerprint: hex.EncodeToString(c.GetFingerprint()),
	}
	if rej := v.mayBind(p, &asked); rej != nil {
		return nil, rej
	}
	now := v.withPublication(p.bound(asked))
	now = now.withSequence(p.Host, c.GetSequence())
	s.putVolume(now)
	return granting(v, p, v.Format), nil
}

// mayBind compares with what the node has staged and bound already.
func (v *Volume) mayBind(p *Publication, asked *Target) *Rejection {
	if rej := checkPath("target path", asked.Path); rej != nil {
		return rej
	}
	if len(asked.Fingerprint) > 2*maxFingerprintBytes {
		return Reject(Invalid, "publish volume %s at %s: the fingerprint has more than %d bytes", v.ID, asked.Path, maxFingerprintBytes)
	}
	if p.Staging == nil || !p.Staging.Done {
		return Reject(Precondition, "publish volume %s at %s: it is not staged on node %s", v.ID, asked.Path, p.Node)
	}
	if held := p.target(asked.Path); held != nil {
		if held.Fingerprint != asked.Fingerprint || held.ReadOnly != asked.ReadOnly || held.Capability != asked.Capability {
			return Reject(Incompatible, "volume %s is published at %s with other arguments", v.ID, asked.Path)
		}
		return nil
	}
	if rej := asked.Capability.check(); rej != nil {
		return rej
	}
	staged := p.Staging.Capability
	if asked.Capability.Block != staged.Block || asked.Capability.FSType != staged.FSType || !v.Supports(asked.Capability) {
		return Reject(Precondition, "volume %s is staged for %s, not for %s", v.ID, staged, asked.Capability)
	}
	return v.mayBindSecond(p, asked)
}

// mayBindSecond: only SINGLE_NODE_MULTI_WRITER has several targets on its node.
func (v *Volume) mayBindSecond(p *Publication, asked *Target) *Rejection {
	const many = fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_MULTI_WRITER
	for i := range p.Targets {
		if held := &p.Targets[i]; held.Capability.Mode != many || asked.Capability.Mode != many {
			return Reject(Precondition, "volume %s is published at %s: its access mode allows one target path", v.ID, held.Path)
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

// bound is the publication with the target; one that is there already stays as it is.
func (p *Publication) bound(t Target) Publication {
	now := *p
	if p.target(t.Path) != nil {
		return now
	}
	now.Targets = append(slices.Clone(p.Targets), t)
	slices.SortFunc(now.Targets, func(a, b Target) int { return cmp.Compare(a.Path, b.Path) })
	return now
}
