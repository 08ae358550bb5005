package stories

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

const (
	driver    = "csi.holdfast.storage"
	namespace = "holdfast"
	release   = "holdfast"
)

var install = story.Story{
	Name: "install", Tells: "the driver is installed, by helm with --wait or on the hosts, and every node offers it", Limit: 15 * time.Minute, Tell: tellInstall,
}

// values are what this cluster needs otherwise than a user's.
const values = `image: {registry: localhost, tag: %q, pullPolicy: Never}
storageClasses:
  holdfast-restore: {enabled: true}
  holdfast-xfs: {enabled: true, parameters: {fsType: xfs}}
# The control groups of pods are not where they are found by themselves: a machine has its own below the host's.
node: {ioCgroup: kubepods, replication: {enabled: %t, addressFrom: %s}}
controller: {nodes: [%s]}
volumeAttributesClasses:
  silver: {iopsLimit: "1000"}
  gold: {iopsLimit: "5000"}
`

func tellInstall(ctx context.Context, t *story.Teller) error {
	if t.Settings.OnHosts {
		return t.Time("programs of the hosts started, to the driver on every node", func() error { return installOnHosts(ctx, t) })
	}
	if err := t.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {pod-security.kubernetes.io/enforce: privileged}}}", namespace); err != nil {
		return err
	}
	if t.Cluster.Guests == 0 { // the others show the chart without
		if err := t.Apply(ctx, fmt.Sprintf(monitoringCRD, "podmonitor", "PodMonitor")+fmt.Sprintf(monitoringCRD, "prometheusrule", "PrometheusRule")); err != nil {
			return err
		}
	}
	if t.Settings.ThinPools {
		if err := makeVolumeGroups(ctx, t); err != nil {
			return err
		}
	}
	return t.Time("helm install --wait", func() error { return helmInstall(ctx, t) })
}

// helmInstall installs the chart, or upgrades it with more arguments, and waits until each node offers the driver.
func helmInstall(ctx context.Context, t *story.Teller, more ...string) error {
	if err := helmUpgrade(ctx, t, more...); err != nil {
		return err
	}
	return offered(ctx, t)
}

// helmUpgrade does what helmInstall does, but for the wait for the driver.
func helmUpgrade(ctx context.Context, t *story.Teller, more ...string) error {
	file := valuesFile(t)
	text := fmt.Sprintf(values, t.Settings.Tag, t.Cluster.Guests > 0, cluster.Network, controllersOn(t))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	args := append([]string{"upgrade", "--install", release, t.Settings.Chart, "--values", file, "--wait", "--timeout", "10m"}, more...)
	if t.Settings.ThinPools {
		args = append(args, valuesOfThinPools...)
	}
	_, err := t.In(namespace).Helm(ctx, t.Settings.Helm, args...)
	return err
}

// controllersOn are the nodes with the host's kernel but one, and the first of those with kernels of their own, where there are such: so
// the loss of one of these is the loss of a controller too, and that of another is not. Else the chart chooses.
func controllersOn(t *story.Teller) string {
	var names []string
	for n := 1; n < t.Cluster.Nodes && t.Cluster.Guests > 0; n++ {
		names = append(names, cluster.NodeName(n))
	}
	if t.Cluster.Guests > 0 {
		names = append(names, cluster.NodeName(t.Cluster.Nodes+1))
	}
	return strings.Join(names, ", ")
}

func valuesFile(t *story.Teller) string { return filepath.Join(t.Cluster.Dir, "values.yaml") }

// offered waits until kubelet has the driver on every node that is to have it.
func offered(ctx context.Context, t *story.Teller) error {
	first := 1
	if t.Settings.ThinPools {
		first = t.Cluster.Nodes + 1
	}
	return kit.Until(ctx, patience, func() error {
		for n := first; n <= t.Cluster.Started(); n++ {
			if err := offers(ctx, t, cluster.NodeName(n)); err != nil {
				return err
			}
		}
		return nil
	})
}

// installed says why a story of volumes cannot be told.
func installed(ctx context.Context, t *story.Teller) error {
	if _, err := t.Get(ctx, "csidrivers", driver); err != nil {
		return fmt.Errorf("the driver is not installed: %w", err)
	}
	return nil
}

// byHelm says why a story of the chart cannot be told.
func byHelm(ctx context.Context, t *story.Teller) error {
	if t.Settings.OnHosts {
		return errors.New("the programs run on the hosts, without the chart")
	}
	return installed(ctx, t)
}
