package sim

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// copies judges snapshots and clones by the stamps in them: each is of one instant, the members of
// a group are of the same, and a snapshot has what was acknowledged before it was asked for (S19).
type copies struct {
	s       *Sim
	before  map[fsm.SnapshotID][]backendtest.Stamp // acknowledged before it was asked for
	checked map[string]bool
}

func newCopies(s *Sim) *copies {
	return &copies{s: s, before: map[fsm.SnapshotID][]backendtest.Stamp{}, checked: map[string]bool{}}
}

// committed is called after each entry of the log.
func (c *copies) committed() {
	state := c.s.log.state
	for n := range state.Snapshots("") {
		c.snapshot(n)
	}
	for g := range state.GroupSnapshots("") {
		c.group(g)
	}
	for v := range state.Volumes("") {
		c.clone(v)
	}
}

// first reports whether something is to be checked now, which is once.
func (c *copies) first(id string) bool {
	before := c.checked[id]
	c.checked[id] = true
	return !before
}

func (c *copies) snapshot(n *fsm.Snapshot) {
	if _, known := c.before[n.ID]; !known {
		c.before[n.ID] = c.s.world.Ledger().Acknowledged(n.Source)
	}
	if n.KeptCopy != nil || n.Phase != fsm.SnapshotReady || n.Missing || !c.first(string(n.ID)) {
		return
	}
	found, exists := c.stampsIn(n)
	if !exists || c.mayLose(n.Source) {
		return
	}
	c.s.counts["checked snapshots"]++
	c.instant("snapshot "+shortID(string(n.ID)), map[fsm.VolumeID][]backendtest.Stamp{n.Source: found})
	there := map[uint64]bool{}
	for _, s := range found {
		there[s.Sequence] = true
	}
	for _, s := range c.before[n.ID] {
		if !there[s.Sequence] {
			c.s.fail("snapshot: %s has not %s, which was acknowledged before", shortID(string(n.ID)), s)
		}
	}
}

// stampsIn reads a snapshot where it is kept.
func (c *copies) stampsIn(n *fsm.Snapshot) ([]backendtest.Stamp, bool) {
	h := c.s.world.Host(n.Node)
	if h == nil {
		return nil, false
	}
	return h.SnapshotStamps(n.ID)
}

func (c *copies) group(g *fsm.GroupSnapshot) {
	if g.Phase != fsm.GroupReady || !c.first(string(g.ID)) {
		return
	}
	all := map[fsm.VolumeID][]backendtest.Stamp{}
	for _, id := range g.Members {
		n, ok := c.s.log.state.Snapshot(id)
		if !ok || c.mayLose(n.Source) {
			return
		}
		if all[n.Source], ok = c.stampsIn(n); !ok {
			return
		}
	}
	c.s.counts["checked group snapshots"]++
	c.instant("group snapshot "+shortID(string(g.ID)), all)
}

// clone checks a volume that was made from another one, or from a snapshot of it, before anybody
// can have written to it.
func (c *copies) clone(v *fsm.Volume) {
	if _, ready := v.Phase.(fsm.Ready); !ready || v.Source == (fsm.Source{}) || !c.first(string(v.ID)) {
		return
	}
	for _, h := range c.s.world.Hosts() {
		sources := map[fsm.VolumeID][]backendtest.Stamp{}
		for _, s := range h.DiskStamps(v.ID) {
			sources[s.Volume] = append(sources[s.Volume], s)
		}
		for source, found := range sources {
			if !c.mayLose(source) {
				c.s.counts["checked clones"]++
				c.instant(fmt.Sprintf("clone %s on %s", shortID(string(v.ID)), h.Node()), map[fsm.VolumeID][]backendtest.Stamp{source: found})
			}
		}
	}
}

func (c *copies) instant(what string, found map[fsm.VolumeID][]backendtest.Stamp) {
	if err := c.s.world.Ledger().CheckInstant(found); err != nil {
		c.s.fail("instant: %s: %v", what, err)
	}
}

// mayLose reports whether an operator gave up acknowledged writes of a volume.
func (c *copies) mayLose(id fsm.VolumeID) bool {
	return c.s.log.forced[id] || c.s.world.Ledger().Tolerated(id).Loss
}
