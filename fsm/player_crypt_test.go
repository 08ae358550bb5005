package fsm

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// rotate has read two slots at most, in whatever state they are.
func (p *player) rotate() *fsmpb.BeginKeyRotation {
	v, pub, n := p.held()
	c := &fsmpb.BeginKeyRotation{
		VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Epoch: pub.Epoch.Proto(), Sequence: p.sequence(&v),
		Renew: p.roll(3) == 0,
	}
	for slot := range uint32(2) {
		if p.roll(3) > 0 {
			c.Slots = append(c.Slots, slot)
			if p.roll(2) == 0 {
				c.Opened = append(c.Opened, slot)
			}
		}
	}
	return c
}

// luksUUID is for the header of an encrypted volume.
func (p *player) luksUUID(v *Volume) string {
	if v.Crypt == nil {
		return ""
	}
	return fmt.Sprintf("luks-%d", p.roll(3))
}
