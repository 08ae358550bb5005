package conformance

import (
	"context"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

type reclaimRequest = reclaimspace.ControllerReclaimSpaceRequest

// reclaimRows are those of volumes that nobody uses.
var reclaimRows = map[string]rowTest{
	"ADD-RS-ControllerReclaimSpace-01": rowServedIff(addonsHas(reclaimCapability(identity.Capability_ReclaimSpace_OFFLINE)), func(k *fixture, conn *grpc.ClientConn) error {
		_, err := reclaimspace.NewReclaimSpaceControllerClient(conn).ControllerReclaimSpace(k.ctx, &reclaimRequest{VolumeId: unknownVolumeID})
		return ignoreCode(err, codes.NotFound)
	}),
	"ADD-RS-ControllerReclaimSpace-02": rowOf(unusedIsFreed),
	"ADD-RS-ControllerReclaimSpace-04": rowOf(unusedIsFreed),
	"ADD-RS-ControllerReclaimSpace-08": rowOf(unusedIsFreed),
	"ADD-RS-ControllerReclaimSpace-03": rowOf(func(k *fixture) {
		unusedIsFreed(k)
		u, target, sum := k.rawUse()
		u.requireUnbound(target)
		u.unstage()
		require.NoError(k.t, u.unpublishVolume(k.ctx))
		before := k.occupied(u.id)
		k.reclaimed(u.id)
		require.Equal(k.t, sum, k.sumOf(u.id))
		require.Equal(k.t, before, k.occupied(u.id))
	}),
	"ADD-RS-ControllerReclaimSpace-05": rowOf(controllerFieldMissing),
	"ADD-RS-ControllerReclaimSpace-09": rowOf(controllerFieldMissing),
	"ADD-RS-ControllerReclaimSpace-06": rowOf(func(k *fixture) {
		id := k.volume().ID
		requireRefused(k.t, k.reclaimError(&reclaimRequest{VolumeId: id, Parameters: map[string]string{"colour": "blue"}}), codes.InvalidArgument)
		k.untilOK(func() error {
			return k.reclaimError(&reclaimRequest{VolumeId: id, Parameters: map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "x"}})
		})
	}),
	"ADD-RS-ControllerReclaimSpace-07": rowOf(func(k *fixture) {
		const canary = "canary-5d2e60-reclaim"
		id := k.volume().ID
		for _, secrets := range []map[string]string{nil, {"password": canary}} {
			k.untilOK(func() error { return k.reclaimError(&reclaimRequest{VolumeId: id, Secrets: secrets}) })
		}
		for _, key := range []string{"password", "not allowed"} {
			err := k.reclaimError(&reclaimRequest{VolumeId: unknownVolumeID, Secrets: map[string]string{key: canary}})
			require.Error(k.t, err)
			require.NotContains(k.t, err.Error(), canary)
		}
		k.requireNotOnDisk(canary)
	}),
	"ADD-RS-ControllerReclaimSpace-10": rowOf(func(k *fixture) {
		for _, id := range []string{unknownVolumeID, "of another form"} {
			requireRefused(k.t, k.reclaimError(&reclaimRequest{VolumeId: id}), codes.NotFound)
		}
	}),
	"ADD-RS-ControllerReclaimSpace-12": withWrongToken("c1", func(k *fixture, conn *grpc.ClientConn, secrets map[string]string) error {
		_, err := reclaimspace.NewReclaimSpaceControllerClient(conn).ControllerReclaimSpace(k.ctx, &reclaimRequest{VolumeId: unknownVolumeID, Secrets: secrets})
		return err
	}),
	"ADD-RS-ControllerReclaimSpace-14": rowOf(func(k *fixture) {
		v := k.unusedVolume()
		for wait := time.Millisecond; wait < 20*time.Millisecond; wait *= 2 {
			brief, cancel := context.WithTimeout(k.ctx, wait)
			_, _ = k.reclaim(brief, v.GetVolumeId()) // interrupted somewhere
			cancel()
		}
		k.reclaimed(v.GetVolumeId())
		for range 2 {
			again := k.reclaimed(v.GetVolumeId())
			require.NotNil(k.t, again.GetPreUsage())
			require.Equal(k.t, again.GetPreUsage().GetUsageBytes(), again.GetPostUsage().GetUsageBytes())
		}
		k.requireBeside(v)
		never := k.volume().ID // never formatted: there is nothing to reclaim
		k.reclaimed(never)
		k.reclaimed(never)
	}),
}

// reclaimFaultRows stop a process, or damage a filesystem.
var reclaimFaultRows = map[string]rowTest{
	"ADD-RS-ControllerReclaimSpace-11": rowOf(reclaimIsPending),
	"ADD-RS-ControllerReclaimSpace-13": rowOf(func(k *fixture) {
		v := k.unusedVolume()
		k.whileDamaged(v.GetVolumeId(), func() {
			k.requireUnknown(func(ctx context.Context) error {
				_, err := k.reclaim(ctx, v.GetVolumeId())
				return err
			})
		})
		k.reclaimed(v.GetVolumeId())
		k.requireBeside(v)
	}),
	"ADD-RS-NodeReclaimSpace-18": rowOf(func(k *fixture) {
		u, target := k.stagedVolume()
		require.NoError(k.t, shutDown(u.staging))
		k.requireUnknown(func(ctx context.Context) error {
			_, err := k.nodeReclaim(ctx, u.reclaimRequest(target))
			return err
		})
	}),
}

// unusedIsFreed: what was deleted is back in the pool, as the answer tells, and what was beside it is intact.
func unusedIsFreed(k *fixture) {
	v := k.unusedVolume()
	before := k.occupied(v.GetVolumeId())
	res := k.reclaimed(v.GetVolumeId())
	k.requireFreed(v.GetVolumeId(), before, res.GetPreUsage(), res.GetPostUsage())
	k.requireBeside(v)
}

func controllerFieldMissing(k *fixture) {
	for range 2 {
		requireRefused(k.t, k.reclaimError(&reclaimRequest{}), codes.InvalidArgument)
	}
}

// reclaimIsPending: a reclaim whose host does not go on is pending, and so is it beside a growth or a snapshot; its
// repetition is completed.
func reclaimIsPending(k *fixture) {
	v, growing, copied := k.unusedVolume(), k.unusedVolume(), k.unusedVolume()
	reclaim := func(id string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := k.reclaim(ctx, id)
			return err
		}
	}
	expand := func(ctx context.Context) error {
		_, err := k.controller.ControllerExpandVolume(ctx, growth(growing.GetVolumeId(), 20<<20, 0))
		return err
	}
	req := k.newSnapshotRequest(copied.GetVolumeId())
	snapshot := func(ctx context.Context) error {
		_, err := k.controller.CreateSnapshot(ctx, req)
		return err
	}
	k.whileStopped([]string{"n1"}, func() {
		k.requireAborted(expand)
		k.requireAborted(snapshot)
		for _, id := range []string{v.GetVolumeId(), v.GetVolumeId(), growing.GetVolumeId(), copied.GetVolumeId()} {
			k.requireAborted(reclaim(id))
		}
	})
	require.NoError(k.t, retried(k.ctx, expand))
	k.createSnapshotFrom(req)
	for _, id := range []string{v.GetVolumeId(), growing.GetVolumeId(), copied.GetVolumeId()} {
		require.NoError(k.t, retried(k.ctx, reclaim(id)))
	}
	k.requireBeside(v)
}
