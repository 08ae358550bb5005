package sim

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// keyChecks judges the headers of encrypted volumes by what the orchestrator was told: one of its keys always opens the
// header that was made (S64), the one before does not once it was replaced (S65), and a header is made once (S62).
type keyChecks struct {
	s       *Sim
	masters map[fsm.VolumeID]string
	lost    map[fsm.VolumeID]bool // an operator lost the header
	losses  int
}

func newKeyChecks(s *Sim) *keyChecks {
	return &keyChecks{s: s, masters: map[fsm.VolumeID]string{}, lost: map[fsm.VolumeID]bool{}}
}

// always is called whenever nothing runs.
func (k *keyChecks) always() {
	for _, c := range k.s.clients.claims {
		if v := k.judged(c); v != nil && !k.hasHeader(c, v) && !k.lost[v.ID] {
			k.s.fail("keys: no key of %s opens the header of %s", c.name, v.ID)
		}
	}
}

// judged is the claim's volume, nil where nothing is known of its header. Of one that an operator forced, or that is a
// copy, the keys are those of an earlier time.
func (k *keyChecks) judged(c *claim) *fsm.Volume {
	if c.keys == nil || c.id == "" || c.source != nil && c.keys.learned != c.id {
		return nil
	}
	v, ok := k.s.log.state.Volume(fsm.VolumeID(c.id))
	if !ok || v.Crypt == nil || v.Crypt.Phase != fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED || k.s.log.forced[v.ID] {
		return nil
	}
	if _, ready := v.Phase.(fsm.Ready); !ready {
		return nil
	}
	return v
}

// hasHeader tells whether the header that was made first is on a replica that counts, and is opened. Where the log calls
// none up to date, which it does when hosts came back, nothing is known.
func (k *keyChecks) hasHeader(c *claim, v *fsm.Volume) bool {
	replicas := counted(v)
	for _, r := range replicas {
		h, found := k.s.world.Host(r.Node).DiskHeader(v.ID)
		if !found || !c.keys.opens(h) {
			continue
		}
		if k.masters[v.ID] == "" {
			k.masters[v.ID] = h.Master
		}
		if k.masters[v.ID] == h.Master {
			k.s.counts["checked headers"]++
			delete(k.lost, v.ID)
			return true
		}
	}
	return len(replicas) == 0
}

// counted are the replicas that the log calls up to date; of a volume with one replica, that.
func counted(v *fsm.Volume) []*fsm.Replica {
	if !v.Replicated() {
		return []*fsm.Replica{&v.Replicas[0]}
	}
	return slices.DeleteFunc(v.ActiveReplicas(), func(r *fsm.Replica) bool { return !r.UpToDate || r.Outdated })
}

// replaced: a rotation was answered, and nothing but the new key opens what is open.
func (k *keyChecks) replaced(u *use, key string) {
	h, found := u.host.world.OpenHeader(fsm.VolumeID(u.claim.id))
	if !found || k.s.log.forced[fsm.VolumeID(u.claim.id)] {
		return
	}
	k.s.counts["checked rotations"]++
	for slot, other := range h.Keys {
		if other != key {
			k.s.fail("keys: slot %d of %s on %s has %s, which was replaced by %s", slot, u.claim.name, u.host.name, other, key)
		}
	}
	if len(h.Keys) == 0 {
		k.s.fail("keys: the header of %s on %s has no key", u.claim.name, u.host.name)
	}
}
