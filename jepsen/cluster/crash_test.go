package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/nemesis"
)

// killLeader kills the leader.
func killLeader(c *harness.Cluster) func(context.Context) error {
	return func(ctx context.Context) error {
		leader, err := c.Leader(ctx)
		if err != nil {
			return err
		}
		return kill(c, leader)
	}
}

// pauseLeader stops the leader for longer than an election takes.
func pauseLeader(c *harness.Cluster) func(context.Context) error {
	return func(ctx context.Context) error {
		leader, err := c.Leader(ctx)
		if err != nil {
			return err
		}
		if _, err := c.Signal(leader, syscall.SIGSTOP); err != nil {
			return ignoreDead(err)
		}
		<-time.After(2 * time.Second)
		_, err = c.Signal(leader, syscall.SIGCONT)
		return ignoreDead(err)
	}
}

// kill kills a child; one that is dead already is being restarted.
func kill(c *harness.Cluster, id string) error {
	_, err := c.Signal(id, syscall.SIGKILL)
	return ignoreDead(err)
}

func ignoreDead(err error) error {
	if errors.Is(err, harness.ErrDead) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// TestCrash_EveryNameHasOneVolumeAndOneFile kills processes while volumes are created and deleted.
// CSI-CTRL-CreateVolume-03, -04; S161, S163, S23.
func TestCrash_EveryNameHasOneVolumeAndOneFile(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true})
	co := c.NewCO()
	atLeast, during := shortOrLong(100, 500), shortOrLong(12*time.Second, time.Minute)

	harm := nemesis.Start(t.Context(),
		nemesis.Fault{Name: "leader killed", Every: 2 * time.Second, Inject: killLeader(c)},
		nemesis.Fault{Name: "node killed", Every: 5 * time.Second, Inject: func(context.Context) error { return kill(c, "n1") }})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		<-time.After(during)
		awaitFaults(ctx, harm, map[string]int{"leader killed": 3, "node killed": 1})
	}()
	volumes := createDuring(ctx, t, co, atLeast)
	done, err := harm.Stop()
	require.NoError(t, err)
	t.Logf("%d volumes; harm: %v; repeated calls: %d", len(volumes), done, co.Retries.Load())
	require.Greater(t, done["leader killed"], 2)
	require.Positive(t, done["node killed"])

	again := createMany(t, co, "crash", len(volumes), 8)
	require.Equal(t, ids(volumes), ids(again), "asked for again, each name has the volume it had")
	requireExactVolumes(t, c, volumes)
	deleteAll(t, c, co, volumes)
}

// awaitFaults waits until each fault was injected that often: on a busy machine a leader is found late. The test
// reports in the end what is missing.
func awaitFaults(ctx context.Context, nemesis *nemesis.Nemesis, minimum map[string]int) {
	_ = harness.Poll(ctx, harness.Patience, "the harm to be done", func() (bool, error) {
		for name, times := range minimum {
			if nemesis.Done(name) < times {
				return false, nil
			}
		}
		return true, nil
	})
}

// createDuring creates volumes with 8 workers until ctx ends, and until there are enough. It pauses in between,
// so that all faults happen while names are new.
func createDuring(ctx context.Context, t *testing.T, co *harness.CO, enough int) map[string]*harness.Volume {
	all := map[string]*harness.Volume{}
	for n := 0; ctx.Err() == nil || n < enough; n += 8 {
		merge(all, createRange(t, co, "crash", n, n+8, 8))
		<-time.After(50 * time.Millisecond)
	}
	return all
}

func ids(volumes map[string]*harness.Volume) map[string]string {
	of := map[string]string{}
	for name, v := range volumes {
		of[name] = v.ID
	}
	return of
}

// TestBurst_AllControllersKilledAtOnceLoseNothing: acknowledged volumes exist after all controllers restarted (S166).
func TestBurst_AllControllersKilledAtOnceLoseNothing(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true})
	co := c.NewCO()
	volumes := map[string]*harness.Volume{}
	for round := range shortOrLong(2, 10) {
		made := burst(t, c, co, round)
		for name, v := range made {
			volumes[name] = v
		}
	}
	requireExactVolumes(t, c, volumes)
	listed, err := co.List(t.Context())
	require.NoError(t, err)
	for name, v := range volumes {
		require.Equal(t, []string{"n1"}, listed[v.ID].Nodes, "the publication of %s is lost", name)
	}
	inParallel(t, 8, len(volumes), func(i int) error { return co.Unpublish(t.Context(), sortedVolumes(volumes)[i]) })
	deleteAll(t, c, co, volumes)
}

// burst creates and publishes volumes, and kills all controllers in the middle. It returns what was acknowledged,
// before the kill or by a repeated call.
func burst(t *testing.T, c *harness.Cluster, co *harness.CO, round int) map[string]*harness.Volume {
	prefix := "burst-" + string(rune('a'+round))
	acknowledged := createMany(t, co, prefix+"-before", 10, 8)
	inParallel(t, 8, len(acknowledged), func(i int) error { return co.Publish(t.Context(), sortedVolumes(acknowledged)[i], "n1") })
	l, err := c.Layout()
	require.NoError(t, err)
	killed := make(chan error, 1)
	before, err := c.AllImages()
	require.NoError(t, err)
	go func() { killed <- killAllAfter(t.Context(), c, len(before)+5, l.ControllerIDs()) }()
	during := createMany(t, co, prefix+"-during", 200, 8)
	require.NoError(t, <-killed)
	for _, ctl := range l.Controllers {
		require.NoError(t, c.AwaitNewPID(t.Context(), ctl.ID, ctl.PID))
	}
	inParallel(t, 8, len(during), func(i int) error { return co.Publish(t.Context(), sortedVolumes(during)[i], "n1") })
	for name, v := range during {
		acknowledged[name] = v
	}
	return acknowledged
}

// killAllAfter kills children at once when there are so many images.
func killAllAfter(ctx context.Context, c *harness.Cluster, images int, children []string) error {
	err := harness.Poll(ctx, harness.Patience, "the burst to be under way", func() (bool, error) {
		files, err := c.AllImages()
		return len(files) >= images, err
	})
	for _, id := range children {
		err = errors.Join(err, kill(c, id))
	}
	return err
}

// sortedVolumes are the volumes in the order of their names.
func sortedVolumes(volumes map[string]*harness.Volume) []*harness.Volume {
	var all []*harness.Volume
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		all = append(all, volumes[name])
	}
	return all
}
