package stories

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
)

// addonsNamespace is where the published manifests have the manager.
const addonsNamespace = "csi-addons-system"

// addonsParts are the published manifests: the CRDs, the manager and its rights.
var addonsParts = []string{"crds.yaml", "setup-controller.yaml", "rbac.yaml"}

func (a *addonsCase) manifests() string { return filepath.Join(a.Cluster.Dir, "csi-addons.yaml") }

// startManager applies the published manifests, with the version of the manager that their release has in the place of the newest.
func (a *addonsCase) startManager(ctx context.Context) error {
	folder, err := a.Cluster.AddonsObjects()
	if err != nil {
		return err
	}
	var objects []string
	for _, part := range addonsParts {
		text, err := os.ReadFile(filepath.Join(folder, part))
		if err != nil {
			return err
		}
		objects = append(objects, strings.ReplaceAll(string(text), "k8s-controller:latest", "k8s-controller:"+cluster.AddonsVersion))
	}
	if err := os.WriteFile(a.manifests(), []byte(strings.Join(objects, "\n---\n")), 0o600); err != nil {
		return err
	}
	in := a.In(addonsNamespace)
	if _, err := in.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", a.manifests()); err != nil {
		return err
	}
	_, err = in.Kubectl(ctx, "rollout", "status", "deployment/csi-addons-controller-manager", "--timeout=3m")
	return err
}

// off switches the sidecars off, and removes what they made, as the chart's page says; the manager frees it.
func (a *addonsCase) off(ctx context.Context) error {
	return a.Time("helm upgrade --wait without it to nothing left", func() error {
		if err := helmInstall(ctx, a.Teller); err != nil {
			return err
		}
		in := a.In(namespace)
		if _, err := in.Kubectl(ctx, "delete", "csiaddonsnodes", "--all", "--timeout=2m"); err != nil {
			return err
		}
		if _, err := in.Kubectl(ctx, "delete", "lease", "csi-holdfast-storage-csi-addons"); err != nil {
			return err
		}
		return kit.Until(ctx, patience, func() error { return a.noneLeft(ctx) })
	})
}

// noneLeft wants nothing of CSI-Addons where Holdfast is, and no right of its sidecar.
func (a *addonsCase) noneLeft(ctx context.Context) error {
	in := a.In(namespace)
	for _, kind := range []string{"csiaddonsnodes", "networkfenceclasses", "networkfences", "secrets", "roles", "rolebindings", "clusterroles", "clusterrolebindings", "leases"} {
		found, err := in.List(ctx, kind, "")
		if err != nil {
			return err
		}
		for _, o := range found {
			of := o.GroupVersionKind().Group == "csiaddons.openshift.io"
			if of || strings.HasPrefix(o.GetName(), "holdfast-csi-addons") || strings.HasSuffix(o.GetName(), "-storage-csi-addons") {
				return fmt.Errorf("this is left: %s %s", o.GetKind(), o.GetName())
			}
		}
	}
	return nil
}

// removeManager removes the manager with the CRDs, and what the story made beside its namespace.
func (a *addonsCase) removeManager(ctx context.Context) error {
	_, err := a.In(addonsNamespace).Kubectl(ctx, "delete", "--timeout=2m", "-f", a.manifests())
	return errors.Join(err, a.Delete(ctx, "storageclasses", withToken, false), a.In(namespace).Delete(ctx, "secrets", "story-token", false))
}
