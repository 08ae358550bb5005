// Package stories has what is shown of Holdfast on a real Kubernetes, in the order in which it is told.
package stories

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/image"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// Classes of the chart: volumes are made on the host of their first pod, or at once.
const late, immediate = "holdfast-local", "holdfast-restore"

// xfs is late with XFS. The kernel grows an ext4 that is in use only for CAP_SYS_RESOURCE, which not every host lets its root have.
const xfs = "holdfast-xfs"

// claim is a PersistentVolumeClaim.
type claim struct {
	name, class, size string
	modes             string // access modes, ReadWriteOnce when empty
	from              string // data source as KIND/NAME
	attributes        string // VolumeAttributesClass
}

func (c claim) manifest() string {
	modes, extra := c.modes, ""
	if modes == "" {
		modes = "ReadWriteOnce"
	}
	if kind, name, ok := strings.Cut(c.from, "/"); ok {
		extra += fmt.Sprintf("\n  dataSource: {kind: %s, name: %s", kind, name)
		if kind == "VolumeSnapshot" {
			extra += ", apiGroup: snapshot.storage.k8s.io"
		}
		extra += "}"
	}
	if c.attributes != "" {
		extra += "\n  volumeAttributesClassName: " + c.attributes
	}
	return fmt.Sprintf(`apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec:
  accessModes: [%s]
  storageClassName: %s
  resources: {requests: {storage: %s}}%s
---
`, c.name, modes, c.class, c.size, extra)
}

// pod runs a shell command with a claim at /data.
type pod struct {
	name, claim, command string
	node                 string // empty: any
	mount                string // more of the mount, as "subPath: a"
	spec                 string // more of the spec, a line each
	volume               string // the volume in the place of the claim
}

// keep is what a pod does that is only to hold its volume.
const keep = "exec sleep 1000000"

func (p pod) manifest() string {
	command, volume, extra := p.command, p.volume, ""
	if command == "" {
		command = keep
	}
	if volume == "" {
		volume = "persistentVolumeClaim: {claimName: " + p.claim + "}"
	}
	if p.node != "" {
		extra += "\n  nodeSelector: {kubernetes.io/hostname: " + p.node + "}"
	}
	if p.spec != "" {
		extra += "\n  " + p.spec
	}
	mount := ""
	if p.mount != "" {
		mount = ", " + p.mount
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}}
spec:
  terminationGracePeriodSeconds: 1%s
  containers:
  - name: main
    image: %s
    command: [sh, -c, %q]
    volumeMounts: [{name: data, mountPath: /data%s}]
  volumes:
  - {name: data, %s}
---
`, p.name, p.name, extra, image.Busybox, command, mount, volume)
}

// patience is how long anything may take that takes seconds on a machine that is not busy.
const patience = 3 * time.Minute

func running(ctx context.Context, t *story.Teller, name string) error {
	return t.Wait(ctx, patience, "pods", name, kit.Condition("Ready"))
}

func bound(ctx context.Context, t *story.Teller, name string) error {
	return t.Wait(ctx, patience, "persistentvolumeclaims", name, kit.Phase("Bound"))
}

func gone(ctx context.Context, t *story.Teller, resource, name string) error {
	if err := t.Delete(ctx, resource, name, false); err != nil {
		return err
	}
	return t.Gone(ctx, patience, resource, name)
}

// start makes a claim and a pod with it, and waits until the pod runs.
func start(ctx context.Context, t *story.Teller, c claim, p pod) error {
	if p.claim == "" {
		p.claim = c.name
	}
	if err := t.Apply(ctx, c.manifest()+p.manifest()); err != nil {
		return err
	}
	return running(ctx, t, p.name)
}

// expect runs a command in a pod and wants this output.
func expect(ctx context.Context, t *story.Teller, pod, command, want string) error {
	got, err := t.Exec(ctx, pod, command)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("in the pod %s %q says %q, not %q", pod, command, got, want)
	}
	return nil
}

// write has a pod write a megabyte that is like no other, durably, and returns its sum.
func write(ctx context.Context, t *story.Teller, pod, file string) (string, error) {
	return t.Exec(ctx, pod, fmt.Sprintf("dd if=/dev/urandom of=/data/%[1]s bs=1M count=1 conv=fsync 2>/dev/null && md5sum </data/%[1]s", file))
}

// same wants the file that write wrote.
func same(ctx context.Context, t *story.Teller, pod, file, sum string) error {
	return expect(ctx, t, pod, "md5sum </data/"+file, sum)
}

// all does one thing after another until one fails.
func all(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
