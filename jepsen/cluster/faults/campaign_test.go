package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
)

// One seed chooses the same kinds in the same order, and each once before any comes again.
func TestASeedChoosesARound(t *testing.T) {
	order := func(seed uint64) (faults []catalog.Fault) {
		c := NewCampaign(Config{Seed: seed})
		for range 2 * len(All()) {
			faults = append(faults, c.next().Fault)
		}
		require.True(t, c.Rounded())
		return faults
	}
	require.Equal(t, order(7), order(7))
	require.NotEqual(t, order(7), order(8))
	once := order(7)
	require.ElementsMatch(t, once[:len(All())], once[len(All()):])
}

func TestWhatWaitsForTheClusterIsAlone(t *testing.T) {
	for _, one := range All() {
		c := NewCampaign(Config{})
		c.scene.Rand = rand.New(rand.NewPCG(1, 1))
		c.next()
		for range 50 {
			c.round = append([]Injector{}, All()...)
			if other, ok := c.nextBeside(one); ok {
				require.False(t, clash(one, other), "%s beside %s", other.Fault, one.Fault)
			}
		}
	}
}

// TestWhatNothingMetDoesNotCount: a run that needs the fault is an empty one then.
func TestWhatNothingMetDoesNotCount(t *testing.T) {
	for name, tc := range map[string]struct {
		felt  func() bool
		count int
	}{
		"certain": {nil, 1}, "felt": {func() bool { return true }, 1}, "not felt": {func() bool { return false }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ended, counted := false, 0
			c := NewCampaign(Config{Done: func(Record) { counted++ }})
			r, err := c.begin(t.Context(), Injector{catalog.Kill, func(context.Context, *Scene) (*Injection, error) {
				return &Injection{Felt: tc.felt, End: func(context.Context) (string, error) { ended = true; return "", nil }}, nil
			}})
			require.NoError(t, err)
			require.NoError(t, c.end(r))
			require.True(t, ended)
			require.Equal(t, tc.count, counted)
		})
	}
}

// TestEveryInjectorEndsWhatItBegan does each fault once while volumes are made and deleted.
func TestEveryInjectorEndsWhatItBegan(t *testing.T) {
	if !*long {
		t.Skip("the long form only: TestFaults does each of them too")
	}
	c := startCluster(t, isolated.Options{})
	stop := load(t, c)
	for i, injector := range All() {
		t.Run(string(injector.Fault), func(t *testing.T) {
			said := ""
			campaign := NewCampaign(Config{Cluster: c, Seed: uint64(i), Injectors: []Injector{injector}, Done: func(r Record) {
				said = fmt.Sprintf("%s; %s", r.Said, r.Came)
			}})
			for said == "" {
				require.NoError(t, campaign.Step(t.Context()))
			}
			t.Log(said)
			require.NoError(t, campaign.Heal(t.Context()))
		})
	}
	stop()
	require.NoError(t, c.View().AwaitAgreement(t.Context()))
	require.NoError(t, c.View().AwaitCleanAudit(t.Context()))
	deleteAll(t, c)
}

// deleteAll deletes what is left: a call that its client gave up may have been done after the volume was deleted.
func deleteAll(t *testing.T, c *isolated.Cluster) {
	t.Helper()
	co := c.View().NewCO()
	left, err := co.List(t.Context())
	require.NoError(t, err)
	for id := range left {
		require.NoError(t, co.Delete(t.Context(), &harness.Volume{ID: id}))
	}
	require.NoError(t, c.View().AwaitNoLeftovers(t.Context()))
}

// load has volumes live on every node until stop, after which none is left.
func load(t *testing.T, c *isolated.Cluster) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	co := c.View().NewCO()
	co.CallTimeout = 5 * time.Second
	for worker := range 4 {
		work.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				v, err := co.Create(t.Context(), harness.Spec{Name: fmt.Sprintf("load-%d-%d", worker, n), Size: 2 * harness.Mi, Block: true})
				if err == nil {
					err = co.Delete(t.Context(), v)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); work.Wait() })
	t.Cleanup(stop)
	return stop
}

// startCluster starts a cluster that is removed, and proved to be gone, when the test ends.
func startCluster(t *testing.T, opts isolated.Options) *isolated.Cluster {
	t.Helper()
	if why := isolated.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	path, err := builder.Path(t.Context())
	require.NoError(t, err)
	opts.Binary = path
	c, err := isolated.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.View().Logs(60))
		}
		require.NoError(t, c.Panics())
		require.NoError(t, c.Close(context.Background()))
	})
	return c
}
