package pagetest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/holdfast-storage/holdfast/deploy/chart/rendertest/decode"
	"github.com/holdfast-storage/holdfast/kube/apitest"
)

// A real API server takes each manifest of the pages, and all that the chart makes of each block of values. Nothing of it is kept.
func TestAnAPIServerTakesWhatPagesHave(t *testing.T) {
	config := apitest.Start(t)
	create := creator(t, config)
	require.NoError(t, create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}, false))
	for _, path := range pages(t) {
		blocks, err := Blocks(path)
		require.NoError(t, err)
		for _, b := range blocks {
			if b.Language == "yaml" {
				t.Run(b.String(), func(t *testing.T) { takes(t, create, b) })
			}
		}
	}
	wrong := Block{Text: "apiVersion: v1\nkind: Pod\nmetadata: {name: UPPER}\nspec: {containers: [{name: a, image: a}]}\n"}
	objects, err := objectsIn(wrong)
	require.NoError(t, err)
	require.ErrorContains(t, create(unstructuredOf(t, objects[0]), true), "metadata.name")
}

func takes(t *testing.T, create func(*unstructured.Unstructured, bool) error, b Block) {
	t.Helper()
	objects, err := objectsIn(b)
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	for _, object := range objects {
		require.NoError(t, create(unstructuredOf(t, object), true))
	}
}

// objectsIn are the objects of a manifest, or what the chart makes of values.
func objectsIn(b Block) ([]runtime.Object, error) {
	if !isManifest(b.Text) {
		values, err := valuesOf(b.Text)
		if err != nil {
			return nil, err
		}
		return objectsOf(values)
	}
	kinds, err := decode.Scheme()
	if err != nil {
		return nil, err
	}
	return decoded(kinds, b.Text)
}

func unstructuredOf(t *testing.T, object runtime.Object) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: fields}
}

// creator makes objects at a server, or only asks whether it would.
func creator(t *testing.T, config *rest.Config) func(*unstructured.Unstructured, bool) error {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(apitest.Client(t, config).Discovery())
	require.NoError(t, err)
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return func(object *unstructured.Unstructured, dry bool) error {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
		if dry {
			options.DryRun = []string{metav1.DryRunAll}
		}
		resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			at := object.GetNamespace()
			if at == "" {
				at = metav1.NamespaceDefault
			}
			resource = client.Resource(mapping.Resource).Namespace(at)
		}
		_, err = resource.Create(t.Context(), object, options)
		return err
	}
}
