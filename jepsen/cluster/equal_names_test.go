package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// belongings are what an orchestrator made, each at the same place as the other orchestrator's of the same name.
type belongings struct {
	volumes                          []*harness.Volume
	snapshots, groups, groupSnapshot []string
}

// ids are those of all of it.
func (b *belongings) ids() (all []string) {
	for _, v := range b.volumes {
		all = append(all, v.ID)
	}
	return append(append(append(all, b.snapshots...), b.groups...), b.groupSnapshot...)
}

// S29, S33: the orchestrators of two sites give volumes, snapshots, groups and group snapshots the same names, while the
// leader is killed again and again. Each has its own, also when it asks again, and can neither change nor delete the
// other's.
func TestS29_S33_TwoOrchestratorsUseTheSameNames(t *testing.T) {
	c := startCluster(t, harness.Options{Supervise: true, Nodes: 2, Flags: []string{"--sites", "A,B"}})
	a := &harness.CO{Cluster: c, Controllers: []string{"c1", "c3"}}
	b := &harness.CO{Cluster: c, Controllers: []string{"c2"}}
	kills := shortOrLong(int32(3), 20)
	var ofA, ofB *belongings
	var killed atomic.Int32
	goOn := func(sets int) bool { return sets < 3 || killed.Load() < kills }
	duringLeaderKills(t, c, &killed, func(ctx context.Context) error {
		var both errgroup.Group
		both.Go(func() (err error) { ofA, err = makeBelongings(ctx, a, goOn); return err })
		both.Go(func() (err error) { ofB, err = makeBelongings(ctx, b, goOn); return err })
		return both.Wait()
	})
	t.Logf("%d leaders were killed while A made %d volumes and B %d; A repeated %d calls, B %d", killed.Load(), len(ofA.volumes), len(ofB.volumes), a.Retries.Load(), b.Retries.Load())
	asBefore := func(sets int) bool { return sets < len(ofA.groups) }
	requireDistinct(t, ofA, ofB)
	again, err := makeBelongings(t.Context(), a, asBefore)
	require.NoError(t, err)
	require.Equal(t, ofA.ids(), again.ids(), "A asks again")
	data, err := contentOf(t, a, ofA.volumes[0])
	require.NoError(t, err)

	requireUntouchable(t, b, ofA)
	require.NoError(t, deleteBelongings(t.Context(), b, ofB))
	kept, err := makeBelongings(t.Context(), a, asBefore)
	require.NoError(t, err)
	require.Equal(t, ofA.ids(), kept.ids(), "B deleted its own of every name")
	require.NoError(t, a.PublishStageBind(t.Context(), ofA.volumes[0], "n1"))
	require.NoError(t, sameData(ofA.volumes[0], data))
	require.NoError(t, a.UnbindUnstageUnpublish(t.Context(), ofA.volumes[0]))
	require.NoError(t, deleteBelongings(t.Context(), a, ofA))
	requireExactVolumes(t, c, nil)
}

// contentOf writes to a volume and answers what.
func contentOf(t *testing.T, co *harness.CO, v *harness.Volume) ([]byte, error) {
	t.Helper()
	require.NoError(t, co.PublishStageBind(t.Context(), v, "n1"))
	data, err := writeTo(v)
	require.NoError(t, co.UnbindUnstageUnpublish(t.Context(), v))
	return data, err
}

// duringLeaderKills kills one leader after another until the work is done, and counts them.
func duringLeaderKills(t *testing.T, c *harness.Cluster, killed *atomic.Int32, work func(context.Context) error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- work(t.Context()) }()
	for {
		leader, err := c.Leader(t.Context())
		if err == nil && c.Kill(t.Context(), leader) == nil {
			killed.Add(1)
		}
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		case <-time.After(3 * time.Second): // the killed one is back, and there is a leader for a while
		}
	}
}

