package stories

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var floor = story.Story{
	Name: "hundred-without", Tells: "100 claims at once with 100 volumes that are there: what the API server and its controllers take alone",
	Limit: 10 * time.Minute, Tell: tellFloor,
}

var hundred = story.Story{
	Name: "hundred", Tells: "100 claims at once, each a new volume", Limit: 15 * time.Minute, Tell: tellHundred,
}

const atOnce = 100

// static is a volume that is there, and that nobody uses.
const static = `apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s-%[2]s, labels: {story: %[1]s}}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  persistentVolumeReclaimPolicy: Retain
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: %[1]s, name: %[2]s}
  hostPath: {path: /tmp}
---
`

func tellFloor(ctx context.Context, t *story.Teller) error {
	if err := t.Time("100 claims and volumes to all Bound", func() error {
		return claims(ctx, t, atOnce, func(name string) string {
			return fmt.Sprintf(static, t.Namespace, name) + claim{name: name, class: `""`, size: "1Gi"}.manifest()
		})
	}); err != nil {
		return err
	}
	_, err := t.Kubectl(ctx, "delete", "pv", "-l", "story="+t.Namespace, "--wait=false")
	return err
}

func tellHundred(ctx context.Context, t *story.Teller) error {
	if err := t.Time("100 claims to all Bound", func() error {
		return claims(ctx, t, atOnce, func(name string) string { return claim{name: name, class: immediate, size: "100Mi"}.manifest() })
	}); err != nil {
		return err
	}
	return t.Time("deletion of all 100 volumes", func() error {
		if _, err := t.Kubectl(ctx, "delete", "pvc", "--all", "--wait=false"); err != nil {
			return err
		}
		return kit.Until(ctx, patience, func() error { return noVolumes(ctx, t) })
	})
}

// claims makes so many claims at once and waits until all are Bound.
func claims(ctx context.Context, t *story.Teller, count int, manifest func(name string) string) error {
	failed := make(chan error, count)
	for i := range count {
		go func() { failed <- t.Apply(ctx, manifest(fmt.Sprintf("c%03d", i))) }()
	}
	for range count {
		if err := <-failed; err != nil {
			return err
		}
	}
	return kit.Until(ctx, 2*patience, func() error {
		all, err := t.List(ctx, "persistentvolumeclaims", "")
		if err != nil {
			return err
		}
		waiting := 0
		for _, c := range all {
			if kit.Text(&c, "status", "phase") != "Bound" {
				waiting++
			}
		}
		if waiting > 0 || len(all) < count {
			return fmt.Errorf("%d of %d claims are not Bound", waiting, len(all))
		}
		return nil
	})
}

// noVolumes wants no volume of this namespace's claims to be left.
func noVolumes(ctx context.Context, t *story.Teller) error {
	all, err := t.List(ctx, "persistentvolumes", "")
	if err != nil {
		return err
	}
	left := 0
	for _, v := range all {
		if kit.Text(&v, "spec", "claimRef", "namespace") == t.Namespace && strings.HasPrefix(v.GetName(), "pvc-") {
			left++
		}
	}
	if left > 0 {
		return fmt.Errorf("%d volumes are left", left)
	}
	return nil
}
