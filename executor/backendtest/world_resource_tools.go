package backendtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// resourceTools do single steps of DRBD on a process's host.
type resourceTools struct{ process *Process }

// step does a step of a resource that the kernel has.
func (t *resourceTools) step(ctx context.Context, name string, id fsm.VolumeID, act func(r *resource, b *bond, side int) error) error {
	return t.anyStep(ctx, name, id, func(r *resource, b *bond, side int) error {
		if !b.pair.Observe(side).InKernel {
			return fmt.Errorf("%s %s: the resource is not in the kernel", name, id)
		}
		return act(r, b, side)
	})
}

// anyStep does a step of a resource that the kernel may have.
func (t *resourceTools) anyStep(ctx context.Context, name string, id fsm.VolumeID, act func(r *resource, b *bond, side int) error) error {
	h := t.process.host
	return t.process.do(ctx, effect{part: "drbd", name: name, volume: id}, func() error {
		r := h.world.resource(id)
		b, side := r.bondOf(h.node)
		return act(r, b, side)
	})
}

// modelStep is a step that is one of the model's.
func (t *resourceTools) modelStep(ctx context.Context, name string, id fsm.VolumeID, step func(p *drbdmodel.Pair, side int)) error {
	return t.step(ctx, name, id, func(r *resource, b *bond, side int) error {
		r.change(b, func(p *drbdmodel.Pair) { step(p, side) })
		return nil
	})
}

func (t *resourceTools) Configure(ctx context.Context, c executor.ResourceConfig) error {
	return t.process.do(ctx, effect{part: "drbd", name: "configure", volume: c.Volume}, func() error {
		t.process.host.configs[c.Volume] = c
		return nil
	})
}

// Adjust ends a connection to another peer than the file's.
func (t *resourceTools) Adjust(ctx context.Context, id fsm.VolumeID) error {
	h := t.process.host
	return t.step(ctx, "adjust", id, func(r *resource, b *bond, side int) error {
		c, other := h.configs[id], r.seats[h.node].peer
		r.change(b, func(p *drbdmodel.Pair) {
			p.SetAsynchronous(c.Protocol == fsmpb.Protocol_PROTOCOL_A)
			if other != c.PeerNode && !p.Observe(side).StandAlone {
				p.Disconnect(side)
			}
		})
		return nil
	})
}

func (t *resourceTools) RemoveConfig(ctx context.Context, id fsm.VolumeID) error {
	return t.anyStep(ctx, "remove-config", id, func(_ *resource, b *bond, side int) error {
		if b.pair.Observe(side).InKernel {
			return fsm.Reject(fsm.Busy, "the kernel has %s", id)
		}
		delete(t.process.host.configs, id)
		return nil
	})
}

// onDisk does a step on the metadata of a disk that can be read and written.
func (t *resourceTools) onDisk(ctx context.Context, name string, id fsm.VolumeID, act func(r *resource, b *bond, side int) error) error {
	return t.anyStep(ctx, name, id, func(r *resource, b *bond, side int) error {
		if err := t.process.host.checkDisk(id); err != nil {
			return fmt.Errorf("%s %s: %w", name, id, err)
		}
		return act(r, b, side)
	})
}

// checkDisk is why the disk below a replica cannot be used. The lock is held.
func (h *Host) checkDisk(id fsm.VolumeID) error {
	d := h.devices[id]
	switch {
	case d == nil || d.pool.images[id] == nil:
		return errors.New("its backing device is not there")
	case d.pool.hanging:
		return errHangs
	case d.pool.absent || d.pool.writeErrors || d.pool.readErrors:
		return errIO
	}
	return nil
}

func (t *resourceTools) CreateMetadata(ctx context.Context, id fsm.VolumeID) error {
	return t.onDisk(ctx, "create-metadata", id, func(r *resource, b *bond, side int) error {
		r.change(b, func(p *drbdmodel.Pair) { p.CreateMetadata(side) })
		return nil
	})
}

func (t *resourceTools) RemakeMetadata(ctx context.Context, id fsm.VolumeID) error {
	return t.onDisk(ctx, "remake-metadata", id, func(r *resource, b *bond, side int) error {
		if s := b.pair.Observe(side); !s.Metadata.Exist || s.Disk > diskless {
			return errors.New("make the metadata anew: there are none, or the disk is attached")
		}
		r.change(b, func(p *drbdmodel.Pair) { p.RemakeMetadata(side) })
		return nil
	})
}

