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
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/image"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var pages = story.Story{
	Name: "pages", Tells: "every command of the pages for users that no other story runs is run as it stands there, in the end those that remove Holdfast for good: nothing of it is left in the cluster or on the hosts",
	Limit: 40 * time.Minute, Tell: tellPages, Needs: byLateNode,
}

// reader is somebody who types what the pages have.
type reader struct {
	*story.Teller
	folder    string            // where that is typed
	variables map[string]string // what those of the pages stand for
	ran       int
	refused   []string
}

func tellPages(ctx context.Context, t *story.Teller) error {
	r, err := newReader(ctx, t)
	if err != nil {
		return err
	}
	commands, err := readPages(r.docs())
	if err != nil {
		return err
	}
	for _, c := range commands {
		if _, ok := foundIn(toldElsewhere, c.Line); ok {
			continue
		}
		if err := r.types(ctx, c); err != nil {
			return fmt.Errorf("%s.md: %s: %w", c.Page, c.Line, err)
		}
	}
	t.Note("%d of %d commands were run; these refused, as there was no cause for them: %s", r.ran, len(commands), strings.Join(r.refused, "; "))
	return nothingLeft(ctx, t)
}

func (r *reader) docs() string {
	return filepath.Join(filepath.Dir(filepath.Dir(r.Settings.Chart)), "docs")
}

// newReader has a folder with what the pages name.
func newReader(ctx context.Context, t *story.Teller) (*reader, error) {
	r := &reader{Teller: t, folder: filepath.Join(t.Cluster.Dir, "reader")}
	if err := errors.Join(os.RemoveAll(r.folder), os.MkdirAll(filepath.Join(r.folder, "ca"), 0o700)); err != nil {
		return nil, err
	}
	return r, r.files(ctx)
}

// startPod starts the pod with a claim that the pages are about, once: a cluster in which a volume is in use is none for the drills of the
// page about the install, for hosts that share a kernel see each other's devices.
func (r *reader) startPod(ctx context.Context) error {
	if r.variables != nil {
		return nil
	}
	if err := start(ctx, r.Teller, claim{name: "data", class: late, size: "1Gi", attributes: "silver"}, pod{name: "db-0"}); err != nil {
		return err
	}
	return r.names(ctx)
}

// files are those that a reader has by then.
func (r *reader) files(ctx context.Context) error {
	first, err := firstManifest(r.docs())
	if err != nil {
		return err
	}
	bundle, err := r.In(namespace).Get(ctx, "configmaps", "holdfast-ca-bundle")
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(r.folder, name) }
	return errors.Join(
		os.Symlink(filepath.Dir(r.Settings.Chart), in("deploy")), os.Symlink(valuesFile(r.Teller), in("values.yaml")),
		os.WriteFile(in("first.yaml"), []byte(strings.Replace(first, "image: busybox", "image: "+image.Busybox, 1)), 0o600),
		os.WriteFile(in("ca/ca.crt"), []byte(kit.Text(bundle, "data", "ca.crt")), 0o600),
		os.WriteFile(in("passphrase"), []byte("a passphrase that is long enough"), 0o600),
	)
}

// names are what the variables of the pages stand for.
func (r *reader) names(ctx context.Context) error {
	volume, err := volumeOf(ctx, r.Teller, "data")
	if err != nil {
		return err
	}
	handle, err := handleOf(ctx, r.Teller, "data")
	if err != nil {
		return err
	}
	attachment, err := attachmentOf(ctx, r.Teller, volume)
	if err != nil {
		return err
	}
	node := cluster.NodeName(r.Cluster.Nodes)
	nodePod, err := r.In(namespace).Kubectl(ctx, "get", "pods", "-l", "app.kubernetes.io/component=node", "--field-selector", "spec.nodeName="+node, "-o", "jsonpath={.items[0].metadata.name}")
	r.variables = map[string]string{
		"NAMESPACE": r.Namespace, "POD": "db-0", "CLAIM": "data", "VOLUME": volume, "VOLUME_ID": handle, "NODE": node, "NODE_POD": nodePod,
		"CONTROLLER_POD": controllerName(0), "ATTACHMENT": attachment, "ZONE": "a", "REGISTRY": "registry.example.com:5000", "USER": "alice", "PASSWORD": "secret",
		"FILE": "passphrase",
	}
	return err
}

// attachmentOf is the name of the attachment of a volume.
func attachmentOf(ctx context.Context, t *story.Teller, volume string) (string, error) {
	all, err := t.List(ctx, "volumeattachments", "")
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if kit.Text(&a, "spec", "source", "persistentVolumeName") == volume {
			return a.GetName(), nil
		}
	}
	return "", fmt.Errorf("the volume %s is attached nowhere", volume)
}

// types does what a command needs done before it, and runs it.
func (r *reader) types(ctx context.Context, c command) error {
	if c.Page != "install" {
		if err := r.startPod(ctx); err != nil {
			return fmt.Errorf("start the pod: %w", err)
		}
	}
	if before := beforehand[c.Line]; before != nil {
		if err := before(ctx, r); err != nil {
			return fmt.Errorf("prepare it: %w", err)
		}
	}
	switch {
	case strings.HasPrefix(c.Line, "umount "):
		r.ran++
		return r.onEveryNode(ctx, c.Line)
	case c.Line == "rm -rf /var/lib/holdfast":
		r.ran++
		return r.onEveryNode(ctx, c.Line+` || test -z "$(ls -A /var/lib/holdfast)"`) // which is itself a mount of these machines
	}
	if c.Page == "install" || c.Page == "air-gap" {
		if strings.HasPrefix(c.Line, "helm install ") {
			return nil // the page about removing has it again, when it can be
		}
	}
	return r.run(ctx, c.Line)
}

