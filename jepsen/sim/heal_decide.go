package sim

import (
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

// decide makes the decision that the answer asks an operator for, and no other.
func (g *healing) decide() {
	s := g.claim.s
	v, exists := g.claim.volume()
	if g.stage != stagePublish && g.stage != stageRole || !exists {
		return
	}
	for _, h := range s.hosts {
		if strings.Contains(g.lastErr, "holdfast volumes force-primary "+string(v.ID)+" "+h.name+"`") {
			s.counts["decisions while healing"]++
			s.clients.begin(s.clients.forcePrimary(v, h))
		}
	}
}

// giveUp: what an operator gave up may have been all that a volume held, its filesystem too.
func (g *healing) giveUp() {
	v, exists := g.claim.volume()
	if exists && g.stage == stageStage && g.claim.s.log.forced[v.ID] && strings.Contains(g.lastErr, " that was made for it") {
		g.claim.s.counts["volumes given up"]++
		g.stage = stageUnstage
	}
	if exists && g.stage == stageStage && strings.Contains(g.lastErr, "the LUKS header") && strings.Contains(g.lastErr, " is missing on this host") {
		g.restoreHeader(v)
	}
}

// unfence begins to end a fence, one at a time; false when there is none.
func (h *healer) unfence() bool {
	for f := range h.s.log.state.Fences() {
		if h.unfencing {
			break
		}
		call := unfence(f.CIDR)
		h.unfencing, call.done = true, func(error) { h.unfencing = false }
		h.s.clients.begin(call)
		return true
	}
	return false
}

func (g *healing) deleteVolume(exists bool) *csiCall {
	if !exists {
		g.stage++
		return nil
	}
	if g.inGroup() {
		return g.leaveGroup()
	}
	return g.claim.delete()
}

// restoreHeader: a header that was lost comes back from its host's copy. One that was copied while it was lost has none.
func (g *healing) restoreHeader(v *fsm.Volume) {
	s := g.claim.s
	switch {
	case g.claim.source != nil && s.checks.keys.losses > 0:
		s.counts["volumes given up"]++
		g.stage = stageUnstage
	case s.checks.keys.lost[v.ID]:
		s.clients.begin(restoreHeader(v, s.nodeOf(g.use.host)))
	}
}
