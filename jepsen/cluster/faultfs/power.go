package faultfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// PowerLoss takes away what is not durable. With a seed other than zero, some of it is durable
// nevertheless: single sectors, sizes, and the first of the names. No process may have a file open.
func (f *FS) PowerLoss(seed uint64) error {
	f.Heal()
	err := harness.Poll(context.Background(), harness.Patience, "all files to be closed", func() (bool, error) {
		n := f.handles.count()
		return n == 0, fmt.Errorf("%d are open", n)
	})
	if err == nil {
		reached, names := chance(seed)
		err = f.revert(reached, names)
	}
	if err != nil {
		return fmt.Errorf("take the power from %s: %w", f.at, err)
	}
	return nil
}

// chance is what decides of single sectors, and how many of n changes of names are durable.
func chance(seed uint64) (coin, func(n int) int) {
	if seed == 0 {
		return func() bool { return false }, func(int) int { return 0 }
	}
	random := rand.New(rand.NewPCG(seed, seed))
	return func() bool { return random.IntN(2) == 0 }, func(n int) int { return random.IntN(n + 1) }
}

// revert first undoes contents, which need no names.
func (f *FS) revert(reached coin, names func(int) int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	durable := names(len(f.changes))
	var errs []error
	for _, n := range sortedKeys(f.inodes) {
		errs = append(errs, f.inodes[n].losePower(reached))
	}
	clear(f.inodes)
	for _, c := range slices.Backward(f.changes[durable:]) {
		errs = append(errs, c.undo())
	}
	for _, c := range f.changes {
		if c.kept != "" && exists(c.kept) {
			errs = append(errs, os.Remove(c.kept))
		}
	}
	f.changes = nil
	return errors.Join(errs...)
}

// Unsynced is how many files and changes of names a power loss would take.
func (f *FS) Unsynced() (files, names int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.inodes), len(f.changes)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
