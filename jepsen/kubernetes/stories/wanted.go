package stories

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func fieldIs(value string, path ...string) kit.Wanted { return kit.Field(value, path...) }

// restarts wants a pod whose first container was started again this often.
func restarts(want int64) kit.Wanted {
	return func(o *unstructured.Unstructured) string {
		all, _, _ := unstructured.NestedSlice(o.Object, "status", "containerStatuses")
		if len(all) == 0 {
			return "it has no container yet"
		}
		first, _ := all[0].(map[string]any)
		if got, _ := first["restartCount"].(int64); got != want {
			return fmt.Sprintf("it was started again %d times, not %d", got, want)
		}
		return ""
	}
}

// unschedulable wants a pod that the scheduler has refused.
func unschedulable(o *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if c, ok := c.(map[string]any); ok && c["type"] == "PodScheduled" && c["reason"] == "Unschedulable" {
			return ""
		}
	}
	return "the scheduler has not refused it"
}

// volumeOf is the name of a claim's PersistentVolume.
func volumeOf(ctx context.Context, t *story.Teller, claim string) (string, error) {
	o, err := t.Get(ctx, "persistentvolumeclaims", claim)
	if err != nil {
		return "", err
	}
	return kit.Text(o, "spec", "volumeName"), nil
}

// nodeOf is the node that a pod runs on.
func nodeOf(ctx context.Context, t *story.Teller, pod string) (string, error) {
	o, err := t.Get(ctx, "pods", pod)
	if err != nil {
		return "", err
	}
	return kit.Text(o, "spec", "nodeName"), nil
}

// untilSays runs a command in a pod until it says this.
func untilSays(ctx context.Context, t *story.Teller, pod, command, want string) error {
	return kit.Until(ctx, patience, func() error { return expect(ctx, t, pod, command, want) })
}

// eventSays waits for an event about an object whose message has these words.
func eventSays(ctx context.Context, t *story.Teller, object, words string) error {
	return kit.Until(ctx, patience, func() error {
		events, err := t.List(ctx, "events", "")
		if err != nil {
			return err
		}
		for _, e := range events {
			if kit.Text(&e, "involvedObject", "name") == object && strings.Contains(kit.Text(&e, "message"), words) {
				return nil
			}
		}
		return fmt.Errorf("no event about %s says %q", object, words)
	})
}

// snapshotOf is the name of a snapshot of a claim.
func snapshotOf(ctx context.Context, t *story.Teller, claim string) (string, error) {
	all, err := t.List(ctx, "volumesnapshots", "")
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if kit.Text(&s, "spec", "source", "persistentVolumeClaimName") == claim {
			return s.GetName(), nil
		}
	}
	return "", fmt.Errorf("there is no snapshot of the claim %s", claim)
}
