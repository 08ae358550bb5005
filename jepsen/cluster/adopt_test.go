package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// lostLog is a cluster whose controllers lose everything; its hosts go on.
type lostLog struct {
	*wipedCluster
	co    *harness.CO
	alive map[string]*harness.Volume // that the orchestrator has, by name
	data  map[string][]byte          // of those that are staged
}

func (l *lostLog) create(name string) *harness.Volume {
	l.t.Helper()
	v, err := l.co.Create(l.t.Context(), harness.Spec{Name: name, Node: "n1"})
	require.NoError(l.t, err)
	l.alive[name] = v
	return v
}

func (l *lostLog) use(v *harness.Volume) {
	l.t.Helper()
	require.NoError(l.t, l.co.PublishStageBind(l.t.Context(), v, "n1"))
	data, err := writeTo(v)
	require.NoError(l.t, err)
	l.data[v.Name] = data
}

func (l *lostLog) stopUse(v *harness.Volume) {
	l.t.Helper()
	require.NoError(l.t, l.co.UnbindUnstageUnpublish(l.t.Context(), v))
	delete(l.data, v.Name)
}

// requireReadable: what pods wrote is there, under their mounts.
func (l *lostLog) requireReadable() {
	l.t.Helper()
	for name, data := range l.data {
		require.NoError(l.t, sameData(l.alive[name], data), name)
	}
}

// operate does what an orchestrator does all day, with the volumes numbered from first on: it makes, uses, expands, stops
// using and deletes.
func (l *lostLog) operate(first, n int) {
	l.t.Helper()
	for i := first; i < first+n; i++ {
		v := l.create(fmt.Sprint("v", i))
		if i%2 == 0 {
			l.use(v)
		}
		if i%4 == 0 {
			require.NoError(l.t, l.co.Expand(l.t.Context(), v, 2*v.Size))
		}
	}
	for name, v := range l.alive {
		switch len(name)%2 + int(name[len(name)-1])%5 {
		case 1:
			if l.data[name] != nil {
				l.stopUse(v)
			}
		case 2:
			if l.data[name] == nil {
				l.use(v)
			}
		case 3:
			if l.data[name] != nil {
				l.stopUse(v)
			}
			require.NoError(l.t, l.co.Delete(l.t.Context(), v))
			delete(l.alive, name)
		}
	}
}

// loseControllers kills all controllers, deletes their folders and restores the first from a backup.
func (l *lostLog) loseControllers(backup string) {
	l.t.Helper()
	address := l.raftAddress("c1")
	layout, err := l.Layout()
	require.NoError(l.t, err)
	for _, id := range []string{"c1", "c2", "c3"} {
		l.kill(id)
		require.NoError(l.t, os.RemoveAll(layout.DataDir(id)))
	}
	l.must("restore", "--data-dir", layout.DataDir("c1"), "--backup", backup, "--advertise", address, "--yes")
	l.beginAgain("c1", "c2", "c3")
}

type adoptPlan struct {
	Incarnation            uint64
	Todo, Waiting, Blocked json.Number
	Done                   bool
	Steps                  []struct{ Action, State, Volume string }
}

func (l *lostLog) adopt(args ...string) (plan adoptPlan) {
	l.t.Helper()
	out := l.must(append([]string{"adopt", "--dir", l.Dir, "-o", "json"}, args...)...)
	require.NoError(l.t, json.Unmarshal([]byte(out), &plan), out)
	return plan
}

// TestS1_NothingIsLostWithAllControllers: many volumes and some snapshots, a backup, as many operations again, then all controllers and
// their disks are lost. Restored and adopted, the log has every volume and snapshot that the orchestrator has, and no other; no file was
// removed or formatted, and pods read and wrote all the time.
func TestS1_NothingIsLostWithAllControllers(t *testing.T) {
	volumes := 16
	if *long {
		volumes = 200
	}
	l := &lostLog{
		wipedCluster: &wipedCluster{startCluster(t, harness.Options{Supervise: false}), t},
		alive:        map[string]*harness.Volume{}, data: map[string][]byte{},
	}
	l.co = l.NewCO()
	l.co.Timeout = harness.Patience
	l.operate(0, volumes)
	snapshots := newLostSnapshots(l)
	backup := filepath.Join(t.TempDir(), "backup")
	l.must("backup", backup, "--dir", l.Dir)
	l.operate(volumes, volumes)
	snapshots.goOn()
	files := snapshots.images()
	images, err := l.AllImages()
	require.NoError(t, err)

	l.loseControllers(backup)
	l.requireReadable()
	var plan adoptPlan
	require.NoError(t, harness.Poll(t.Context(), harness.Patience, "all hosts to answer", func() (bool, error) {
		plan = l.adopt()
		return plan.Waiting == "0", nil
	}))
	require.EqualValues(t, 2, plan.Incarnation)
	require.EqualValues(t, "0", plan.Blocked, "each difference has an explanation: %v", plan)
	for range 2 {
		l.adopt("--incarnation", "2", "--yes", "--wait")
	}
	require.True(t, l.adopt("--incarnation", "2").Done)
	now, err := l.AllImages()
	require.NoError(t, err)
	require.Equal(t, images, now, "no file is lost")
	require.Equal(t, files, snapshots.images(), "nor one of a snapshot")
	l.requireReadable()
	l.requireVolumes(valuesOf(l.alive)...)
	require.NoError(t, l.AwaitCleanAudit(t.Context()))
	snapshots.requireAdopted()
	for name, v := range l.alive {
		if l.data[name] != nil {
			l.stopUse(v)
		} else {
			l.use(v) // no filesystem is made over another
			l.stopUse(v)
		}
	}
	snapshots.remove()
	removeAll(t, l.Cluster)
	require.NoError(t, l.AwaitCleanAudit(t.Context()))
}

func valuesOf(m map[string]*harness.Volume) (all []*harness.Volume) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}
