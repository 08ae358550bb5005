package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// vitals is what a volume's condition is judged by.
type vitals struct {
	device  Device
	pool    PoolFacts
	minFree int64
	parked  bool
	size    int64 // bytes that the image had, or must have
	staged  bool  // by the host's record
	// unbounded is why its limits are not in force, empty when they are.
	unbounded string
	mounted   bool // or attached, for a raw volume
	measured  fsm.Condition
	failure   error // of measuring what is mounted
	warned    bool  // the condition was that of a pool that is nearly full
}

// condition is the volume's health. It is pure, and the only judge of it: for the log
// and for NodeGetVolumeStats. Its messages have no figures, so that they change only
// when the cause does.
func (x *vitals) condition() fsm.Condition {
	ill := func(message string) fsm.Condition { return fsm.Condition{Abnormal: true, Message: message} }
	switch {
	case x.device.Absent:
		return ill("the pool of the volume is absent")
	case !x.device.Exists:
		return ill("the image of the volume is missing")
	case x.device.Size < x.size:
		return ill("the image of the volume is shorter than it was made")
	case x.parked:
		return ill("a command on the device cannot be killed")
	case x.staged && !x.mounted:
		return ill("the volume is staged, but its mount is gone")
	case x.failure != nil:
		return ill("the volume does not answer: " + x.failure.Error())
	case x.measured.Abnormal:
		return x.measured
	case !x.pool.Absent && x.pool.Capacity > 0 && x.pool.Free < max(x.minFree, leastFree):
		return ill("the pool of the volume is full")
	case x.pool.nearlyFull(x.warned):
		return ill(poolNearlyFull)
	case x.staged && x.unbounded != "":
		return ill("the volume's I/O limits are not in force: " + x.unbounded)
	}
	return x.measured
}

// poolNearlyFull is the condition of a pool's volumes before it is full.
const poolNearlyFull = "the pool of the volume is nearly full"

// How much of a pool may be used before its host's log warns, before its volumes'
// condition does, and until that is over, in percent.
const (
	usedToLog   = 80
	usedToWarn  = 90
	usedToCease = 85
)

// usedAbove tells whether more than a share of the pool is used.
func (f PoolFacts) usedAbove(percent int64) bool {
	return !f.Absent && f.Capacity > 0 && f.Free < f.Capacity/100*(100-percent)
}

// nearlyFull is whether volumes warn of their pool. It does not change with every block
// that is written at the threshold.
func (f PoolFacts) nearlyFull(already bool) bool {
	if already {
		return f.usedAbove(usedToCease)
	}
	return f.usedAbove(usedToWarn)
}

// warnOfPools says once of each pool that much of it is used.
func (e *Executor) warnOfPools(said map[fsm.PoolID]bool) {
	for _, pool := range e.Pools {
		f := pool.Facts(e.ctx)
		high := f.usedAbove(usedToLog)
		if high && !said[f.ID] {
			e.Logger.Warn("much of the pool is used", "pool", string(f.ID), "free", f.Free, "capacity", f.Capacity)
		}
		said[f.ID] = high
	}
}

// leastFree is below what a pool counts as full, in bytes, whatever is configured.
const leastFree = 1 << 20

// examined completes what was observed with what is known, judges, and has the log
// told when the volume fell ill or recovered.
func (e *Executor) examined(ctx context.Context, v *volume, x *vitals) fsm.Condition {
	if b, err := e.backend(v); err == nil {
		x.pool = b.Facts(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	x.minFree, x.parked = e.MinFree, v.parked != nil
	if w := v.wish; w != nil && w.Limits != (fsm.Limits{}) {
		x.unbounded = v.unbounded
	}
	x.warned = v.health != nil && v.health.Message == poolNearlyFull
	now := x.condition()
	v.health = &now
	if ailing(now) != v.shown.Ailing {
		e.queue.add(v.id)
	}
	return now
}

// leastSize is how many bytes the volume's image must have, of one that is looked at from
// now on: it may grow at any moment.
func (e *Executor) leastSize(v *volume) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := v.wish; w != nil && w.Operation == 0 && w.Goal == fsm.GoalKeep {
		return max(v.shown.Size, w.Size)
	}
	return v.shown.Size
}

// ailing is what is wrong, empty when nothing is.
func ailing(c fsm.Condition) string {
	if c.Abnormal {
		return c.Message
	}
	return ""
}

// examineAll looks at the health of all volumes from time to time.
func (e *Executor) examineAll() {
	ticker := time.NewTicker(e.HealthEvery)
	defer ticker.Stop()
	said := map[fsm.PoolID]bool{}
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
		}
		e.warnOfPools(said)
		for _, v := range e.patients() {
			e.examine(v)
		}
	}
}

