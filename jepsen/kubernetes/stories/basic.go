package stories

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var basic = []story.Story{
	{Name: "claim", Tells: "five claims in turn become Bound, then five pods with claims of late binding run and write", Limit: 10 * time.Minute, Tell: tellClaim},
	{Name: "recreated", Tells: "a pod is deleted and made again with the same claim, and has its data", Limit: 10 * time.Minute, Tell: tellRecreated},
	{Name: "growth", Tells: "a volume grows while a pod writes to it", Limit: 10 * time.Minute, Tell: tellGrowth},
	{Name: "attributes", Tells: "a claim gets another VolumeAttributesClass", Limit: 5 * time.Minute, Tell: tellAttributes},
	{Name: "one-pod", Tells: "a ReadWriteOncePod claim admits a second pod only after the first", Limit: 5 * time.Minute, Tell: tellOnePod},
	{Name: "subpath", Tells: "a pod sees only a folder of its volume", Limit: 5 * time.Minute, Tell: tellSubPath},
	{Name: "ephemeral", Tells: "a pod's own claim comes and goes with it", Limit: 5 * time.Minute, Tell: tellEphemeral},
	{Name: "fsgroup", Tells: "100,000 files get the pod's group when it starts", Limit: 15 * time.Minute, Tell: tellFSGroup},
	{Name: "statefulset", Tells: "a StatefulSet of three spreads over the nodes, each volume on its pod's host", Limit: 10 * time.Minute, Tell: tellStatefulSet},
}

const tries = 5

