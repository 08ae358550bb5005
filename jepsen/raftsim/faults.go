package raftsim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
)

// injectors inject one fault each for as long as their step says, and heal it. They tell whether it took place.
var injectors = map[catalog.Fault]func(*world, Step) bool{
	catalog.Kill:             func(w *world, s Step) bool { return w.down(s, w.some(s, 1), (*member).kill) },
	catalog.KillAll:          func(w *world, s Step) bool { return w.down(s, w.members, (*member).kill) },
	catalog.PowerLoss:        func(w *world, s Step) bool { return w.down(s, w.some(s, 1), func(m *member) { m.losePower(0) }) },
	catalog.LostUnsynced:     func(w *world, s Step) bool { return w.down(s, w.members, func(m *member) { m.losePower(0) }) },
	catalog.Pause:            (*world).pause,
	catalog.MembershipChange: (*world).replaceMember,
	catalog.LeaderChange:     (*world).transfer,
	catalog.SnapshotStorm:    (*world).snapshotStorm,
	catalog.SnapshotFrozen:   (*world).freezeSnapshot,
	catalog.PartitionOne:     func(w *world, s Step) bool { return w.partition(s, alone(w.some(s, 1)[0])) },
	catalog.PartitionLeader:  func(w *world, s Step) bool { return w.partition(s, alone(w.leading(s))) },
	catalog.PartitionHalves:  func(w *world, s Step) bool { return w.partition(s, halves(w.shuffled(s))) },
	catalog.PartitionBridge:  func(w *world, s Step) bool { return w.partition(s, bridge(w.shuffled(s))) },
	catalog.PartitionRing:    func(w *world, s Step) bool { return w.partition(s, ring(w.shuffled(s))) },
	catalog.PartitionOneWay:  func(w *world, s Step) bool { return w.partition(s, oneWay(w.some(s, 1)[0])) },
	catalog.NetworkDrop:      (*world).drop,
	catalog.NetworkReset:     (*world).reset,
	catalog.NetworkFlapping:  (*world).flap,
	catalog.NetworkDelay:     func(w *world, s Step) bool { return w.tune(s, func(n *network) { n.delay = 300 * time.Millisecond }) },
	catalog.NetworkDuplicate: (*world).duplicate,
	catalog.NetworkSlow:      (*world).slowLinks,
	catalog.WriteError:       func(w *world, s Step) bool { return w.failDisk(s, catalog.WriteError, 0) },
	catalog.TornBatch:        func(w *world, s Step) bool { return w.failDisk(s, catalog.TornBatch, 0.5) },
	catalog.FsyncError:       (*world).failSync,
	catalog.DiskHung:         func(w *world, s Step) bool { return w.disk(s, func(d *diskFaults) { d.hangs = true }) },
	catalog.DiskSlow:         func(w *world, s Step) bool { return w.disk(s, func(d *diskFaults) { d.slow = 100 * time.Millisecond }) },
	catalog.DiskFull:         func(w *world, s Step) bool { return w.disk(s, func(d *diskFaults) { d.full = true }) },
	catalog.CorruptSnapshot:  (*world).corruptSnapshot,
}

// Faults are the faults that this layer injects.
func Faults() []catalog.Fault { return slices.Sorted(maps.Keys(injectors)) }

func (w *world) shuffled(s Step) []*member {
	all := slices.Clone(w.members)
	s.draw.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (w *world) some(s Step, n int) []*member { return w.shuffled(s)[:n] }

// leading is the member that leads, or any.
func (w *world) leading(s Step) *member {
	if p := w.leader(); p != nil {
		return p.member
	}
	return w.some(s, 1)[0]
}

// other is a member that does not lead.
func (w *world) other(s Step) *member {
	leader := w.leading(s)
	all := w.shuffled(s)
	return all[slices.IndexFunc(all, func(m *member) bool { return m != leader })]
}

// revive starts every member that does not run.
func (w *world) revive() {
	for _, m := range w.members {
		if m.running() == nil {
			w.note(m.name, "starts")
			w.fail(m.start())
		}
	}
}

func (w *world) down(s Step, members []*member, end func(*member)) bool {
	for _, m := range members {
		end(m)
	}
	time.Sleep(s.For)
	w.revive()
	return true
}

func (w *world) pause(s Step) bool {
	m := w.leading(s)
	w.network.change(func() { w.network.frozen[m.addr] = true })
	time.Sleep(s.For)
	w.network.change(func() { delete(w.network.frozen, m.addr) })
	return true
}

// replaceMember takes a member's disk away, removes it, and has it join again under a new id.
func (w *world) replaceMember(s Step) bool {
	m := w.some(s, 1)[0]
	p := m.running()
	if p == nil {
		return false
	}
	return w.replace(m, p.id) == nil
}

func (w *world) replace(m *member, id string) error {
	m.wipe()
	w.note(m.name, "loses its disk; %s is to be removed", id)
	err := w.until(2*time.Minute, "the member "+id+" cannot be removed", func() error {
		up := w.up()
		if len(up) == 0 {
			return errors.New("nobody runs")
		}
		ctx, cancel := within(10 * time.Second)
		defer cancel()
		return up[0].RemovePeer(ctx, id)
	})
	w.fail(err)
	w.fail(m.start())
	return err
}

func (w *world) transfer(s Step) bool {
	p := w.leader()
	if p == nil {
		return false
	}
	ctx, cancel := within(5 * time.Second)
	defer cancel()
	return p.TransferLeadership(ctx) == nil
}