// patients are the volumes that are made and not to be removed.
func (e *Executor) patients() []*volume {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*volume
	for _, v := range e.volumes {
		if v.wish != nil && v.wish.Goal == fsm.GoalKeep && v.wish.ReplicaState != 0 && !v.examining {
			all = append(all, v)
		}
	}
	return all
}

// examineLimit is how long a volume may take to answer before it is passed by.
const examineLimit = 2 * time.Second

// errNoAnswer is what is wrong with a filesystem that hangs.
var errNoAnswer = errors.New("it hangs")

// examine judges one volume. One that hangs keeps its examination waiting, and nobody
// else; one that is being worked on is left for the next time.
func (e *Executor) examine(v *volume) {
	before, stagings, quiet := e.quiet(v)
	if !quiet {
		return
	}
	answered := make(chan *vitals, 1)
	go func() {
		x, err := e.look(e.ctx, v, before.Staging)
		e.mu.Lock()
		v.examining = false
		e.mu.Unlock()
		if err != nil {
			e.logger(v).Warn("the volume's health is not known", "error", err)
			x = nil
		}
		answered <- x
	}()
	timer := time.NewTimer(examineLimit)
	defer timer.Stop()
	var x *vitals
	select {
	case x = <-answered:
	case <-timer.C:
		x = &vitals{device: Device{Exists: true, Size: before.Size}, failure: errNoAnswer}
	case <-e.ctx.Done():
		return
	}
	if x != nil && e.still(v, stagings) {
		e.examined(e.ctx, v, x)
	}
}

// quiet begins an examination, unless somebody works on the volume. With the record it says
// how often the volume was staged or unstaged.
func (e *Executor) quiet(v *volume) (r record, stagings uint64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v.call != nil || v.cut || len(v.lock) > 0 || v.examining {
		return record{}, 0, false
	}
	v.examining = true
	return v.shown, v.stagings, true
}

// still tells whether nobody took the volume down, nor brought it up again, since then.
func (e *Executor) still(v *volume, stagings uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return v.call == nil && len(v.lock) == 0 && v.stagings == stagings
}

func sameStaging(a, b *staging) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// look observes what the volume's health is judged by.
func (e *Executor) look(ctx context.Context, v *volume, held *staging) (*vitals, error) {
	backend, err := e.backend(v)
	if err != nil {
		return nil, err
	}
	x := &vitals{staged: held != nil, size: e.leastSize(v), measured: fsm.Condition{Message: "not staged"}}
	if x.device, err = backend.Observe(ctx, v.id); err != nil {
		return nil, fmt.Errorf("look at volume %s: %w", v.id, err)
	}
	if held == nil || !x.device.Attached() {
		return x, nil
	}
	mounts, err := e.Mounter.Mounts(ctx, x.device)
	if err != nil {
		return nil, fmt.Errorf("look at the mounts of volume %s: %w", v.id, err)
	}
	x.mounted = held.Block
	for _, m := range mounts {
		x.mounted = x.mounted || !m.Node && m.Path == e.real(held.Path)
	}
	if x.mounted {
		stats, err := e.Mounter.Stats(ctx, x.device, held.Path, held.Block)
		x.measured, x.failure = stats.Condition, err
	}
	return x, nil
}

// tellHealth tells an abnormal condition once, and once that it is over. It is kept
// before it is told, so that a restarted host does not forget to take it back.
func (e *Executor) tellHealth(v *volume) error {
	e.mu.Lock()
	health, wish, heard := v.health, v.wish, v.heardHealth
	e.mu.Unlock()
	if health == nil || wish == nil || wish.Goal != fsm.GoalKeep {
		return nil
	}
	now, known := ailing(*health), heard != nil && *heard == ailing(*health)
	if v.journal.Ailing != now && (known || now != "") {
		v.journal.Ailing = now
		if err := e.save(v, true); err != nil {
			return err
		}
	}
	if known || heard == nil && now == "" && v.journal.Ailing == "" {
		return nil
	}
	ob := &fsmpb.Observation{VolumeId: string(v.id), Fact: &fsmpb.Observation_Condition{
		Condition: &fsmpb.Condition{Abnormal: health.Abnormal, Message: now},
	}}
	e.send(v, fact{name: factHealth, path: now}, ob)
	return nil
}