// makeBelongings makes sets, as long as it is to go on, of two volumes, a snapshot of each, a group of both and a group
// snapshot of these.
func makeBelongings(ctx context.Context, co *harness.CO, goOn func(sets int) bool) (*belongings, error) {
	made := &belongings{}
	for set := 0; goOn(set); set++ {
		if err := made.addSet(ctx, co, set); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (b *belongings) addSet(ctx context.Context, co *harness.CO, set int) error {
	var pair []*harness.Volume
	for i := range 2 {
		v, err := co.Create(ctx, harness.Spec{Name: fmt.Sprintf("data-%d-%d", set, i)})
		if err != nil {
			return err
		}
		snapshot, err := co.Snapshot(ctx, fmt.Sprintf("cut-%d-%d", set, i), v)
		if err != nil {
			return err
		}
		pair, b.snapshots = append(pair, v), append(b.snapshots, snapshot)
	}
	b.volumes = append(b.volumes, pair...)
	group, err := makeVolumeGroup(ctx, co, fmt.Sprintf("pair-%d", set), pair)
	if err != nil {
		return err
	}
	cut, err := co.Group(ctx, fmt.Sprintf("cut-%d", set), pair...)
	b.groups, b.groupSnapshot = append(b.groups, group), append(b.groupSnapshot, cut.GetGroupSnapshotId())
	return err
}

func makeVolumeGroup(ctx context.Context, co *harness.CO, name string, of []*harness.Volume) (id string, err error) {
	req := &volumegroup.CreateVolumeGroupRequest{Name: name}
	for _, v := range of {
		req.VolumeIds = append(req.VolumeIds, v.ID)
	}
	err = co.At(ctx, "make volume group "+name, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		res, err := volumegroup.NewControllerClient(conn).CreateVolumeGroup(ctx, req)
		id = res.GetVolumeGroup().GetVolumeGroupId()
		return err
	})
	return id, err
}

func requireDistinct(t *testing.T, a, b *belongings) {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range append(a.ids(), b.ids()...) {
		require.False(t, seen[id], "%s was made twice", id)
		seen[id] = true
	}
}

// requireUntouchable requires that an orchestrator cannot change what belongs to another.
func requireUntouchable(t *testing.T, co *harness.CO, of *belongings) {
	t.Helper()
	v := of.volumes[0]
	_, err := co.Snapshot(t.Context(), "stolen", v)
	for what, err := range map[string]error{
		"cut":              err,
		"expand":           co.Expand(t.Context(), &harness.Volume{ID: v.ID}, 2*v.Size),
		"modify":           co.Modify(t.Context(), v, map[string]string{"iopsLimit": "100"}),
		"delete":           co.Delete(t.Context(), v),
		"delete the group": deleteVolumeGroup(t.Context(), co, of.groups[0]),
	} {
		require.Equal(t, codes.FailedPrecondition, status.Code(errors.Unwrap(err)), "%s: %v", what, err)
	}
}

func deleteVolumeGroup(ctx context.Context, co *harness.CO, id string) error {
	return co.At(ctx, "delete volume group "+id, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		_, err := volumegroup.NewControllerClient(conn).DeleteVolumeGroup(ctx, &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: id})
		return err
	})
}

// deleteBelongings deletes all of it by its ids.
func deleteBelongings(ctx context.Context, co *harness.CO, b *belongings) error {
	for i, id := range b.groupSnapshot {
		cut, err := co.Group(ctx, fmt.Sprintf("cut-%d", i), b.volumes[2*i:2*i+2]...) // the same again, with its members
		if err != nil || cut.GetGroupSnapshotId() != id {
			return fmt.Errorf("group snapshot %s is now %s: %w", id, cut.GetGroupSnapshotId(), err)
		}
		if err := co.DeleteGroup(ctx, cut); err != nil {
			return err
		}
	}
	for _, id := range b.snapshots {
		if err := co.DeleteSnapshot(ctx, id); err != nil {
			return err
		}
	}
	for _, id := range b.groups {
		if err := deleteVolumeGroup(ctx, co, id); err != nil {
			return err
		}
	}
	for _, v := range b.volumes { // a group's deletion deletes its members
		if err := co.Delete(ctx, v); err != nil {
			return err
		}
	}
	return nil
}
