package rendertest

import (
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	csiaddonsv1alpha1 "github.com/csi-addons/kubernetes-csi-addons/api/csiaddons/v1alpha1"
	replicationv1alpha1 "github.com/csi-addons/kubernetes-csi-addons/api/replication.storage/v1alpha1"
	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-storage/holdfast/deploy/chart/rendertest/decode"
)

// scheme has every kind that the chart makes but that one.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	out, err := decode.Scheme()
	require.NoError(t, err)
	for _, add := range []func(*runtime.Scheme) error{
		snapshotv1.AddToScheme, groupsnapshotv1.AddToScheme, monitoringv1.AddToScheme, certmanagerv1.AddToScheme,
		csiaddonsv1alpha1.AddToScheme, replicationv1alpha1.AddToScheme,
	} {
		require.NoError(t, add(out))
	}
	return out
}

// objects are those of a rendering, in their types. Fields that a type does not have, and fields twice, fail the test.
func objects(t *testing.T, manifest string) []runtime.Object {
	t.Helper()
	documents, err := decode.Documents([]byte(manifest))
	require.NoError(t, err)
	known := scheme(t)
	var out []runtime.Object
	for _, document := range documents {
		object, err := decode.Strict(known, document)
		if runtime.IsNotRegisteredError(err) {
			isMetadataService(t, document)
			continue
		}
		require.NoError(t, err, "%s", document)
		out = append(out, object)
	}
	return out
}

// isMetadataService holds the one kind whose types are in no module that can be had against its fields, as
// cbt.storage.k8s.io has them.
func isMetadataService(t *testing.T, document []byte) {
	t.Helper()
	var got struct {
		APIVersion, Kind string
		Metadata         struct {
			Name   string
			Labels map[string]string
		}
		Spec struct {
			Audience, Address string
			CACert            []byte `json:"caCert"`
		}
	}
	require.NoError(t, yaml.UnmarshalStrict(document, &got), "%s", document)
	require.Equal(t, "cbt.storage.k8s.io/v1beta1 SnapshotMetadataService", got.APIVersion+" "+got.Kind)
	require.Equal(t, "csi.holdfast.storage", got.Metadata.Name)
	require.NotEmpty(t, got.Spec.Audience)
	require.NotEmpty(t, got.Spec.Address)
	require.NotEmpty(t, got.Spec.CACert)
}

// all are the objects of one type.
func all[T runtime.Object](list []runtime.Object) []T {
	var out []T
	for _, object := range list {
		if typed, ok := object.(T); ok {
			out = append(out, typed)
		}
	}
	return out
}

// podSpecs are those of the objects that make pods, by name.
func podSpecs(list []runtime.Object) map[string]corev1.PodSpec {
	out := map[string]corev1.PodSpec{}
	for _, set := range all[*appsv1.StatefulSet](list) {
		out[set.Name] = set.Spec.Template.Spec
	}
	for _, set := range all[*appsv1.DaemonSet](list) {
		out[set.Name] = set.Spec.Template.Spec
	}
	return out
}

func TestEveryObjectDecodesStrictly(t *testing.T) {
	for path := range sets {
		t.Run(path, func(t *testing.T) {
			require.NotEmpty(t, objectsOfSet(t, path))
		})
	}
}
