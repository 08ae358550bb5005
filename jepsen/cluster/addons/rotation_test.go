package addons

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/kubeapi"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

const passphrase = "canary of the tests alone"

// testRotation: what the tool and a job ask of a node is understood there, whatever the volume is staged for. Neither
// answers with a passphrase.
func (k *kubernetes) testRotation(t *testing.T) {
	k.create(t, kubeapi.Ref{Resource: "secrets", Namespace: namespace, Name: "sealed"},
		object{"data": fields{"holdfastToken": []byte(token), "encryptionPassphrase": []byte(passphrase)}})
	sealed := k.volumeWith(t, harness.Spec{Name: "sealed", Size: 32 * harness.Mi, Node: "n1", Parameters: map[string]string{"encrypted": "true"}}, "sealed")
	k.requireTool(t, "c1", "EncryptionKeyRotation", 1, "code = Unimplemented", "-persistentvolume="+sealed.Name)
	k.requireTool(t, "n1", "EncryptionKeyRotation", 1, "PersistentVolume name is not set")
	k.requireTool(t, "n1", "EncryptionKeyRotation", 1, "code = NotFound", "-persistentvolume="+sealed.Name)
	require.NoError(t, k.co.Publish(t.Context(), sealed, "n1"))
	k.requireTool(t, "n1", "EncryptionKeyRotation", 1, "is not staged on this node", "-persistentvolume="+sealed.Name)
	require.NoError(t, k.co.Unpublish(t.Context(), sealed))
	require.NoError(t, k.co.Delete(t.Context(), sealed))

	for _, block := range []bool{false, true} {
		v := k.volumeWith(t, harness.Spec{Name: fmt.Sprintf("plain-%t", block), Size: 32 * harness.Mi, Node: "n1", Block: block}, "sealed")
		path := k.stagingPath(v)
		k.attach(t, v, "n1", path)
		k.requireTool(t, "n1", "EncryptionKeyRotation", 1, "is not encrypted", "-persistentvolume="+v.Name)
		require.Contains(t, k.rotationJob(t, v), "is not encrypted")
		k.detach(t, v, path)
		require.NoError(t, k.co.Delete(t.Context(), v))
	}
}

// rotationJob runs an EncryptionKeyRotationJob that fails, and answers why.
func (k *kubernetes) rotationJob(t *testing.T, v *harness.Volume) string {
	t.Helper()
	ref := kubeapi.Ref{Resource: "encryptionkeyrotationjobs", Namespace: "shop", Name: v.Name}
	k.create(t, ref, object{"spec": fields{"target": fields{"persistentVolumeClaim": v.Name}, "backOffLimit": 1, "retryDeadlineSeconds": 600}})
	job := k.await(t, ref, "the job "+v.Name+" to end", func(o object) bool { return o.Text("status", "result") != "" })
	require.Equal(t, "Failed", job.Text("status", "result"))
	said := fmt.Sprint(job.Get("status", "conditions"))
	require.False(t, strings.Contains(said, passphrase), "a job shows a passphrase")
	return said
}
