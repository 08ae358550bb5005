package stories

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/image"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// statefulSet has three pods on three nodes, each of which writes.
func statefulSet(name string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %[1]s}
spec:
  serviceName: %[1]s
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: %[1]s}}}
      containers:
      - name: main
        image: %[2]s
        command: [sh, -c, %[3]q]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: %[4]s, resources: {requests: {storage: 1Gi}}}
`, name, image.Busybox, writeOn, late)
}

func tellStatefulSet(ctx context.Context, t *story.Teller) error {
	if err := t.Apply(ctx, statefulSet("set")); err != nil {
		return err
	}
	if err := t.Time("all three Ready", func() error {
		return t.Wait(ctx, patience, "statefulsets.apps", "set", fieldIs("3", "status", "readyReplicas"))
	}); err != nil {
		return err
	}
	hosts := map[string]bool{}
	for i := range 3 {
		node, err := nodeOf(ctx, t, fmt.Sprintf("set-%d", i))
		if err != nil {
			return err
		}
		hosts[node] = true
		if err := writesOn(ctx, t, fmt.Sprintf("set-%d", i)); err != nil {
			return err
		}
	}
	if len(hosts) != 3 {
		return fmt.Errorf("the three pods run on %d nodes", len(hosts))
	}
	return nil
}
