package pagetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
)

// installation is what there is when the chart was installed.
type installation struct {
	objects   map[named]bool // and whether each is in the namespace
	templates map[named]corev1.PodTemplateSpec
}

// namespace is where it is installed.
const namespace = "holdfast"

// installed is what the chart makes with replicas, and what programs make beside it.
var installed = sync.OnceValues(func() (*installation, error) {
	objects, err := objectsOf(map[string]any{"node": map[string]any{"replication": map[string]any{"enabled": true}}})
	if err != nil {
		return nil, err
	}
	in := &installation{
		objects: map[named]bool{
			{"Namespace", namespace}: false,
			// kube-init makes them.
			{"ConfigMap", "holdfast-cluster"}: true, {"ConfigMap", "holdfast-ca-bundle"}: true, {"Secret", "holdfast-ca"}: true,
		},
		templates: map[named]corev1.PodTemplateSpec{},
	}
	for _, object := range objects {
		access, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		in.objects[named{object.GetObjectKind().GroupVersionKind().Kind, access.GetName()}] = access.GetNamespace() != ""
		in.addPods(object)
	}
	return in, nil
})

// addPods adds what Kubernetes makes of a set.
func (in *installation) addPods(object any) {
	switch set := object.(type) {
	case *appsv1.DaemonSet:
		in.templates[named{"DaemonSet", set.Name}] = set.Spec.Template
	case *appsv1.StatefulSet:
		in.templates[named{"StatefulSet", set.Name}] = set.Spec.Template
		for i := range *set.Spec.Replicas {
			pod := fmt.Sprintf("%s-%d", set.Name, i)
			in.objects[named{"Pod", pod}] = true
			in.templates[named{"Pod", pod}] = set.Spec.Template
			for _, claim := range set.Spec.VolumeClaimTemplates {
				in.objects[named{"PersistentVolumeClaim", claim.Name + "-" + pod}] = true
			}
		}
	}
}

// isOurs is an error for an object that the installation does not have, that is looked for elsewhere, or that has not the container.
func isOurs(object named, cmd *cobra.Command) error {
	in, err := installed()
	if err != nil {
		return err
	}
	inNamespace, known := in.objects[object]
	asked, _ := cmd.Flags().GetString("namespace")
	switch {
	case object.name == "a-pod-of-holdfast-node":
		object, inNamespace = named{"DaemonSet", "holdfast-node"}, true
	case !known:
		return fmt.Errorf("the chart makes no %s %s", object.kind, object.name)
	}
	if inNamespace && asked != namespace {
		return fmt.Errorf("%s is in the namespace %s", object.name, namespace)
	}
	container, _ := cmd.Flags().GetString("container")
	if template, ok := in.templates[object]; ok && container != "" && !hasContainer(template.Spec, container) {
		return fmt.Errorf("%s has no container %s", object.name, container)
	}
	return nil
}

func hasContainer(pod corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), func(c corev1.Container) bool { return c.Name == name })
}

// checkSelector looks for pods that the labels of -l select in the namespace.
func checkSelector(cmd *cobra.Command) error {
	text, _ := cmd.Flags().GetString("selector")
	asked, _ := cmd.Flags().GetString("namespace")
	if text == "" || asked != namespace {
		return nil
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return err
	}
	in, err := installed()
	if err != nil {
		return err
	}
	for _, template := range in.templates {
		if selector.Matches(labels.Set(template.Labels)) {
			return nil
		}
	}
	return fmt.Errorf("no pod of the chart has the labels %s", strings.TrimSpace(text))
}
