package conformance

import (
	"context"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// volumeGroupFaultRows kill or stop processes.
var volumeGroupFaultRows = map[string]rowTest{
	"ADD-VG-Create-02": rowOf(volumeGroupIsMadeOnce),
	"ADD-VG-Delete-08": rowOf(func(k *fixture) {
		ids := k.volumes(3)
		id := k.volumeGroup(ids...).GetVolumeGroupId()
		remove := func(ctx context.Context) error {
			_, err := k.volumeGroups.DeleteVolumeGroup(ctx, &deleteGroupRequest{VolumeGroupId: id})
			return err
		}
		k.whileStopped([]string{"n1"}, func() {
			k.requireCode("a deletion whose host is stopped", k.callBriefly(remove), codes.Aborted, codes.DeadlineExceeded)
			k.killAndAwaitRestart("n1")
		})
		require.NoError(k.t, retried(k.ctx, remove))
		require.NoError(k.t, harness.Poll(k.ctx, timeout, "the volumes to be removed", func() (bool, error) {
			images, err := k.env.Cluster.AllImages()
			return err == nil && !slices.ContainsFunc(ids, func(id string) bool { return images[id] != "" }), err
		}))
		k.requireGone(ids...)
	}),
	"ADD-VG-Modify-12":  groupFailure("modify"),
	"ADD-VG-Get-07":     groupFailure("get"),
	"ADD-VG-List-11":    groupFailure("list"),
	"ADD-VGA-Create-08": groupFailure("create"),
	"ADD-VGA-Delete-05": groupFailure("delete"),
	"ADD-VGA-Modify-05": groupFailure("modify"),
	"ADD-VGA-Get-03":    groupFailure("get"),
	"ADD-VGA-List-04":   groupFailure("list"),
}

// groupFailures is what each call of volume groups answered without a majority; one outage serves all rows.
var groupFailures struct {
	once sync.Once
	errs map[string]error
}

// groupFailure makes a row of a call that fails without a majority, changes nothing by halves, and is completed by its
// repetition.
func groupFailure(call string) rowTest {
	return rowOf(func(k *fixture) {
		groupFailures.once.Do(func() { groupFailures.errs = failGroups(k) })
		err := groupFailures.errs[call]
		require.Error(k.t, err)
		k.requireCode(call, err, codes.Aborted, codes.Unavailable, codes.DeadlineExceeded)
		require.NotEmpty(k.t, status.Convert(err).Message())
	})
}

func failGroups(k *fixture) map[string]error {
	ids := k.volumes(3)
	g, empty := k.volumeGroup(ids[:2]...), k.volumeGroup()
	name := k.env.Name("set")
	var made string
	k.cleanUpWith(func(ctx context.Context) error {
		res, err := k.volumeGroups.CreateVolumeGroup(ctx, &createGroupRequest{Name: name})
		if err != nil {
			return err
		}
		return dissolve(ctx, k.volumeGroups, res.GetVolumeGroup().GetVolumeGroupId(), nil)
	})
	calls := map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			res, err := k.volumeGroups.CreateVolumeGroup(ctx, &createGroupRequest{Name: name})
			made = res.GetVolumeGroup().GetVolumeGroupId()
			return err
		},
		"modify": func(ctx context.Context) error {
			_, err := k.volumeGroups.ModifyVolumeGroupMembership(ctx, &modifyGroupRequest{VolumeGroupId: g.GetVolumeGroupId(), VolumeIds: ids[1:]})
			return err
		},
		"delete": func(ctx context.Context) error {
			_, err := k.volumeGroups.DeleteVolumeGroup(ctx, &deleteGroupRequest{VolumeGroupId: empty.GetVolumeGroupId()})
			return err
		},
		"get": func(ctx context.Context) error {
			_, err := k.volumeGroups.ControllerGetVolumeGroup(ctx, &getGroupRequest{VolumeGroupId: g.GetVolumeGroupId()})
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := k.volumeGroups.ListVolumeGroups(ctx, &listGroupsRequest{})
			return err
		},
	}
	errs := k.callWithoutQuorum(calls)
	members := volumeIDsOf(k.getVolumeGroup("c2", g.GetVolumeGroupId())) // the outcome may not be known yet, but it is whole
	require.Contains(k.t, [][]string{sorted(ids[:2]), sorted(ids[1:])}, sorted(members))
	for call, again := range calls {
		require.NoError(k.t, retried(k.ctx, again), call)
	}
	k.requireMembers(k.getVolumeGroup("c1", g.GetVolumeGroupId()), ids[1:]...)
	require.NotEmpty(k.t, made)
	requireRefused(k.t, volumeGroupNamed(k, empty.GetVolumeGroupId()), codes.NotFound)
	return errs
}

// callWithoutQuorum makes each call once at c1 while it has no majority.
func (k *fixture) callWithoutQuorum(calls map[string]func(ctx context.Context) error) map[string]error {
	k.t.Helper()
	errs := map[string]error{}
	k.whileStopped([]string{"c2", "c3"}, func() {
		k.awaitLeaseLoss()
		var mu sync.Mutex
		var all sync.WaitGroup
		for name, call := range calls {
			all.Go(func() {
				err := k.callBriefly(call)
				mu.Lock()
				defer mu.Unlock()
				errs[name] = err
			})
		}
		all.Wait()
	})
	k.awaitAllControllers()
	return errs
}

func sorted(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}