func (t *resourceTools) WipeMetadata(ctx context.Context, id fsm.VolumeID) error {
	return t.onDisk(ctx, "wipe-metadata", id, func(r *resource, b *bond, side int) error {
		if !b.pair.Observe(side).InKernel {
			r.change(b, func(p *drbdmodel.Pair) { p.WipeMetadata(side) })
		}
		return nil
	})
}

func (t *resourceTools) Attach(ctx context.Context, id fsm.VolumeID) error {
	return t.onDisk(ctx, "attach", id, func(r *resource, b *bond, side int) error {
		c, known := t.process.host.configs[id]
		if s := b.pair.Observe(side); !s.Metadata.Exist || !known {
			return errors.New("attach: no metadata or no file")
		}
		if d, err := t.process.host.find(c.BackingPath); err != nil || d.volume != id {
			return fmt.Errorf("attach: %s is not the disk of %s", c.BackingPath, id)
		}
		if err := t.process.host.takeMinor(r, c.Minor); err != nil {
			return err
		}
		r.change(b, func(p *drbdmodel.Pair) {
			p.SetAsynchronous(c.Protocol == fsmpb.Protocol_PROTOCOL_A)
			p.Attach(side)
		})
		if b.pair.Observe(side).Disk <= diskless {
			return errors.New("attach: it can only attach to data with the current UUID")
		}
		if r.size == 0 {
			r.size = max(0, t.process.host.image(id).size-fakeMetadata)
		}
		return nil
	})
}

// takeMinor gives a resource's device its number, unless another one has it. The lock is held.
func (h *Host) takeMinor(r *resource, minor uint32) error {
	for _, id := range sortedKeys(h.world.resources) {
		if other := h.world.resources[id]; other != r && other.inKernel(h.node) && other.seats[h.node].minor == minor {
			return fmt.Errorf("attach: %s has the minor %d already", id, minor)
		}
	}
	r.seats[h.node].minor = minor
	return nil
}

func (t *resourceTools) Detach(ctx context.Context, id fsm.VolumeID, force bool) error {
	return t.step(ctx, "detach", id, func(r *resource, b *bond, side int) error {
		if p := t.process.host.poolOf(id); p != nil && p.hanging && !force {
			return errHangs
		}
		r.change(b, func(p *drbdmodel.Pair) { p.BeginDetach(side) })
		return nil
	})
}

func (t *resourceTools) Connect(ctx context.Context, id fsm.VolumeID, discard bool) error {
	h := t.process.host
	return t.step(ctx, "connect", id, func(r *resource, b *bond, side int) error {
		switch s := b.pair.Observe(side); {
		case !s.StandAlone:
			return nil
		case discard && s.Primary:
			return fsm.Reject(fsm.Precondition, "a primary discards nothing")
		}
		r.seats[h.node].peer = h.configs[id].PeerNode
		r.join(h.node, h.configs[id].PeerNode)
		b, side = r.bondOf(h.node)
		r.change(b, func(p *drbdmodel.Pair) { p.Connect(side, discard) })
		return nil
	})
}

func (t *resourceTools) Disconnect(ctx context.Context, id fsm.VolumeID) error {
	return t.modelStep(ctx, "disconnect", id, func(p *drbdmodel.Pair, side int) { p.Disconnect(side) })
}

func (t *resourceTools) NewUUID(ctx context.Context, id fsm.VolumeID) error {
	return t.step(ctx, "new-uuid", id, func(r *resource, b *bond, side int) error {
		made := false
		r.change(b, func(p *drbdmodel.Pair) { made = p.NewGeneration() })
		if !made {
			return errors.New("new-current-uuid: the replicas are not connected and new")
		}
		r.adoptContent(b, side)
		return nil
	})
}

