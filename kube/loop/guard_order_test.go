package loop

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// S173: what a guard does not depend on does not keep a node from being closed.
func TestS173_ANodeIsClosedWhateverElseFails(t *testing.T) {
	for _, resource := range []string{"persistentvolumeclaims", "persistentvolumes", "storageclasses"} {
		t.Run(resource, func(t *testing.T) {
			e := guardEnv(t, &writes{})
			e.kube.PrependReactor("list", resource, func(k8stesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("the server was unable to return a response in the time allotted")
			})
			e.must("n1", lost)
			for range 2 {
				require.ErrorContains(t, e.loop().Sync(t.Context()), "time allotted")
				_, closed := e.guard("n1")
				require.True(t, closed)
			}
		})
	}
	e := guardEnv(t, &writes{})
	e.log.volumesErr = errors.New("volumes: message larger than max")
	e.must("n1", lost)
	require.ErrorContains(t, e.loop().Sync(t.Context()), "larger than max")
	_, closed := e.guard("n1")
	require.True(t, closed)
}

// S173: nodes are closed before guards of nodes that are gone are removed: the API server may take its time for these.
func TestS173_NodesAreClosedBeforeWhatIsLeftGoes(t *testing.T) {
	e := guardEnv(t, &writes{})
	e.log.nodes = append(e.log.nodes, &adminpb.Node{Id: "n3", State: "reachable", Adopted: true})
	e.must("n3", lost)
	e.sync()
	e.quietly(func() { require.NoError(t, e.kube.CoreV1().Nodes().Delete(t.Context(), "n3", metav1.DeleteOptions{})) })
	e.log.nodes = e.log.nodes[:2]
	e.must("n1", lost)
	removed := 0
	e.onDelete = func(runtime.Object) {
		removed++
		require.NotNil(t, e.budgetOf(e.podOf("n1")))
	}
	e.sync()
	require.Equal(t, 2, removed)
}

// podOf is the guard on a node, also in the middle of a write.
func (e *env) podOf(node string) *corev1.Pod {
	object, err := e.kube.Tracker().Get(podKind, "holdfast", "holdfast-drain-"+node)
	require.NoError(e.t, err)
	return object.(*corev1.Pod)
}