func tellClaim(ctx context.Context, t *story.Teller) error {
	var toBound, toReady []time.Duration
	for i := range tries {
		c := claim{name: fmt.Sprintf("at-once-%d", i), class: immediate, size: "1Gi"}
		begun := time.Now()
		if err := t.Apply(ctx, c.manifest()); err != nil {
			return err
		}
		if err := bound(ctx, t, c.name); err != nil {
			return err
		}
		toBound = append(toBound, time.Since(begun))
	}
	for i := range tries {
		c := claim{name: fmt.Sprintf("late-%d", i), class: late, size: "1Gi"}
		begun := time.Now()
		if err := start(ctx, t, c, pod{name: c.name, command: "echo here >/data/file && sync && " + keep}); err != nil {
			return err
		}
		toReady = append(toReady, time.Since(begun))
		if err := expect(ctx, t, c.name, "cat /data/file", "here"); err != nil {
			return err
		}
	}
	t.Took("claim to Bound, median of 5", median(toBound))
	t.Took("claim and pod to Ready, median of 5", median(toReady))
	t.Took("slowest of these", slices.Max(toReady))
	return nil
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func tellRecreated(ctx context.Context, t *story.Teller) error {
	c, p := claim{name: "data", class: late, size: "1Gi"}, pod{name: "pod", claim: "data"}
	if err := start(ctx, t, c, p); err != nil {
		return err
	}
	sum, err := write(ctx, t, p.name, "file")
	if err != nil {
		return err
	}
	return all(
		func() error {
			return t.Time("deletion of the pod", func() error { return gone(ctx, t, "pods", p.name) })
		},
		func() error { return t.Time("made again to Ready", func() error { return start(ctx, t, c, p) }) },
		func() error { return same(ctx, t, p.name, "file", sum) },
	)
}

// writeOn writes a line each 100 ms, and ends the pod's container at the first error.
const writeOn = `n=0; while n=$((n+1)); do echo $n >>/data/lines || exit 1; sync /data/lines || exit 1; usleep 100000; done`

func tellGrowth(ctx context.Context, t *story.Teller) error {
	if err := start(ctx, t, claim{name: "data", class: xfs, size: "1Gi"}, pod{name: "pod", command: writeOn}); err != nil {
		return err
	}
	if err := t.Time("1 to 3 GiB in the claim's status", func() error {
		if err := t.Patch(ctx, "persistentvolumeclaims", "data", `{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`); err != nil {
			return err
		}
		return t.Wait(ctx, patience, "persistentvolumeclaims", "data", fieldIs("3Gi", "status", "capacity", "storage"))
	}); err != nil {
		return err
	}
	return all(
		func() error { return expect(ctx, t, "pod", "df -m /data | awk 'NR==2 {print ($2 > 2500)}'", "1") },
		func() error { return writesOn(ctx, t, "pod") },
	)
}

// writesOn wants a pod with writeOn to write still, without having been started again.
func writesOn(ctx context.Context, t *story.Teller, pod string) error {
	if err := t.Wait(ctx, patience, "pods", pod, restarts(0)); err != nil {
		return err
	}
	return expect(ctx, t, pod, `a=$(tail -n 1 /data/lines); sleep 2; b=$(tail -n 1 /data/lines); test $b -gt $a && echo on`, "on")
}

func tellAttributes(ctx context.Context, t *story.Teller) error {
	c := claim{name: "data", class: late, size: "1Gi", attributes: "silver"}
	if err := start(ctx, t, c, pod{name: "pod", command: writeOn}); err != nil {
		return err
	}
	if err := t.Time("other class in the claim's status", func() error {
		if err := t.Patch(ctx, "persistentvolumeclaims", "data", `{"spec":{"volumeAttributesClassName":"gold"}}`); err != nil {
			return err
		}
		return t.Wait(ctx, patience, "persistentvolumeclaims", "data", fieldIs("gold", "status", "currentVolumeAttributesClassName"))
	}); err != nil {
		return err
	}
	return writesOn(ctx, t, "pod")
}

func tellOnePod(ctx context.Context, t *story.Teller) error {
	c := claim{name: "data", class: late, size: "1Gi", modes: "ReadWriteOncePod"}
	if err := start(ctx, t, c, pod{name: "first"}); err != nil {
		return err
	}
	second := pod{name: "second", claim: "data"}
	if err := t.Apply(ctx, second.manifest()); err != nil {
		return err
	}
	return all(
		func() error { return t.Wait(ctx, patience, "pods", "second", unschedulable) },
		func() error { return t.Delete(ctx, "pods", "first", false) },
		func() error {
			return t.Time("deletion of the first to the second Ready", func() error { return running(ctx, t, "second") })
		},
	)
}

func tellSubPath(ctx context.Context, t *story.Teller) error {
	c := claim{name: "data", class: late, size: "1Gi"}
	whole := pod{name: "whole", command: "mkdir -p /data/a && echo below >/data/a/file && sync && " + keep}
	if err := start(ctx, t, c, whole); err != nil {
		return err
	}
	part := pod{name: "part", claim: "data", mount: "subPath: a"}
	if err := t.Apply(ctx, part.manifest()); err != nil {
		return err
	}
	return all(
		func() error { return running(ctx, t, "part") },
		func() error { return expect(ctx, t, "part", "ls /data; cat /data/file", "file\nbelow") },
	)
}

// ephemeral is a volume of a pod's own.
const ephemeral = `ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], storageClassName: ` + late +
	`, resources: {requests: {storage: 1Gi}}}}}`

func tellEphemeral(ctx context.Context, t *story.Teller) error {
	p := pod{name: "pod", command: "echo here >/data/file && " + keep, volume: ephemeral}
	if err := t.Apply(ctx, p.manifest()); err != nil {
		return err
	}
	if err := t.Time("pod to Ready", func() error { return running(ctx, t, "pod") }); err != nil {
		return err
	}
	volume, err := volumeOf(ctx, t, "pod-data")
	if err != nil {
		return err
	}
	return t.Time("deletion of the pod to the end of its volume", func() error {
		if err := gone(ctx, t, "pods", "pod"); err != nil {
			return err
		}
		return t.Gone(ctx, patience, "persistentvolumes", volume)
	})
}

func tellFSGroup(ctx context.Context, t *story.Teller) error {
	c := claim{name: "data", class: late, size: "2Gi"}
	fill := `i=0; while test $i -lt 100; do mkdir /data/$i; (cd /data/$i && seq 1000 | xargs touch); i=$((i+1)); done; sync; ` + keep
	if err := start(ctx, t, c, pod{name: "fill", command: fill}); err != nil {
		return err
	}
	if err := all(
		func() error {
			return untilSays(ctx, t, "fill", "find /data -type f | wc -l", "100000")
		},
		func() error { return gone(ctx, t, "pods", "fill") },
	); err != nil {
		return err
	}
	group := "securityContext: {fsGroup: 4711, fsGroupChangePolicy: OnRootMismatch}"
	if err := t.Time("pod to Ready with the group of all files changed", func() error { return start(ctx, t, c, pod{name: "first", spec: group}) }); err != nil {
		return err
	}
	return all(
		func() error { return expect(ctx, t, "first", "find /data -type f -group 4711 | wc -l", "100000") },
		func() error { return gone(ctx, t, "pods", "first") },
		func() error {
			return t.Time("again, with nothing to change", func() error { return start(ctx, t, c, pod{name: "second", spec: group}) })
		},
	)
}
