package rendertest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What Kubernetes does not let an upgrade change, as it was in the first release. A line here that differs from what is
// rendered is an upgrade that fails with "field is immutable": change the chart back, not the line.
var immutable = map[string]string{
	"StatefulSet serviceName":          `"holdfast-controller"`,
	"StatefulSet podManagementPolicy":  `"Parallel"`,
	"StatefulSet selector":             `{"matchLabels":{"app.kubernetes.io/component":"controller","app.kubernetes.io/instance":"holdfast","app.kubernetes.io/name":"holdfast"}}`,
	"StatefulSet volumeClaimTemplates": `[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"10Gi"}},"storageClassName":""},"status":{}}]`,
	"DaemonSet selector":               `{"matchLabels":{"app.kubernetes.io/component":"node","app.kubernetes.io/instance":"holdfast","app.kubernetes.io/name":"holdfast"}}`,
	"CSIDriver attachRequired":         `true`,
	"CSIDriver volumeLifecycleModes":   `["Persistent"]`,
	"StorageClass holdfast-local":      `["csi.holdfast.storage",null,"Delete","WaitForFirstConsumer"]`,
	"StorageClass holdfast-encrypted":  `["csi.holdfast.storage",{"csi.storage.k8s.io/node-expand-secret-name":"${pvc.name}-encryption","csi.storage.k8s.io/node-expand-secret-namespace":"${pvc.namespace}","csi.storage.k8s.io/node-stage-secret-name":"${pvc.name}-encryption","csi.storage.k8s.io/node-stage-secret-namespace":"${pvc.namespace}","encrypted":"true"},"Delete","WaitForFirstConsumer"]`,
}

func TestImmutableFieldsStay(t *testing.T) {
	require.Equal(t, immutable, fixed(t, render(t, Release{KubeVersion: newest})))
}

// Values that may be changed at an upgrade change none of them. The others say so in values.yaml: controller.storage, and the
// parameters of a class.
func TestNoOtherValueChangesAnImmutableField(t *testing.T) {
	values := tree{
		"site": "B", "logLevel": "debug", "nodeTimeout": "30s", "zoneFromNode": true, "csiDriver": tree{"seLinuxMount": true},
		"global":     tree{"imageRegistry": "registry.example.com"},
		"pki":        tree{"mode": "certManager", "certManager": tree{"issuerName": "x"}},
		"controller": tree{"replicas": 5, "podLabels": tree{"a": "b"}, "podAnnotations": tree{"a": "b"}, "podDisruptionBudget": tree{"enabled": false}},
		"node":       tree{"podLabels": tree{"a": "b"}, "maxVolumes": 10, "kubeletDir": "/var/lib/k0s/kubelet"},
		"kube":       tree{"enabled": false}, "snapshots": tree{"enabled": true}, "csiAddons": tree{"enabled": true},
	}
	require.Equal(t, immutable, fixed(t, render(t, Release{KubeVersion: newest, APIs: everyAPI, Values: values})))
}

// fixed are the immutable fields of a manifest's objects.
func fixed(t *testing.T, manifest string) map[string]string {
	t.Helper()
	out := map[string]string{}
	list := objects(t, manifest)
	for _, set := range all[*appsv1.StatefulSet](list) {
		out["StatefulSet serviceName"] = spell(t, set.Spec.ServiceName)
		out["StatefulSet podManagementPolicy"] = spell(t, set.Spec.PodManagementPolicy)
		out["StatefulSet selector"] = spell(t, set.Spec.Selector)
		out["StatefulSet volumeClaimTemplates"] = spell(t, set.Spec.VolumeClaimTemplates)
	}
	for _, set := range all[*appsv1.DaemonSet](list) {
		out["DaemonSet selector"] = spell(t, set.Spec.Selector)
	}
	return classes(t, list, out)
}

func classes(t *testing.T, list []runtime.Object, out map[string]string) map[string]string {
	t.Helper()
	for _, driver := range all[*storagev1.CSIDriver](list) {
		out["CSIDriver attachRequired"] = spell(t, driver.Spec.AttachRequired)
		out["CSIDriver volumeLifecycleModes"] = spell(t, driver.Spec.VolumeLifecycleModes)
	}
	for _, class := range all[*storagev1.StorageClass](list) {
		out["StorageClass "+class.Name] = spell(t, []any{class.Provisioner, class.Parameters, class.ReclaimPolicy, class.VolumeBindingMode})
	}
	return out
}

func spell(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}
