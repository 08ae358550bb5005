package sim

import (
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// patience is how long after everything was mended an operator waits before a decision that no
// answer asks for.
const patience = 40 * time.Second

// decide makes the decision that the answer asks an operator for, and no other; but for one that no
// answer asks for yet (jepsen/TRACK.md): where no replica is good, the one that is not outdated is forced.
func (g *healing) decide() {
	s := g.claim.s
	v, exists := s.log.state.VolumeByName(g.claim.name)
	if !exists {
		return
	}
	best := s.bestOfNoGoodReplica(v, g.use)
	switch {
	case g.stage == stagePublish && strings.Contains(g.lastErr, "holdfast volumes force-primary "+string(v.ID)+" "+g.use.host.name+"`"):
		s.counts["decisions while healing"]++
		s.clients.begin(s.clients.forcePrimary(v, g.use.host))
	case g.stage == stagePublish && best != nil:
		s.counts["decisions that no answer asked for"]++
		s.clients.begin(s.clients.forcePrimary(v, best))
	case g.stage == stageDown && best != nil && strings.Contains(g.lastErr, "is suspended"):
		s.counts["hosts rebooted as their I/O stayed suspended"]++
		g.suspended().fence = true
	}
}

// bestOfNoGoodReplica is the host of the replica to go on with where each is outdated, or has a disk that
// failed and that nobody attaches; nil where one is good, or may only need some time. Of two that are
// alike it is the one in use.
func (s *Sim) bestOfNoGoodReplica(v *fsm.Volume, u *use) (best *host) {
	if time.Since(s.mended) < patience {
		return nil
	}
	outdated := true
	for _, h := range s.hosts {
		n := s.nodeOf(h)
		if n == nil || v.ActiveReplica(n.Host) == nil {
			continue
		}
		r := v.ActiveReplica(n.Host).ReplicaSync
		switch {
		case r == nil || !r.Outdated && r.DiskFailed == 0 && r.Observed.Disk > fsmpb.DiskState_DISK_STATE_FAILED:
			return nil
		case best == nil || outdated && !r.Outdated || outdated == r.Outdated && u != nil && u.host == h:
			best, outdated = h, r.Outdated
		}
	}
	return best
}

// suspended is the host that is just being taken down.
func (g *healing) suspended() *host { return g.claim.s.hosts[g.host/3] }

// giveUp: what an operator gave up may have been all that a volume held, its filesystem too.
func (g *healing) giveUp() {
	v, exists := g.claim.s.log.state.VolumeByName(g.claim.name)
	if exists && g.stage == stageStage && g.claim.s.log.forced[v.ID] && strings.Contains(g.lastErr, " that was made for it") {
		g.claim.s.counts["volumes given up"]++
		g.stage = stageUnstage
	}
}
