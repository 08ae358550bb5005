package stories

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/image"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// statefulSet is one whose pods are on nodes of their own, and write.
type statefulSet struct {
	name, class, size string
	replicas          int
}

// three is a set with a pod on each of three nodes.
func three(name string) statefulSet {
	return statefulSet{name: name, class: late, size: "1Gi", replicas: 3}
}

func (s statefulSet) manifest() string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %[1]s}
spec:
  serviceName: %[1]s
  replicas: %[2]d
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
        image: %[3]s
        command: [sh, -c, %[4]q]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: %[5]s, resources: {requests: {storage: %[6]s}}}
`, s.name, s.replicas, image.Busybox, writeOn, s.class, s.size)
}

func tellStatefulSet(ctx context.Context, t *story.Teller) error {
	if err := t.Apply(ctx, three("set").manifest()); err != nil {
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
