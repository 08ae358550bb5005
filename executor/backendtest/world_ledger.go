package backendtest

import (
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Ledger is what was acknowledged to the users of all volumes.
type Ledger struct {
	world   *World
	volumes map[fsm.VolumeID]*volumeLedger
}

// volumeLedger is what is known of one volume's users.
type volumeLedger struct {
	written      int64 // counts its stamps
	acknowledged []acknowledgement
	tolerance    Tolerance
}

// acknowledgement is a stamp and the last stamp of the world that was written before it was
// acknowledged.
type acknowledgement struct {
	Stamp
	before uint64
}

// Tolerance is what may happen to a volume without being a violation.
type Tolerance struct {
	Loss   bool // of acknowledged stamps: an operator decided so, or it is replicated asynchronously
	Shared bool // several hosts write to it
}

func (l *Ledger) of(id fsm.VolumeID) *volumeLedger {
	if l.volumes[id] == nil {
		l.volumes[id] = &volumeLedger{}
	}
	return l.volumes[id]
}

// Tolerate sets what may happen to a volume from now on.
func (l *Ledger) Tolerate(id fsm.VolumeID, t Tolerance) {
	l.world.change(func() { l.of(id).tolerance = t })
}

// Tolerated is what may happen to a volume.
func (l *Ledger) Tolerated(id fsm.VolumeID) Tolerance {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	return l.of(id).tolerance
}

// Forget forgets what was acknowledged of a volume: an operator decided to go on without it.
func (l *Ledger) Forget(id fsm.VolumeID) {
	l.world.change(func() { l.of(id).acknowledged = nil })
}

// Acknowledged lists the stamps of a volume whose writer was told that they are durable, in the
// order in which it was told.
func (l *Ledger) Acknowledged(id fsm.VolumeID) []Stamp {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	var stamps []Stamp
	for _, a := range l.of(id).acknowledged {
		stamps = append(stamps, a.Stamp)
	}
	return stamps
}

// CheckKept is an error when an acknowledged stamp of a volume is not among those that were found.
func (l *Ledger) CheckKept(id fsm.VolumeID, found []Stamp) error {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	return l.checkKept(id, found)
}

func (l *Ledger) checkKept(id fsm.VolumeID, found []Stamp) error {
	if l.of(id).tolerance.Loss {
		return nil
	}
	there := sequences(found)
	for _, s := range l.of(id).acknowledged {
		if !there[s.Sequence] {
			return fmt.Errorf("%s was acknowledged and is lost", s.Stamp)
		}
	}
	return nil
}

// CheckInstant is an error when what was found of each volume cannot be of one instant: a stamp is
// missing that was acknowledged before another that was found was even written.
func (l *Ledger) CheckInstant(found map[fsm.VolumeID][]Stamp) error {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	last := Stamp{}
	for _, id := range sortedKeys(found) {
		for _, s := range found[id] {
			if s.Sequence > last.Sequence {
				last = s
			}
		}
	}
	var errs []error
	for _, id := range sortedKeys(found) {
		there := sequences(found[id])
		for _, a := range l.of(id).acknowledged {
			if a.before < last.Sequence && !there[a.Sequence] {
				errs = append(errs, fmt.Errorf("%s is missing beside the later %s", a.Stamp, last))
			}
		}
	}
	return errors.Join(errs...)
}

func sequences(found []Stamp) map[uint64]bool {
	there := map[uint64]bool{}
	for _, s := range found {
		there[s.Sequence] = true
	}
	return there
}

// next is the next stamp of a volume, and the block that it goes to. The lock is held.
func (w *World) next(id fsm.VolumeID, host fsm.NodeID, epoch fsm.Epoch) (s Stamp, number int64) {
	w.sequence++
	l := w.ledger.of(id)
	l.written++
	return Stamp{Volume: id, Host: host, Epoch: epoch, Sequence: w.sequence}, stampPlace(l.written - 1)
}

// acknowledge notes what a writer was told, and that nobody under a later publication was told
// something before. The lock is held.
func (w *World) acknowledge(stamps []Stamp) {
	for _, s := range stamps {
		l := w.ledger.of(s.Volume)
		for _, earlier := range l.acknowledged {
			if !l.tolerance.Shared && (s.Epoch.Compare(earlier.Epoch) < 0 || s.Epoch == earlier.Epoch && s.Host != earlier.Host) {
				w.violate("%s was acknowledged after %s", s, earlier.Stamp)
			}
		}
		l.acknowledged = append(l.acknowledged, acknowledgement{s, w.sequence})
	}
}

// checkShown notes acknowledged stamps that a device does not show to whoever begins to use it.
// The lock is held.
func (w *World) checkShown(t target) {
	content, err := t.content()
	if err != nil {
		return
	}
	if err := w.ledger.checkKept(t.volume, stampsIn(content)); err != nil {
		w.violate("%s: %v", t.host.node, err)
	}
}
