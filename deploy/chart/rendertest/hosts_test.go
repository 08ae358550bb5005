package rendertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
)

// cluster is one that lookup sees.
type cluster struct{ *fake.FakeDynamicClient }

func newCluster(t *testing.T, objects ...runtime.Object) cluster {
	t.Helper()
	known := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(known))
	return cluster{fake.NewSimpleDynamicClient(known, objects...)}
}

func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	switch {
	case apiVersion == "v1" && (kind == "Node" || kind == "PersistentVolume"):
		return c.Resource(schema.GroupVersionResource{Version: "v1", Resource: strings.ToLower(kind) + "s"}), false, nil
	}
	return nil, false, fmt.Errorf("the chart may not look for %s %s", apiVersion, kind)
}

// host is a node that is ready; change may make it another one.
func host(name, zone string, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}}}
	if zone != "" {
		node.Labels["topology.kubernetes.io/zone"] = zone
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, c := range change {
		c(node)
	}
	return node
}

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

const controlPlane = "node-role.kubernetes.io/control-plane"

func TestControllersGetHosts(t *testing.T) {
	for name, asked := range map[string]struct {
		nodes  []runtime.Object
		values tree
		want   []string
	}{
		"the first by name":         {nodes: []runtime.Object{host("d", ""), host("b", ""), host("a", ""), host("c", "")}, want: []string{"a", "b", "c"}},
		"one of each zone":          {nodes: []runtime.Object{host("a", "x"), host("b", "x"), host("c", "y"), host("d", "y"), host("e", "z")}, want: []string{"a", "c", "e"}},
		"a second of a zone":        {nodes: []runtime.Object{host("a", "x"), host("b", "x"), host("c", "y")}, want: []string{"a", "c", "b"}},
		"the control plane last":    {nodes: []runtime.Object{host("a", "", tainted(controlPlane)), host("b", ""), host("c", "")}, want: []string{"b", "c", "a"}},
		"none that cannot run them": {nodes: []runtime.Object{host("a", "", notReady), host("b", "", cordoned), host("c", "", tainted("gpu")), host("d", ""), host("e", ""), host("f", "")}, want: []string{"d", "e", "f"}},
		"those of the selector": {nodes: []runtime.Object{host("a", ""), host("b", "", func(n *corev1.Node) { n.Labels["pool"] = "infra" })},
			values: tree{"controller": tree{"replicas": 1, "nodeSelector": tree{"pool": "infra"}}}, want: []string{"b"}},
		"those that are named": {nodes: []runtime.Object{host("a", ""), host("b", ""), host("c", ""), host("d", "")},
			values: tree{"controller": tree{"nodes": []any{"d", "c", "b"}}}, want: []string{"d", "c", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			release := Release{KubeVersion: newest, Values: asked.values, Cluster: newCluster(t, asked.nodes...)}
			require.Equal(t, asked.want, chosen(t, render(t, release), "kubernetes.io/hostname"))
		})
	}
}

// An upgrade renders what the install did, whatever became of the nodes; a volume that was removed is made on another host.
func TestAnUpgradeKeepsTheHosts(t *testing.T) {
	nodes := []runtime.Object{host("a", ""), host("b", ""), host("c", "")}
	installed := render(t, Release{KubeVersion: newest, Cluster: newCluster(t, nodes...)})
	there := volumes(t, installed)
	later := append([]runtime.Object{host("0", ""), host("1", ""), host("2", "")}, there...)
	require.Equal(t, installed, render(t, Release{KubeVersion: newest, Cluster: newCluster(t, later...)}))

	named := Release{KubeVersion: newest, Cluster: newCluster(t, later...), Values: tree{"controller": tree{"nodes": []any{"2", "1", "0"}}}}
	require.Equal(t, []string{"a", "b", "c"}, chosen(t, render(t, named), "kubernetes.io/hostname"))

	replaced := append([]runtime.Object{host("a", ""), host("c", ""), host("d", "")}, there[0], there[2])
	require.Equal(t, []string{"a", "d", "c"}, chosen(t, render(t, Release{KubeVersion: newest, Cluster: newCluster(t, replaced...)}), "kubernetes.io/hostname"))

	five := Release{KubeVersion: newest, Cluster: newCluster(t, append(nodes[:3:3], append(there, host("d", ""), host("e", ""))...)...), Values: tree{"controller": tree{"replicas": 5}}}
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, chosen(t, render(t, five), "kubernetes.io/hostname"))
}

func TestTooFewHostsAreRefused(t *testing.T) {
	for _, helm := range []func(Release) (map[string]string, error){Helm3, Helm4} {
		_, err := helm(Release{KubeVersion: newest, Cluster: newCluster(t, host("a", ""), host("b", ""))})
		require.ErrorContains(t, err, "3 controllers need as many nodes")
	}
}

// Without a cluster hosts are found by a label that somebody gives them.
func TestHostsAreLabelledWhereThereIsNoCluster(t *testing.T) {
	require.Equal(t, []string{"0", "1", "2"}, chosen(t, render(t, Release{KubeVersion: newest}), "holdfast.storage/controller"))
}

// chosen are the hosts of the controllers' volumes in a manifest, by the label of that key.
func chosen(t *testing.T, manifest, key string) []string {
	t.Helper()
	var out []string
	for _, object := range volumes(t, manifest) {
		match := object.(*corev1.PersistentVolume).Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
		require.Equal(t, key, match.Key)
		out = append(out, match.Values...)
	}
	return out
}

// volumes are the PersistentVolumes of a manifest, as the API server has them.
func volumes(t *testing.T, manifest string) []runtime.Object {
	t.Helper()
	var out []runtime.Object
	for _, volume := range all[*corev1.PersistentVolume](objects(t, manifest)) {
		out = append(out, volume)
	}
	return out
}
