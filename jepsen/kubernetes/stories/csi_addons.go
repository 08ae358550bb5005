package stories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var csiAddons = story.Story{
	Name: "csi-addons", Tells: "the chart runs the published sidecar beside controllers and nodes, and the published manager connects to each; what a volume in use does not need any more is reclaimed, a node is fenced and unfenced; " +
		"then the same with a token, without which nothing is done; then without it, and nothing is left",
	Limit: 40 * time.Minute, Tell: tellCSIAddons, Needs: byCSIAddons,
}

// byCSIAddons says why the story cannot be told.
func byCSIAddons(ctx context.Context, t *story.Teller) error {
	if _, err := t.Cluster.AddonsObjects(); err != nil {
		return err
	}
	return bySharedKernel(ctx, t)
}

// The classes of fences, of which a change of the token needs another, and the class of volumes with the token.
const openFences, guardedFences, withToken = "open", "guarded", "story-csi-addons"

// addonsOn are the arguments of helm for the sidecars, with a class of fences.
func addonsOn(class, more string) []string {
	return []string{"--set", fmt.Sprintf("csiAddons.enabled=true,csiAddons.networkFenceClasses.%s.parameters.clusterID=story%s", class, more)}
}

// addonsToken is the Secret with the token, and a class of volumes whose calls have it.
const addonsToken = `apiVersion: v1
kind: Secret
metadata: {name: story-token, namespace: holdfast}
stringData: {holdfastToken: of-the-story}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: story-csi-addons}
provisioner: csi.holdfast.storage
volumeBindingMode: WaitForFirstConsumer
parameters:
  csi.storage.k8s.io/node-stage-secret-name: story-token
  csi.storage.k8s.io/node-stage-secret-namespace: holdfast
`

func tellCSIAddons(ctx context.Context, t *story.Teller) (err error) {
	a := addonsCase{Teller: t}
	defer func() {
		if err != nil { // the stories after this one are told without
			err = errors.Join(err, helmInstall(ctx, t))
		}
	}()
	return all(
		func() error { return a.startManager(ctx) },
		func() error { return a.open(ctx) },
		func() error { return a.guarded(ctx) },
		func() error { return a.off(ctx) },
		func() error { return removeAll(ctx, t, "pods", "pvc") },
		func() error { return a.removeManager(ctx) },
	)
}

// addonsCase is a cluster with the manager of CSI-Addons.
type addonsCase struct{ *story.Teller }

// open has everything without a token.
func (a *addonsCase) open(ctx context.Context) error {
	return all(
		func() error { return a.upgraded(ctx, openFences, "") },
		func() error {
			return start(ctx, a.Teller, claim{name: "plain", class: late, size: "1Gi"}, pod{name: "plain"})
		},
		func() error { return a.reclaims(ctx, "plain") },
		func() error { return a.fences(ctx, openFences) },
	)
}

// guarded has it with a token: the class of volumes that does not name it is refused.
func (a *addonsCase) guarded(ctx context.Context) error {
	return all(
		func() error { return a.Apply(ctx, addonsToken) },
		func() error { return a.upgraded(ctx, guardedFences, ",csiAddons.tokenSecretName=story-token") },
		func() error { return a.refused(ctx, "plain") },
		func() error {
			return start(ctx, a.Teller, claim{name: "token", class: withToken, size: "1Gi"}, pod{name: "token"})
		},
		func() error { return a.reclaims(ctx, "token") },
		func() error { return a.fences(ctx, guardedFences) },
	)
}

// upgraded switches the sidecars on, and waits until the manager is connected to each. The manager removes the object of a sidecar that it did
// not reach three times, as of a pod that restarts, and the sidecar makes it when it starts: where it comes to lack one, the pod is deleted, as the
// page says.
func (a *addonsCase) upgraded(ctx context.Context, class, more string) error {
	return a.Time(fmt.Sprintf("helm upgrade --wait, with the fences %q, to the manager connected to all", class), func() error {
		if err := helmInstall(ctx, a.Teller, addonsOn(class, more)...); err != nil {
			return err
		}
		err := a.connected(ctx, class)
		if err == nil || ctx.Err() != nil {
			return err
		}
		a.Note("pods without an object of CSI-Addons are started again: %v", err)
		return errors.Join(a.restartMissing(ctx), a.connected(ctx, class))
	})
}

// restartMissing deletes the pods whose sidecars no object names.
func (a *addonsCase) restartMissing(ctx context.Context) error {
	found, err := a.In(namespace).List(ctx, "csiaddonsnodes", "")
	if err != nil {
		return err
	}
	pods, err := a.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component in (controller, node)"})
	if err != nil {
		return err
	}
	for _, p := range pods.Items {
		named := slices.ContainsFunc(found, func(o unstructured.Unstructured) bool {
			return strings.Contains(kit.Text(&o, "spec", "driver", "endpoint"), "//"+p.Name+".")
		})
		if !named {
			err = errors.Join(err, a.Client.CoreV1().Pods(namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}))
		}
	}
	return err
}
