package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/faultfs"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/faults"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
)

// faultyDisks are the filesystems below the controllers of one cluster. Nodes have loop devices on their
// disks, which no filesystem of this process may be below.
type faultyDisks struct {
	mu   sync.Mutex
	byID map[string]*faultfs.FS
}

// mount is isolated.Options.Mount.
func (d *faultyDisks) mount(_ context.Context, member, below, at string) (func() error, error) {
	if member[0] != 'c' {
		return nil, nil
	}
	f, err := faultfs.Mount(below, at)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byID[member] = f
	if err != nil {
		return nil, err
	}
	return f.Unmount, nil
}

func (d *faultyDisks) of(m *isolated.Member) *faultfs.FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byID[m.ID]
}

// injectors are the faults of these disks.
func (d *faultyDisks) injectors() []faults.Injector {
	return []faults.Injector{
		{Fault: catalog.WriteError, Begin: d.failing(faultfs.FailWrite)},
		{Fault: catalog.TornBatch, Begin: d.failing(faultfs.TornWrite)},
		{Fault: catalog.FsyncError, Begin: d.failingSync},
		{Fault: catalog.DiskHung, Begin: d.hanging},
		{Fault: catalog.DiskSlow, Begin: d.slow},
		{Fault: catalog.LostUnsynced, Begin: d.powerLoss},
	}
}

// hitTimeout is how long a rule may wait for an operation that it concerns: a member writes all the time.
const hitTimeout = 20 * time.Second

// until waits until a rule had its effect, and ends it when it has none.
func until(ctx context.Context, i *faultfs.Injection) bool {
	err := harness.Poll(ctx, hitTimeout, "an operation that fails", func() (bool, error) { return i.Hits() > 0, nil })
	if err != nil {
		i.End()
	}
	return err == nil
}

func someController(s *faults.Scene) *isolated.Member {
	all := s.Cluster.Controllers()
	return all[s.Rand.IntN(len(all))]
}

// failing has a few writes fail.
func (d *faultyDisks) failing(fault faultfs.Fault) func(context.Context, *faults.Scene) (*faults.Injection, error) {
	return func(ctx context.Context, s *faults.Scene) (*faults.Injection, error) {
		m := someController(s)
		i := d.of(m).Inject(faultfs.Rule{Fault: fault, Times: 1 + s.Rand.IntN(3)})
		if !until(ctx, i) {
			return nil, nil //nolint:nilnil // it wrote nothing
		}
		return &faults.Injection{Member: m.ID, Said: fmt.Sprintf("%s on the disk of %s", fault, m.ID), End: func(context.Context) (string, error) {
			i.End()
			return fmt.Sprintf("%d operations failed", i.Hits()), nil
		}}, nil
	}
}

// failingSync has a few syncs fail; half of the time the power is lost after the process knew.
func (d *faultyDisks) failingSync(ctx context.Context, s *faults.Scene) (*faults.Injection, error) {
	m := someController(s)
	fault := []faultfs.Fault{faultfs.FailSync, faultfs.FailSyncForget}[s.Rand.IntN(2)]
	i := d.of(m).Inject(faultfs.Rule{Fault: fault, Times: 1 + s.Rand.IntN(3)})
	if !until(ctx, i) {
		return nil, nil //nolint:nilnil // it synced nothing
	}
	loss := s.Rand.IntN(2) == 0
	return &faults.Injection{Member: m.ID, Said: fmt.Sprintf("%s on the disk of %s", fault, m.ID), End: func(ctx context.Context) (string, error) {
		i.End()
		came := fmt.Sprintf("%d syncs failed", i.Hits())
		if !loss {
			return came, nil
		}
		said, _, err := d.losePower(m, 0)
		return came + "; " + said, errors.Join(err, m.Start(ctx))
	}}, nil
}

func (d *faultyDisks) hanging(ctx context.Context, s *faults.Scene) (*faults.Injection, error) {
	return d.until(ctx, s, faultfs.Rule{Fault: faultfs.Hang})
}

func (d *faultyDisks) slow(ctx context.Context, s *faults.Scene) (*faults.Injection, error) {
	return d.until(ctx, s, faultfs.Rule{Fault: faultfs.Slow, Delay: time.Duration(1+s.Rand.IntN(200)) * time.Millisecond})
}

// until has a rule in force until the fault ends.
func (d *faultyDisks) until(ctx context.Context, s *faults.Scene, rule faultfs.Rule) (*faults.Injection, error) {
	m := someController(s)
	i := d.of(m).Inject(rule)
	if !until(ctx, i) {
		return nil, nil //nolint:nilnil // it wrote nothing
	}
	return &faults.Injection{Member: m.ID, Said: fmt.Sprintf("%s disk of %s %s", rule.Fault, m.ID, rule.Delay), End: func(context.Context) (string, error) {
		i.End()
		return fmt.Sprintf("%d operations", i.Hits()), nil
	}}, nil
}

// powerLoss kills a member and takes what it had not synced, all of it or in part.
func (d *faultyDisks) powerLoss(_ context.Context, s *faults.Scene) (*faults.Injection, error) {
	m := someController(s)
	said, lost, err := d.losePower(m, s.Rand.Uint64()*uint64(s.Rand.IntN(2)))
	if err != nil {
		return nil, err
	}
	return &faults.Injection{Member: m.ID, Said: said, Felt: func() bool { return lost > 0 }, End: func(ctx context.Context) (string, error) { return "it is started", m.Start(ctx) }}, nil
}

func (d *faultyDisks) losePower(m *isolated.Member, seed uint64) (said string, lost int, err error) {
	d.of(m).Heal() // what hangs cannot be killed
	if err := m.Kill(); err != nil {
		return "", 0, err
	}
	files, names := d.of(m).Unsynced()
	return fmt.Sprintf("%s lost its power, with %d files and %d names not synced", m.ID, files, names), files + names, d.of(m).PowerLoss(seed)
}

// chosen are the injectors of a run: all in the long form, else some that the seed chooses beside all of the disks.
func chosen(seed uint64, disks []faults.Injector, all bool) []faults.Injector {
	others := faults.All()
	if all {
		return append(others, disks...)
	}
	random := rand.New(rand.NewPCG(seed, 7))
	random.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	var some []faults.Injector
	for i, one := range others {
		if i < shortChoice || one.Fault == catalog.SnapshotStorm {
			some = append(some, one)
		}
	}
	return append(some, disks...)
}

// shortChoice is how many faults a short run has beside those of the disks.
const shortChoice = 7
