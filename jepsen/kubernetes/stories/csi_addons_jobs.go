package stories

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// connected waits until the manager is connected to the sidecars of all pods that are there now, and knows from each whom it may fence.
func (a *addonsCase) connected(ctx context.Context, class string) error {
	return kit.Until(ctx, patience, func() error {
		found, err := a.In(namespace).List(ctx, "csiaddonsnodes", "")
		if err != nil {
			return err
		}
		if want := 3 + a.Cluster.Started(); len(found) != want {
			return fmt.Errorf("there are %d CSIAddonsNodes, not %d", len(found), want)
		}
		for _, o := range found {
			if err := a.connectedTo(ctx, &o, class); err != nil {
				return fmt.Errorf("CSIAddonsNode %s: %w", o.GetName(), err)
			}
		}
		return nil
	})
}

func (a *addonsCase) connectedTo(ctx context.Context, o *unstructured.Unstructured, class string) error {
	endpoint, err := url.Parse(kit.Text(o, "spec", "driver", "endpoint"))
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(endpoint.Hostname(), ".")
	made, err := a.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if by := o.GetAnnotations()["sidecar.csiaddons.openshift.io/createdByPodUID"]; by != string(made.UID) {
		return fmt.Errorf("it is by a pod %s before %s", by, name)
	}
	if why := fieldIs("Connected", "status", "state")(o); why != "" {
		return fmt.Errorf("%s: %s", why, kit.Text(o, "status", "message"))
	}
	clients, _, _ := unstructured.NestedSlice(o.Object, "status", "networkFenceClientStatus")
	for _, c := range clients {
		if c, ok := c.(map[string]any); ok && c["networkFenceClassName"] == class && c["ClientDetails"] != nil {
			return nil
		}
	}
	return fmt.Errorf("nobody is named for the class %s: %v", class, clients)
}

// reclaimJob is tried again for long enough for another leader to be found.
const reclaimJob = `apiVersion: csiaddons.openshift.io/v1alpha1
kind: ReclaimSpaceJob
metadata: {name: %s}
spec: {target: {persistentVolumeClaim: %s}, backOffLimit: %d}
`

// reclaims writes and removes a file in a pod's volume, which is its claim's name, and has what it took given back to the pool. What the
// job's status says of it is left out: the manager of this release takes the usages for each other, so it is 0.
func (a *addonsCase) reclaims(ctx context.Context, pod string) error {
	const written = 64 << 10 // KiB
	if _, err := a.Exec(ctx, pod, "dd if=/dev/urandom of=/data/gone bs=1M count=64 conv=fsync 2>/dev/null && rm /data/gone && sync"); err != nil {
		return err
	}
	before, err := a.poolsUse(ctx)
	if err != nil {
		return err
	}
	if err := a.Time("ReclaimSpaceJob of a volume in use ("+pod+") to Succeeded", func() error {
		if err := a.Apply(ctx, reclaimJob, pod, pod, 16); err != nil {
			return err
		}
		return a.Wait(ctx, patience, "reclaimspacejobs", pod, fieldIs("Succeeded", "status", "result"))
	}); err != nil {
		return err
	}
	after, err := a.poolsUse(ctx)
	if err == nil && before-after < written/2 {
		err = fmt.Errorf("of %d KiB that were removed %d are back in the pool", written, before-after)
	}
	return err
}

// poolsUse is what the files in the nodes' pools take, in KiB.
func (a *addonsCase) poolsUse(ctx context.Context) (sum int, err error) {
	for n := 1; n <= a.Cluster.Nodes; n++ {
		out, err := a.Cluster.Node(n).Exec(ctx, "du", "-sk", cluster.PoolAt)
		if err != nil {
			return 0, err
		}
		used, err := strconv.Atoi(strings.Fields(out)[0])
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// refused wants the job of a volume whose class names no token to end for that.
func (a *addonsCase) refused(ctx context.Context, claim string) error {
	if err := a.Apply(ctx, reclaimJob, "refused", claim, 8); err != nil {
		return err
	}
	return a.Wait(ctx, patience, "reclaimspacejobs", "refused", func(o *unstructured.Unstructured) string {
		if why := fieldIs("Failed", "status", "result")(o); why != "" {
			return why
		}
		if conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions"); !strings.Contains(fmt.Sprint(conditions), "holdfastToken") {
			return fmt.Sprintf("it failed for something else: %v", conditions)
		}
		return ""
	})
}

const networkFence = `apiVersion: csiaddons.openshift.io/v1alpha1
kind: NetworkFence
metadata: {name: %s}
spec: {networkFenceClassName: %[1]s, cidrs: [%s/32], fenceState: %s}
`

// fences fences the last node, takes the fence off and has a pod write there.
func (a *addonsCase) fences(ctx context.Context, class string) error {
	node := a.Cluster.Node(a.Cluster.Nodes).Name
	address, err := a.addressOf(ctx, node)
	if err != nil {
		return err
	}
	for _, state := range []string{"Fenced", "Unfenced"} {
		if err := a.Time(fmt.Sprintf("NetworkFence of a node to %s (%s)", state, class), func() error { return a.fence(ctx, class, node, address, state) }); err != nil {
			return err
		}
	}
	if err := gone(ctx, a.Teller, "networkfences", class); err != nil {
		return err
	}
	if err := writerOn(ctx, a.Teller, "writer-"+class, node); err != nil {
		return err
	}
	// A host whose volumes a fence took serves again only when it has taken them down, so the next one is to find none.
	return errors.Join(gone(ctx, a.Teller, "pods", "writer-"+class), gone(ctx, a.Teller, "persistentvolumeclaims", "writer-"+class))
}

var fenceSays = map[string]string{"Fenced": "fencing operation successful", "Unfenced": "unfencing operation successful"}

func (a *addonsCase) fence(ctx context.Context, class, node, address, state string) error {
	if err := a.Apply(ctx, networkFence, class, address, state); err != nil {
		return err
	}
	if err := a.Wait(ctx, patience, "networkfences", class, fieldIs(fenceSays[state], "status", "message")); err != nil {
		return err
	}
	return kit.Until(ctx, patience, func() error {
		n, err := loggedNodeOf(ctx, a.Teller, node)
		if err == nil && (n.Fence != "") != (state == "Fenced") {
			err = fmt.Errorf("the log has the fence %q for the node %s, which is to be %s", n.Fence, node, state)
		}
		return err
	})
}

func (a *addonsCase) addressOf(ctx context.Context, node string) (string, error) {
	n, err := a.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, address := range n.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address, nil
		}
	}
	return "", fmt.Errorf("the node %s has no address", node)
}
