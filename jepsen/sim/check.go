package sim

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// checks is what must hold.
type checks struct {
	s          *Sim
	copies     *copies
	hosts      *hosts
	volumes    *volumes
	keys       *keyChecks
	sites      *siteChecks
	violations int
	epochs     map[string]fsm.Epoch // of the last publication of a volume on a node
}

// always is checked whenever nothing runs.
func (c *checks) always() {
	for _, text := range c.s.world.Violations() {
		c.s.fail("world: %s", text)
		return
	}
	c.keys.always()
}

// committed is checked after each entry of the log.
func (c *checks) committed(cmd *fsmpb.Command, outcome *fsmpb.Outcome) {
	state := c.s.log.state
	c.s.noteForced(cmd, outcome)
	if silent := cmd.GetSetNodeReachable(); silent != nil && !silent.GetReachable() {
		c.s.counts["silent host"]++
	}
	if err := state.Check(); err != nil {
		c.s.fail("state: after %s: %v", commandName(cmd), err)
	}
	type name struct {
		site fsm.Site
		name string
	}
	names := map[name]fsm.VolumeID{}
	for v := range state.Volumes("") {
		if _, deleting := v.Phase.(fsm.Deleting); !deleting {
			at := name{v.Origin, v.Name}
			if other, twice := names[at]; twice {
				c.s.fail("names: %s and %s both are %s", other, v.ID, v.Name)
			}
			names[at] = v.ID
		}
		c.publications(v)
		c.volumes.committed(v)
	}
	if cmd.GetExpandVolume() != nil {
		c.volumes.pools()
	}
	c.copies.committed()
}

// publications: one node has the volume at a time, and the rights to it are given in order (S3).
func (c *checks) publications(v *fsm.Volume) {
	if len(v.Publications()) > 1 {
		c.s.fail("publish: %s is published to %d nodes", v.Name, len(v.Publications()))
	}
	for _, p := range v.Publications() {
		if c.epochs == nil {
			c.epochs = map[string]fsm.Epoch{}
		}
		key := string(v.ID)
		if last, ok := c.epochs[key]; ok && p.Epoch.Compare(last) < 0 {
			c.s.fail("epoch: %s is published under %s after %s", v.Name, p.Epoch, last)
		}
		c.epochs[key] = p.Epoch
	}
}

// answered is checked of each answer to a caller.
func (c *checks) answered(call *csiCall, err error) {
	if code := status.Code(err); code == codes.DataLoss {
		c.s.fail("answer: %s was answered %v", call.name, err)
	}
	c.sites.answered(call, err)
}
