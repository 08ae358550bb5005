package stories

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var snapshots = []story.Story{
	{Name: "snapshot", Tells: "a snapshot of a volume in use is taken, restored and the volume cloned; both have what was written before, not after", Limit: 10 * time.Minute, Tell: tellSnapshot, Needs: snapshotAPI},
	{Name: "group-snapshot", Tells: "one snapshot of two volumes of one node", Limit: 10 * time.Minute, Tell: tellGroupSnapshot, Needs: groupAPI},
}

func snapshotAPI(ctx context.Context, t *story.Teller) error {
	_, err := t.List(ctx, "volumesnapshotclasses", "")
	return err
}

func groupAPI(ctx context.Context, t *story.Teller) error {
	_, err := t.List(ctx, "volumegroupsnapshotclasses", "")
	return err
}

const snapshotOfData = `apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: snapshot}
spec: {volumeSnapshotClassName: holdfast, source: {persistentVolumeClaimName: data}}
`

func tellSnapshot(ctx context.Context, t *story.Teller) error {
	if err := start(ctx, t, claim{name: "data", class: late, size: "1Gi"}, pod{name: "pod"}); err != nil {
		return err
	}
	before, err := write(ctx, t, "pod", "before")
	if err != nil {
		return err
	}
	if err := t.Time("snapshot to readyToUse", func() error {
		if err := t.Apply(ctx, snapshotOfData); err != nil {
			return err
		}
		return t.Wait(ctx, patience, "volumesnapshots", "snapshot", fieldIs("true", "status", "readyToUse"))
	}); err != nil {
		return err
	}
	after, err := write(ctx, t, "pod", "after")
	if err != nil {
		return err
	}
	return all(
		func() error {
			return t.Time("restored to a pod Ready", func() error {
				return start(ctx, t, claim{name: "restored", class: immediate, size: "1Gi", from: "VolumeSnapshot/snapshot"}, pod{name: "restored"})
			})
		},
		func() error { return same(ctx, t, "restored", "before", before) },
		func() error { return expect(ctx, t, "restored", "ls /data/after 2>/dev/null || echo none", "none") },
		func() error {
			return t.Time("cloned to a pod Ready", func() error {
				return start(ctx, t, claim{name: "cloned", class: immediate, size: "1Gi", from: "PersistentVolumeClaim/data"}, pod{name: "cloned"})
			})
		},
		func() error { return same(ctx, t, "cloned", "after", after) },
		func() error {
			return t.Time("deletion of the snapshot", func() error { return gone(ctx, t, "volumesnapshots", "snapshot") })
		},
	)
}

const groupOfBoth = `apiVersion: groupsnapshot.storage.k8s.io/v1
kind: VolumeGroupSnapshot
metadata: {name: both}
spec: {volumeGroupSnapshotClassName: holdfast, source: {selector: {matchLabels: {together: "yes"}}}}
`

func tellGroupSnapshot(ctx context.Context, t *story.Teller) error {
	if err := errors.Join(
		start(ctx, t, claim{name: "one", class: late, size: "1Gi"}, pod{name: "one"}),
		start(ctx, t, claim{name: "two", class: late, size: "1Gi"}, pod{name: "two"}),
		t.Patch(ctx, "persistentvolumeclaims", "one", `{"metadata":{"labels":{"together":"yes"}}}`),
		t.Patch(ctx, "persistentvolumeclaims", "two", `{"metadata":{"labels":{"together":"yes"}}}`),
	); err != nil {
		return err
	}
	sum, err := write(ctx, t, "two", "file")
	if err != nil {
		return err
	}
	if err := t.Time("group snapshot of two to readyToUse", func() error {
		if err := t.Apply(ctx, groupOfBoth); err != nil {
			return err
		}
		return t.Wait(ctx, patience, "volumegroupsnapshots", "both", fieldIs("true", "status", "readyToUse"))
	}); err != nil {
		return err
	}
	of, err := snapshotOf(ctx, t, "two")
	if err != nil {
		return err
	}
	return all(
		func() error {
			return start(ctx, t, claim{name: "restored", class: immediate, size: "1Gi", from: "VolumeSnapshot/" + of}, pod{name: "restored"})
		},
		func() error { return same(ctx, t, "restored", "file", sum) },
		func() error { return gone(ctx, t, "volumegroupsnapshots", "both") },
	)
}
