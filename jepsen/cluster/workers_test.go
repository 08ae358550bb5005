package cluster

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// inParallel does n pieces of work with some workers; the first error fails the test.
func inParallel(t *testing.T, workers, n int, work func(i int) error) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(workers)
	for i := range n {
		g.Go(func() error { return work(i) })
	}
	require.NoError(t, g.Wait())
}

// repeatUntilDefinite repeats a call as a CO does, and answers the result.
func repeatUntilDefinite(t *testing.T, what string, call func() error) (err error) {
	t.Helper()
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, what+" to have a definite answer", func() (bool, error) {
		err = call()
		return !harness.Retriable(err), err
	}))
	return err
}

// createMany makes n volumes by name with several workers over all controllers.
func createMany(t *testing.T, co *harness.CO, prefix string, n, workers int) map[string]*harness.Volume {
	t.Helper()
	return createRange(t, co, prefix, 0, n, workers)
}

// createRange makes the volumes with the numbers from one up to another.
func createRange(t *testing.T, co *harness.CO, prefix string, from, to, workers int) map[string]*harness.Volume {
	t.Helper()
	var mu sync.Mutex
	made := map[string]*harness.Volume{}
	inParallel(t, workers, to-from, func(i int) error {
		v, err := co.Create(t.Context(), harness.Spec{Name: fmt.Sprintf("%s-%04d", prefix, from+i)})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		made[v.Name] = v
		return nil
	})
	return made
}
