package executor

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// factDown is the end of a target, or of everything when the path is empty.
const factDown = "down"

// fact is what the record is about, whatever its number is.
func (o owed) fact() fact { return fact{name: factDown, path: o.Target, epoch: o.Epoch} }

func (o owed) observation(id fsm.VolumeID) *fsmpb.Observation {
	ob := &fsmpb.Observation{VolumeId: string(id), Epoch: epochProto(o.Epoch), Sequence: o.Sequence}
	if o.Target == "" {
		ob.Fact = &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}
	} else {
		ob.Fact = &fsmpb.Observation_TargetGone{TargetGone: &fsmpb.TargetGone{TargetPath: o.Target}}
	}
	return ob
}

// delivery is one report of a volume's outbox that is under way. There is one at a time,
// so that records are heard in their order, and each once.
type delivery struct {
	debts []owed
	done  chan struct{}
	err   error // valid after done
}

// owe writes records of tear-downs into the volume's outbox, synced: what was taken
// down is said, whatever happens to this process (S16). What the log has heard since the
// volume's last grant, or is to hear, is not said again (S73). The caller holds the lock.
func (e *Executor) owe(v *volume, debts ...owed) error {
	for _, debt := range e.untold(v, debts) {
		number, err := e.sequence(v)
		if err != nil {
			return err
		}
		debt.Sequence = number
		v.journal.Owed = append(v.journal.Owed, debt)
		e.ended(v, debt)
	}
	return e.save(v, true)
}

// untold are the records of which the log has not heard: a wish may be on its way that
// shows that it did.
func (e *Executor) untold(v *volume, debts []owed) []owed {
	e.mu.Lock()
	defer e.mu.Unlock()
	var left []owed
	for _, debt := range debts {
		told, ok := v.told[debt.fact()]
		heard := ok && time.Now().Before(told.until) && told.at.Compare(v.journal.Floor) > 0
		if !heard && !v.journal.owes(debt) {
			left = append(left, debt)
		}
	}
	return left
}

// ended forgets that the log knows of what is up no more.
func (e *Executor) ended(v *volume, debt owed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for f := range v.known {
		if debt.Target == "" || f.name == factBound && f.path == debt.Target {
			delete(v.known, f)
		}
	}
}

// deliver has the outbox reported, and is the delivery that is under way; nil when
// nothing is in it that the log has not heard. What was seen of a replica is said before
// that nothing of it is up. The caller holds the lock.
func (e *Executor) deliver(ctx context.Context, v *volume) *delivery {
	e.mu.Lock()
	underWay, heard := v.delivery, v.heard
	e.mu.Unlock()
	if underWay != nil {
		return underWay
	}
	d := &delivery{done: make(chan struct{})}
	var all []*fsmpb.Observation
	for _, o := range v.journal.Owed {
		if o.Sequence <= heard {
			continue
		}
		if o.Target == "" {
			all = append(all, e.sawReplica(ctx, v)...)
		}
		d.debts, all = append(d.debts, o), append(all, o.observation(v.id))
	}
	if len(all) == 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v.delivery = d
	e.reports.send(letter{all, func(at fsm.Epoch, err error) { e.delivered(v, d, at, err) }})
	return d
}

// delivered is the answer to deliver: what was not taken is looked at again.
func (e *Executor) delivered(v *volume, d *delivery, at fsm.Epoch, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.delivery, d.err = nil, err
	close(d.done)
	if err != nil {
		e.queue.addAfter(v.id, retryReport)
		return
	}
	for _, o := range d.debts {
		v.heard = max(v.heard, o.Sequence)
		if v.wishAt.Compare(at) < 0 {
			e.taken(v, o.fact(), at)
		}
	}
	e.queue.add(v.id)
}

// drain empties the volume's outbox, waiting no longer than limit. The caller holds
// the lock.
func (e *Executor) drain(ctx context.Context, v *volume, c *call, limit time.Duration) error {
	if len(v.journal.Owed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if c != nil {
		c.asking.Add(1)
		defer c.asking.Add(-1)
	}
	e.hit("drain.before")
	for d := e.deliver(ctx, v); d != nil; d = e.deliver(ctx, v) {
		select {
		case <-d.done:
		case <-ctx.Done():
			return &unavailable{ctx.Err()}
		}
		if d.err != nil {
			return d.err
		}
	}
	e.hit("drain.after")
	return e.prune(v)
}
