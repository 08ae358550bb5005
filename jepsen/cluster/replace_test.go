package cluster

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// TestADeadControllerIsReplacedUnderLoad: an empty controller takes the place of a dead
// leader while volumes are made. Every call is answered in the end, each volume is there
// once, and the longest time without an acknowledgement is printed.
func TestADeadControllerIsReplacedUnderLoad(t *testing.T) {
	w := &wipedCluster{startCluster(t, harness.Options{Supervise: false}), t}
	leader, _ := w.roles()
	old := w.memberID(leader)
	load := startCreateLoad(w)
	w.wipe(leader)
	w.awaitReadiness(leader, "holdfast members replace "+old)
	load.awaitMore(t, 20)
	w.replace(leader, old)
	load.awaitMore(t, 20)
	volumes := load.end(t)
	t.Logf("%d volumes, at most %s without an acknowledgement", len(volumes), load.longestGap)
	require.NoError(t, w.AwaitAgreement(t.Context()))
	requireExactVolumes(t, w.Cluster, volumes)
	deleteAll(t, w.Cluster, w.NewCO(), volumes)
}

// load makes volumes, several at once, until it is ended.
type createLoad struct {
	mu         sync.Mutex
	volumes    map[string]*harness.Volume
	failed     error
	last       time.Time
	longestGap time.Duration // between two acknowledgements
	stop       func()        // and wait for the workers
}

func startCreateLoad(w *wipedCluster) *createLoad {
	l := &createLoad{volumes: map[string]*harness.Volume{}, last: time.Now()}
	stop := make(chan struct{})
	var workers sync.WaitGroup
	co := w.NewCO()
	co.CallTimeout = 5 * time.Second
	for worker := range 4 {
		workers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				v, err := co.Create(w.t.Context(), harness.Spec{Name: fmt.Sprintf("load-%d-%d", worker, n)})
				l.record(v, err)
			}
		})
	}
	l.stop = sync.OnceFunc(func() { close(stop); workers.Wait() })
	w.t.Cleanup(l.stop)
	return l
}

func (l *createLoad) record(v *harness.Volume, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = err
		return
	}
	l.volumes[v.Name] = v
	l.longestGap = max(l.longestGap, time.Since(l.last))
	l.last = time.Now()
}

// awaitMore waits until so many more volumes were made.
func (l *createLoad) awaitMore(t *testing.T, more int) {
	t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.volumes)
	}
	from := count()
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "volumes to be made", func() (bool, error) {
		return count() >= from+more, nil
	}))
}

func (l *createLoad) end(t *testing.T) map[string]*harness.Volume {
	t.Helper()
	l.stop()
	require.NoError(t, l.failed)
	return l.volumes
}
