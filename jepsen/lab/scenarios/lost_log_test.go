package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// TestS1_AReplicatedVolumeInUseOutlivesTheLog: all controllers and their disks are lost while volumes with replicas are
// written to, one of them newer than the backup. On the restored log no kernel changes a role, loses its peer or a device, and
// the writers go on, before the hosts are adopted and after. Then a lost primary is fenced and taken over as before.
// The long form has it: the same steps with the processes alone are among the tests of clusters, with a model of two kernels
// among those of the agent.
func TestS1_AReplicatedVolumeInUseOutlivesTheLog(t *testing.T) {
	if !*long {
		t.Skip("the long form has it")
	}
	l := &lostLog{env: newScenario(t), t: t}
	l.use(l.replicated(t, "outlives", false), "n1")
	deleted := l.replicated(t, "deleted", false)
	backup := filepath.Join(t.TempDir(), "backup")
	l.cluster.MustAdmin(l.t, "backup", backup)
	l.use(l.replicated(t, "newer", true), "n2")
	require.NoError(t, l.co.delete(t.Context(), deleted))
	l.devices = l.listDevices()
	l.requireInUse("before")

	l.loseControllers(backup)
	l.requireInUse("under the restored log")
	l.adoptHosts(deleted)
	l.requireInUse("adopted")
	require.ElementsMatch(t, []string{l.volumes[0].id, l.volumes[1].id}, l.known(), "what the log knows")
	for _, v := range l.volumes {
		l.awaitInSync(t, v)
		l.awaitHealthy(t, v)
	}
	l.stopUse("newer", "n2")
	later := l.replicated(t, "later", false) // its minor and port are no other's
	l.publishAndStage(t, later, "n1")
	l.awaitInSync(t, later)
	l.unstageAndUnpublish(t, later, "n1")
	l.takeOver(t, []lab.Network{lab.Replication, lab.API}, l.volumes[:1], l.writers[:1])
}

// lostLog is a lab whose controllers lose everything; its hosts go on.
type lostLog struct {
	*env
	t       *testing.T
	volumes []*volume // in use, and by whom
	writers []*writer
	devices map[string][]string // of each node, before the loss
}

func (l *lostLog) use(v *volume, node string) {
	l.t.Helper()
	l.publishAndStage(l.t, v, node)
	l.awaitInSync(l.t, v)
	l.volumes, l.writers = append(l.volumes, v), append(l.writers, l.write(l.t, v, node, 1))
}

// stopUse ends the use of the second volume, which has all that was acknowledged.
func (l *lostLog) stopUse(name, node string) {
	l.t.Helper()
	v, last := l.volumes[1], l.writers[1].stop(l.t)
	require.True(l.t, strings.HasPrefix(v.name, name))
	require.Empty(l.t, last.Error)
	l.requireAcknowledged(l.t, v, node, last.Number)
	l.unstageAndUnpublish(l.t, v, node)
}

// listDevices are the logical volumes of each node.
func (l *lostLog) listDevices() map[string][]string {
	l.t.Helper()
	all := map[string][]string{}
	for _, node := range []string{"n1", "n2", "n3"} {
		all[node] = strings.Fields(l.mustExec(l.t, node, "lvm lvs --noheadings -o lv_name vg"))
		slices.Sort(all[node])
	}
	return all
}

// requireInUse: each writer gets on, on a primary whose peer is connected and up to date, and no device came or went.
func (l *lostLog) requireInUse(when string) {
	l.t.Helper()
	for i, v := range l.volumes {
		x := l.writers[i]
		x.awaitBlocks(l.t, 30)
		d, err := l.kernel(l.t.Context(), v, x.node)
		require.NoError(l.t, err)
		require.True(l.t, isUpToDate(d) && d.role == "Primary" && d.peerRole == "Secondary" && !d.suspended, "%s, %s: %+v", v.name, when, d)
	}
	require.Equal(l.t, l.devices, l.listDevices(), when)
}

// loseControllers kills all controllers, deletes their folders and restores the first from a backup.
func (l *lostLog) loseControllers(backup string) {
	l.t.Helper()
	address := l.raftAddress("c1")
	for i := range l.lab.Guests() {
		require.NoError(l.t, l.cluster.KillController(l.t.Context(), i+1))
		l.mustExec(l.t, fmt.Sprint("n", i+1), "rm -r /var/lib/holdfast/controller*")
	}
	l.requireInUse("without controllers")
	content, err := os.ReadFile(backup)
	require.NoError(l.t, err)
	require.NoError(l.t, l.lab.Guest(1).Put(l.t.Context(), "/run/backup", content, 0o600))
	l.mustExec(l.t, "n1", "holdfast restore --data-dir /var/lib/holdfast/controller --backup /run/backup --advertise "+address+" --yes")
	for i := range l.lab.Guests() {
		require.NoError(l.t, l.cluster.StartController(l.t.Context(), i+1))
	}
	require.NoError(l.t, l.cluster.AwaitReady(l.t.Context()))
}

// raftAddress is where a controller's Raft listener is.
func (l *lostLog) raftAddress(name string) string {
	l.t.Helper()
	var list struct {
		Members []struct{ ID, Address string }
	}
	l.cluster.MustAsk(l.t, &list, "members")
	for _, m := range list.Members {
		if m.ID == name {
			return m.Address
		}
	}
	require.Fail(l.t, "no member "+name)
	return ""
}

type adoptPlan struct {
	Incarnation            uint64
	Todo, Waiting, Blocked json.Number
	Done                   bool
	Steps                  []struct{ Action, State, Volume, Detail string }
}

// adoptHosts has the log take in what the hosts know, when all have answered. Whether a volume with replicas was deleted since
// the backup, or moved to disks that are gone, no host can say: the operator does.
func (l *lostLog) adoptHosts(deleted *volume) {
	l.t.Helper()
	var plan adoptPlan
	eventually(l.t, timeout, "all hosts have answered", func(ctx context.Context) error {
		plan = adoptPlan{}
		err := l.cluster.Ask(ctx, &plan, "adopt")
		if err == nil && plan.Waiting != "0" {
			err = fmt.Errorf("it is %+v", plan)
		}
		return err
	})
	require.False(l.t, plan.Done)
	for _, step := range plan.Steps {
		require.Equal(l.t, step.Volume == deleted.id, step.State == "blocked", "each other difference has an explanation: %+v", step)
	}
	l.requireInUse("planned")
	args := []string{"adopt", "--incarnation", fmt.Sprint(plan.Incarnation), "--forget-missing"}
	for range 2 {
		l.cluster.MustAdmin(l.t, append(args, "--yes", "--wait")...)
	}
	l.cluster.MustAsk(l.t, &plan, args...)
	require.True(l.t, plan.Done, "%+v", plan)
}

// known are the ids of the volumes in the log.
func (l *lostLog) known() (ids []string) {
	l.t.Helper()
	var all struct {
		Volumes []struct{ ID string }
	}
	l.cluster.MustAsk(l.t, &all, "volumes")
	for _, v := range all.Volumes {
		ids = append(ids, v.ID)
	}
	return ids
}