func (r *reader) run(ctx context.Context, line string) error {
	env, err := environment(r.Teller)
	if err != nil {
		return err
	}
	env = append(env, "NODE="+cluster.NodeName(r.Cluster.Nodes))
	for name, value := range r.variables {
		env = append(env, name+"="+value)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	r.ran++
	out, err := r.Run(ctx, env, "sh", "-ec", "cd "+r.folder+"\n"+line)
	if says, ok := foundIn(mayRefuse, line); ok && err != nil && strings.Contains(out+err.Error(), says) {
		r.refused = append(r.refused, line)
		return nil
	}
	if err != nil {
		err = fmt.Errorf("%w; it printed %s", err, out)
	}
	return err
}

func (r *reader) onEveryNode(ctx context.Context, line string) error {
	for n := 1; n <= r.Cluster.Nodes; n++ {
		if _, err := r.Cluster.Node(n).Exec(ctx, "sh", "-ec", line); err != nil {
			return err
		}
	}
	return nil
}

// beforehand is what has to be so before a command.
var beforehand = map[string]func(context.Context, *reader) error{
	"kubectl holdfast backup $FILE": func(_ context.Context, r *reader) error {
		r.variables["FILE"] = "backup"
		return nil
	},
	"kubectl get pv -o custom-columns=NAME:.metadata.name,DRIVER:.spec.csi.driver,CLAIM:.spec.claimRef.name": func(ctx context.Context, r *reader) error {
		return errors.Join(gone(ctx, r.Teller, "pods", r.variables["POD"]), gone(ctx, r.inDefault(), "pods", "first"), gone(ctx, r.inDefault(), "persistentvolumeclaims", "first"))
	},
	"kubectl holdfast volumes orphans $VOLUME_ID --yes": func(ctx context.Context, r *reader) error {
		return all(func() error { return listed.make(ctx, r.Teller) }, func() error { return leaveAnOrphan(ctx, r, "forgotten") })
	},
	"kubectl holdfast volumes delete $VOLUME_ID --even-if-orchestrated --yes": func(ctx context.Context, r *reader) error {
		return gone(ctx, r.Teller, "persistentvolumeclaims", listed.name) // and the orphan, which was too young, is named here
	},
	"kubectl drain $NODE --ignore-daemonsets --delete-emptydir-data": removeFirst,
}

func (r *reader) inDefault() *story.Teller {
	t := *r.Teller
	t.Kit = r.In("default")
	return &t
}

// removeFirst deletes the pod of the first volume, which is nobody's: no drain takes such a pod away.
func removeFirst(ctx context.Context, r *reader) error {
	return errors.Join(gone(ctx, r.inDefault(), "pods", "first"), gone(ctx, r.Teller, "pods", r.variables["POD"]))
}

// listed is a claim whose volume Kubernetes has: where it has none, nothing is compared.
var listed = claim{name: "known", class: immediate, size: "100Mi"}

// make makes the claim, and waits for its volume.
func (c claim) make(ctx context.Context, t *story.Teller) error {
	return errors.Join(t.Apply(ctx, c.manifest()), bound(ctx, t, c.name))
}

// leaveAnOrphan makes a volume of which Kubernetes knows nothing any more, as one with Retain whose objects were deleted by hand.
func leaveAnOrphan(ctx context.Context, r *reader, name string) error {
	if err := (claim{name: name, class: immediate, size: "100Mi"}).make(ctx, r.Teller); err != nil {
		return err
	}
	volume, err := volumeOf(ctx, r.Teller, name)
	if err != nil {
		return err
	}
	if r.variables["VOLUME_ID"], err = handleOf(ctx, r.Teller, name); err != nil {
		return err
	}
	return all(
		func() error {
			return r.Patch(ctx, "persistentvolumes", volume, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
		},
		func() error { return gone(ctx, r.Teller, "persistentvolumeclaims", name) },
		func() error { return gone(ctx, r.Teller, "persistentvolumes", volume) },
	)
}

// nothingLeft wants nothing of Holdfast in the cluster, nor on any host.
func nothingLeft(ctx context.Context, t *story.Teller) error {
	var left []string
	for _, kind := range []string{
		"namespaces", "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io", "csidrivers", "storageclasses", "priorityclasses",
		"persistentvolumes", "volumeattachments", "volumesnapshotclasses", "volumeattributesclasses",
	} {
		found, err := t.List(ctx, kind, "")
		if err != nil {
			return err
		}
		for _, o := range found {
			if strings.Contains(o.GetName(), "holdfast") || strings.Contains(fmt.Sprint(o.Object["spec"]), driver) {
				left = append(left, kind+" "+o.GetName())
			}
		}
	}
	for n := 1; n <= t.Cluster.Nodes; n++ {
		out, err := t.Cluster.Node(n).Exec(ctx, "sh", "-c", "ls -d /var/lib/holdfast/* 2>/dev/null; grep -h holdfast /proc/self/mounts | grep -v ' /var/lib/holdfast '") // a mount of these machines
		if out != "" || err == nil {
			left = append(left, fmt.Sprintf("%s: %s", cluster.NodeName(n), out))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("this is left: %s", strings.Join(left, "; "))
	}
	return nil
}