// adoptContent names what the disks hold before their first generation. They are not compared by
// DRBD, and so must be equal, or only the seed's holds something: then it is made from a source, and
// its peer is to be copied from it. The lock is held.
func (r *resource) adoptContent(b *bond, seed int) {
	first, second := r.world.host(b.hosts[seed]).image(r.id), r.world.host(b.hosts[1-seed]).image(r.id)
	if first == nil || second == nil || len(first.content)+len(second.content) == 0 {
		return
	}
	have := []int{seed, 1 - seed}
	switch {
	case sameContent(first.content, second.content):
	case sameContent(blocks{}, second.content):
		have = have[:1]
	default:
		r.world.violate("%s: its first generation is made above two disks that differ", r.id)
	}
	r.change(b, func(p *drbdmodel.Pair) {
		if n, adopted := p.AdoptContent(have...); adopted {
			write := blocks{}
			for _, number := range inOrder(first.content) {
				write[number] = first.content[number]
			}
			r.name(n, write)
		}
	})
}

// sameContent reports whether two contents read the same.
func sameContent(a, b blocks) bool {
	for number := range a {
		if !equal(a[number], b[number]) {
			return false
		}
	}
	for number := range b {
		if !equal(a[number], b[number]) {
			return false
		}
	}
	return true
}

func (t *resourceTools) SetSecondary(ctx context.Context, id fsm.VolumeID) error {
	h := t.process.host
	return t.anyStep(ctx, "set-secondary", id, func(r *resource, b *bond, side int) error {
		switch s := b.pair.Observe(side); {
		case !s.InKernel || !s.Primary:
			return nil
		case s.Suspended:
			return fsm.Reject(fsm.Busy, "the I/O of %s is suspended", id)
		case h.isOpen(r.seats[h.node].deviceNumber()):
			return fsm.Reject(fsm.Busy, "the device of %s is open", id)
		}
		r.change(b, func(p *drbdmodel.Pair) { p.Demote(side) })
		return nil
	})
}

func (t *resourceTools) SuspendIO(ctx context.Context, id fsm.VolumeID) error {
	return t.modelStep(ctx, "suspend-io", id, func(p *drbdmodel.Pair, side int) { p.Freeze(side) })
}

func (t *resourceTools) ResumeIO(ctx context.Context, id fsm.VolumeID) error {
	return t.modelStep(ctx, "resume-io", id, func(p *drbdmodel.Pair, side int) {
		if p.Observe(side).Suspended {
			p.Resume(side, false)
		}
	})
}

func (t *resourceTools) Invalidate(ctx context.Context, id fsm.VolumeID) error {
	return t.modelStep(ctx, "invalidate", id, func(p *drbdmodel.Pair, side int) { p.Invalidate(side) })
}

func (t *resourceTools) Resize(ctx context.Context, id fsm.VolumeID, size int64, alone bool) error {
	return t.step(ctx, "resize", id, func(r *resource, b *bond, side int) error {
		if s := b.pair.Observe(side); !s.Primary || s.Connected() == alone {
			return fmt.Errorf("resize: primary %t, connected %t, alone %t", s.Primary, s.Connected(), alone)
		}
		hosts := b.hosts[:]
		if alone {
			hosts = hosts[side : side+1]
		}
		able := r.roomOn(id, hosts)
		if able < size {
			return fmt.Errorf("resize: the backing devices have room for %d bytes, not %d", able, size)
		}
		if alone {
			able = size
		}
		r.size = max(r.size, able)
		return nil
	})
}

// roomOn is how many bytes of volume the backing devices on these hosts have room for.
func (r *resource) roomOn(id fsm.VolumeID, hosts []fsm.NodeID) int64 {
	able := int64(-1)
	for _, node := range hosts {
		if img := r.world.host(node).image(id); img != nil && (able < 0 || img.size-fakeMetadata < able) {
			able = img.size - fakeMetadata
		}
	}
	return able
}

func (t *resourceTools) Verify(ctx context.Context, id fsm.VolumeID) error {
	return t.modelStep(ctx, "verify", id, func(p *drbdmodel.Pair, _ int) { p.Verify() })
}

func (t *resourceTools) Down(ctx context.Context, id fsm.VolumeID) error {
	h := t.process.host
	return t.anyStep(ctx, "down", id, func(r *resource, b *bond, side int) error {
		switch s := b.pair.Observe(side); {
		case !s.InKernel:
			return nil
		case s.Primary || s.Suspended:
			return fsm.Reject(fsm.Busy, "%s is primary", id)
		}
		r.seats[h.node].downs++
		r.change(b, func(p *drbdmodel.Pair) { p.Down(side) })
		return nil
	})
}
